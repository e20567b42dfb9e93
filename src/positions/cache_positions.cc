// SPDX-License-Identifier: Apache-2.0
// Positions and slots of a cache that forgets or is paged: what a window with sinks keeps (Xiao et al. 2024,
// Efficient Streaming Language Models with Attention Sinks, section 3.2), and where a token is stored.
#include <numeric>
#include <stdexcept>

#include <fmt/format.h>

#include "core/checked.h"
#include "locant/positions.h"

namespace locant {
namespace {

void require_window(std::string_view who, const CacheWindow& window, std::int64_t least) {
  if (window.sinks < 0) {
    throw SpecError(fmt::format("{}: sinks must be at least 0, got {}", who, window.sinks));
  }
  if (window.window < least || !checked_add(window.sinks, window.window)) {
    throw SpecError(fmt::format("{}: window must be at least {} and fit in 64 bits beside {} sinks, got {}",
                                who, least, window.sinks, window.window));
  }
}

}  // namespace

CachedTokens cached_tokens(std::int64_t seen, const CacheWindow& window) {
  if (seen < 0) throw SpecError(fmt::format("cached_tokens: seen must be at least 0, got {}", seen));
  require_window("cached_tokens", window, 0);
  CachedTokens kept;
  for (std::int64_t token = 0; token < seen; ++token) {
    if (window.window > 0 && token >= window.sinks && token < seen - window.window) {
      token = seen - window.window;
    }
    kept.tokens.push_back(token);
  }
  kept.positions = kept.tokens;
  if (window.recount == Recount::in_cache) {
    std::iota(kept.positions.begin(), kept.positions.end(), std::int64_t{0});
  }
  return kept;
}

std::vector<std::int64_t> paged_slots(std::span<const std::int64_t> positions,
                                      std::span<const std::int64_t> table, std::int64_t page) {
  if (page < 1) throw SpecError(fmt::format("paged_slots: page must be at least 1 token, got {}", page));
  std::vector<std::int64_t> slots;
  slots.reserve(positions.size());
  for (const std::int64_t position : positions) {
    if (position < 0) {
      slots.push_back(-1);
      continue;
    }
    const std::int64_t entry = position / page;
    if (entry >= static_cast<std::int64_t>(table.size())) {
      throw std::out_of_range(
          fmt::format("paged_slots: position {} is in page {} of a table of {} pages of {}", position, entry,
                      table.size(), page));
    }
    const std::int64_t block = table[static_cast<std::size_t>(entry)];
    const std::optional<std::int64_t> first = checked_mul(block, page);
    const std::optional<std::int64_t> slot = first ? checked_add(*first, position % page) : std::nullopt;
    if (block < 0 || !slot) {
      throw SpecError(
          fmt::format("paged_slots: a block is at least 0 and its slots fit in 64 bits, got {} at page {}",
                      block, entry));
    }
    slots.push_back(*slot);
  }
  return slots;
}

std::vector<std::int64_t> ring_slots(std::span<const std::int64_t> positions, const CacheWindow& window) {
  require_window("ring_slots", window, 1);
  std::vector<std::int64_t> slots;
  slots.reserve(positions.size());
  for (const std::int64_t position : positions) {
    if (position < window.sinks) {
      slots.push_back(position < 0 ? -1 : position);
    } else {
      slots.push_back(window.sinks + (position - window.sinks) % window.window);
    }
  }
  return slots;
}

}  // namespace locant

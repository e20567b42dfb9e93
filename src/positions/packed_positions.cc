// SPDX-License-Identifier: Apache-2.0
// Documents packed in one row, and prompts cut in chunks: positions restart at every document, boundaries
// ("cu_seqlens"), segments and positions say the same thing in three ways.
#include <algorithm>

#include <fmt/format.h>

#include "core/checked.h"
#include "locant/positions.h"
#include "positions/checks.h"

namespace locant {

std::vector<std::int64_t> packed_positions(std::span<const std::int64_t> boundaries,
                                           std::span<const std::int64_t> starts) {
  require_boundaries("packed_positions", boundaries);
  const std::size_t documents = boundaries.size() - 1;
  if (!starts.empty() && starts.size() != documents) {
    throw SpecError(
        fmt::format("packed_positions: starts are one per document or none, got {} for {} documents",
                    starts.size(), documents));
  }
  for (std::size_t d = 0; d < starts.size(); ++d) {
    require_run("packed_positions", starts[d], boundaries[d + 1] - boundaries[d]);
  }
  std::vector<std::int64_t> positions;
  positions.reserve(static_cast<std::size_t>(boundaries.back()));
  for (std::size_t d = 0; d < documents; ++d) {
    const std::int64_t start = starts.empty() ? 0 : starts[d];
    for (std::int64_t t = boundaries[d]; t < boundaries[d + 1]; ++t) {
      positions.push_back(start + (t - boundaries[d]));
    }
  }
  return positions;
}

std::vector<std::int64_t> boundaries_to_segments(std::span<const std::int64_t> boundaries) {
  require_boundaries("boundaries_to_segments", boundaries);
  std::vector<std::int64_t> segments;
  segments.reserve(static_cast<std::size_t>(boundaries.back()));
  for (std::size_t d = 0; d + 1 < boundaries.size(); ++d) {
    segments.resize(static_cast<std::size_t>(boundaries[d + 1]), static_cast<std::int64_t>(d));
  }
  return segments;
}

std::vector<std::int64_t> segments_to_boundaries(std::span<const std::int64_t> segments) {
  std::vector<std::int64_t> boundaries{0};
  for (std::size_t t = 1; t < segments.size(); ++t) {
    if (segments[t] != segments[t - 1]) boundaries.push_back(static_cast<std::int64_t>(t));
  }
  if (!segments.empty()) boundaries.push_back(static_cast<std::int64_t>(segments.size()));
  return boundaries;
}

std::vector<std::int64_t> positions_to_boundaries(std::span<const std::int64_t> positions) {
  std::vector<std::int64_t> boundaries{0};
  for (std::size_t t = 1; t < positions.size(); ++t) {
    if (checked_add(positions[t - 1], 1) != positions[t]) boundaries.push_back(static_cast<std::int64_t>(t));
  }
  if (!positions.empty()) boundaries.push_back(static_cast<std::int64_t>(positions.size()));
  return boundaries;
}

std::vector<TokenRun> prefill_chunks(std::int64_t tokens, std::int64_t chunk) {
  if (tokens < 0) throw SpecError(fmt::format("prefill_chunks: tokens must be at least 0, got {}", tokens));
  if (chunk < 1) throw SpecError(fmt::format("prefill_chunks: chunk must be at least 1, got {}", chunk));
  std::vector<TokenRun> runs;
  for (std::int64_t first = 0; first < tokens;) {
    const std::int64_t count = std::min(chunk, tokens - first);
    runs.push_back({first, count});
    first += count;
  }
  return runs;
}

}  // namespace locant

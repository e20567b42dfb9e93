// SPDX-License-Identifier: Apache-2.0
// Position ids: where each token of a call stands in its own sequence. Padding has no position; it gets a
// value that its runtime writes and that nothing may depend on.
#include <algorithm>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "core/checked.h"
#include "locant/positions.h"
#include "positions/checks.h"

namespace locant {
namespace {

std::vector<std::int64_t> run_of(std::int64_t start, std::int64_t tokens) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(tokens));
  std::iota(positions.begin(), positions.end(), start);
  return positions;
}

}  // namespace

std::vector<std::int64_t> text_positions(std::int64_t tokens, std::int64_t start) {
  require_run("text_positions", start, tokens);
  return run_of(start, tokens);
}

std::vector<std::int64_t> continued_positions(std::int64_t last, std::int64_t tokens) {
  const std::optional<std::int64_t> start = checked_add(last, 1);
  if (!start) {
    throw SpecError(fmt::format("continued_positions: positions must fit in 64 bits, got last {}", last));
  }
  require_run("continued_positions", *start, tokens);
  return run_of(*start, tokens);
}

void masked_positions(View<const std::int64_t, 2> mask, std::int64_t start, std::int64_t pad_value,
                      View<std::int64_t, 2> out) {
  if (mask.shape() != out.shape()) {
    throw SpecError(fmt::format("masked_positions: out has the shape of the mask [{},{}], got [{},{}]",
                                mask.extent(0), mask.extent(1), out.extent(0), out.extent(1)));
  }
  require_run("masked_positions", start, mask.extent(1));
  require_mask("masked_positions", mask);
  for (std::int64_t b = 0; b < mask.extent(0); ++b) {
    std::int64_t next = start;
    for (std::int64_t t = 0; t < mask.extent(1); ++t) out(b, t) = mask(b, t) == 1 ? next++ : pad_value;
  }
}

void masked_tail_positions(View<const std::int64_t, 2> mask, std::int64_t pad_value,
                           View<std::int64_t, 2> out) {
  const std::int64_t past = mask.extent(1) - out.extent(1);
  if (mask.extent(0) != out.extent(0) || past < 0) {
    throw SpecError(
        fmt::format("masked_tail_positions: out holds the last columns of the mask [{},{}], got [{},{}]",
                    mask.extent(0), mask.extent(1), out.extent(0), out.extent(1)));
  }
  require_mask("masked_tail_positions", mask);
  for (std::int64_t b = 0; b < mask.extent(0); ++b) {
    std::int64_t next = 0;
    for (std::int64_t t = 0; t < mask.extent(1); ++t) {
      const std::int64_t position = mask(b, t) == 1 ? next++ : pad_value;
      if (t >= past) out(b, t - past) = position;
    }
  }
}

void pad_offset_positions(View<const std::int64_t, 2> ids, std::int64_t pad_id, std::int64_t past,
                          View<std::int64_t, 2> out) {
  if (ids.shape() != out.shape()) {
    throw SpecError(fmt::format("pad_offset_positions: out has the shape of the ids [{},{}], got [{},{}]",
                                ids.extent(0), ids.extent(1), out.extent(0), out.extent(1)));
  }
  if (pad_id < 0) {
    throw SpecError(fmt::format("pad_offset_positions: pad_id must be at least 0, got {}", pad_id));
  }
  if (past < 0) throw SpecError(fmt::format("pad_offset_positions: past must be at least 0, got {}", past));
  const std::optional<std::int64_t> start = checked_add(past, pad_id);
  if (!start || *start == std::numeric_limits<std::int64_t>::max()) {
    throw SpecError(fmt::format(
        "pad_offset_positions: positions must fit in 64 bits, got pad_id {} and past {}", pad_id, past));
  }
  require_run("pad_offset_positions", *start + 1, ids.extent(1));
  for (std::int64_t b = 0; b < ids.extent(0); ++b) {
    std::int64_t next = *start + 1;
    for (std::int64_t t = 0; t < ids.extent(1); ++t) out(b, t) = ids(b, t) == pad_id ? pad_id : next++;
  }
}

PaddedBatch pad_batch(std::span<const std::vector<std::int64_t>> rows, Padding padding, std::int64_t pad_id,
                      std::int64_t pad_value, std::span<const std::int64_t> starts) {
  if (!starts.empty() && starts.size() != rows.size()) {
    throw SpecError(fmt::format("pad_batch: starts are one per row or none, got {} for {} rows",
                                starts.size(), rows.size()));
  }
  std::size_t width = 0;
  for (const auto& row : rows) width = std::max(width, row.size());
  for (std::size_t b = 0; b < rows.size(); ++b) {
    if (padding == Padding::none && rows[b].size() != width) {
      throw SpecError(
          fmt::format("pad_batch: rows without padding are of equal length, got {} at row {} and {}",
                      rows[b].size(), b, width));
    }
    if (!starts.empty()) require_run("pad_batch", starts[b], static_cast<std::int64_t>(rows[b].size()));
  }
  PaddedBatch batch;
  batch.width = static_cast<std::int64_t>(width);
  batch.ids.assign(rows.size() * width, pad_id);
  batch.mask.assign(rows.size() * width, 0);
  batch.positions.assign(rows.size() * width, pad_value);
  for (std::size_t b = 0; b < rows.size(); ++b) {
    const std::size_t first = b * width + (padding == Padding::left ? width - rows[b].size() : 0);
    for (std::size_t t = 0; t < rows[b].size(); ++t) {
      batch.ids[first + t] = rows[b][t];
      batch.mask[first + t] = 1;
      batch.positions[first + t] = (starts.empty() ? 0 : starts[b]) + static_cast<std::int64_t>(t);
    }
  }
  return batch;
}

}  // namespace locant

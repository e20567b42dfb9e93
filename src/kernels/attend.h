// SPDX-License-Identifier: Apache-2.0
// Attention of a block of query rows over a span of slots of one key-value head.
#pragma once

#include <algorithm>
#include <cstdint>

#include "locant/core.h"

namespace locant::kernels {

/// Widths of keys and values that one call can hold in its fixed scratch.
inline constexpr std::int64_t kAttendWidth = 1024;
/// Spans of slots are multiples of this.
inline constexpr std::int64_t kAttendSpan = 1024;

/// Floats that the queries of one block may take, and its rows.
inline constexpr std::int64_t kAttendFloats = 24576;
inline constexpr std::int64_t kAttendRows = 192;

/// Query rows of one block, at most; a multiple of 16.
[[nodiscard]] constexpr std::int64_t attend_rows(std::int64_t key_width, std::int64_t value_width) noexcept {
  return std::min(kAttendRows, kAttendFloats / std::max(key_width, value_width) / 16 * 16);
}
/// More slots than any cache has; sums of two of these stay in range.
inline constexpr std::int64_t kAllSlots = std::int64_t{1} << 61;

/// The slots [first(s), end(s)) that a query in slot s sees. Neither falls as s grows, and of the slots that
/// hold keys its own is among them.
struct SeenSlots {
  std::int64_t back = kAllSlots;  ///< before its own
  std::int64_t ahead = 0;         ///< behind its own
  std::int64_t chunk = 0;         ///< from the last multiple of this on; 0 = by `back`
  std::int64_t slots = kAllSlots;
  [[nodiscard]] constexpr std::int64_t first(std::int64_t s) const noexcept {
    return chunk > 0 ? s - s % chunk : s > back ? s - back : 0;
  }
  [[nodiscard]] constexpr std::int64_t end(std::int64_t s) const noexcept {
    return std::min(s + ahead + 1, slots);
  }
};

/// Floats that one row leaves in `partial`: maximum, sum of weights, weighted sum of values.
[[nodiscard]] constexpr std::int64_t attend_partial(std::int64_t value_width) noexcept {
  return value_width + 2;
}

/// Row r of the flattened rows is query r / group of head r % group, in slot first_slot + r / group. score =
/// softcapped scale * q.k - slope * |distance| + relative + bias. Pointers are at the first head of the
/// group.
struct AttendBlock {
  const float* q = nullptr;
  std::int64_t q_token = 0;
  std::int64_t q_head = 0;
  const void* keys = nullptr;  ///< [slots, key_width]
  DType key_dtype = DType::f32;
  const float* key_scales = nullptr;  ///< [slots], i8 only
  std::int64_t key_width = 0;
  const void* values = nullptr;  ///< [slots, value_width]
  DType value_dtype = DType::f32;
  const float* value_scales = nullptr;  ///< [slots], i8 only
  std::int64_t value_width = 0;
  std::int64_t group = 1;
  std::int64_t first_row = 0;
  std::int64_t rows = 0;  ///< attend_rows() at most
  std::int64_t first_slot = 0;
  SeenSlots seen;
  std::int64_t slot_begin = 0;
  std::int64_t slot_end = 0;
  float scale = 1;
  float softcap = 0;             ///< 0 = none
  const float* sinks = nullptr;  ///< [group] or null; of one span alone when parts are merged
  std::int64_t sink_stride = 0;
  const float* slopes = nullptr;  ///< [group] or null
  std::int64_t slope_stride = 0;
  const float* relative = nullptr;  ///< [group, columns] or null; ends serve what is beyond
  std::int64_t relative_head = 0;
  std::int64_t relative_columns = 0;
  std::int64_t relative_zero = 0;
  const float* bias = nullptr;  ///< [group, tokens, slots] or null
  std::int64_t bias_head = 0;
  std::int64_t bias_token = 0;
  const std::int64_t* query_positions = nullptr;
  std::int64_t query_position_stride = 0;
  const std::int64_t* key_positions = nullptr;
  std::int64_t key_position_stride = 0;
  float* out = nullptr;
  std::int64_t out_token = 0;
  std::int64_t out_head = 0;
  float* scores = nullptr;  ///< [group, tokens, slots] or null
  std::int64_t score_head = 0;
  std::int64_t score_token = 0;
  std::int64_t score_slot = 1;
  float* partial = nullptr;  ///< [rows, attend_partial()]: the span's part instead of out; or null
};
void attend(const AttendBlock& block) noexcept;

/// Merges `spans` parts of one row, `span_stride` floats apart, in index order.
void attend_merge(const float* partial, std::int64_t spans, std::int64_t span_stride,
                  std::int64_t value_width, float* out) noexcept;

}  // namespace locant::kernels

// SPDX-License-Identifier: Apache-2.0
// Causal attention of a block of query rows over a span of slots of one key-value head.
#pragma once

#include <algorithm>
#include <cstdint>

#include "locant/core.h"

namespace locant::kernels {

/// Widths of keys and values that one call can hold in its fixed scratch.
inline constexpr std::int64_t kAttendWidth = 1024;
/// Spans of slots begin at multiples of this.
inline constexpr std::int64_t kAttendSpan = 1024;

/// Query rows of one block, at most; a multiple of 4.
[[nodiscard]] constexpr std::int64_t attend_rows(std::int64_t key_width, std::int64_t value_width) noexcept {
  const std::int64_t width = std::max<std::int64_t>(64, std::max(key_width, value_width));
  return 8192 / ((width + 15) / 16 * 16) / 4 * 4;
}
/// Floats that one row leaves in `partial`: maximum, sum of weights, weighted sum of values.
[[nodiscard]] constexpr std::int64_t attend_partial(std::int64_t value_width) noexcept {
  return value_width + 2;
}

/// Row r of the flattened rows is query r / group of head r % group; it sees slots 0 .. first_slot + r /
/// group. score = scale * q.k + slope * (key position - query position). Pointers are at the first head of
/// the group.
struct AttendBlock {
  const float* q = nullptr;
  std::int64_t q_token = 0;
  std::int64_t q_head = 0;
  const void* keys = nullptr;  ///< [slots, key_width]
  DType key_dtype = DType::f32;
  std::int64_t key_width = 0;
  const void* values = nullptr;  ///< [slots, value_width]
  DType value_dtype = DType::f32;
  std::int64_t value_width = 0;
  std::int64_t group = 1;
  std::int64_t first_row = 0;
  std::int64_t rows = 0;  ///< attend_rows() at most
  std::int64_t first_slot = 0;
  std::int64_t slot_begin = 0;  ///< a multiple of kAttendSpan
  std::int64_t slot_end = 0;
  float scale = 1;
  const float* slopes = nullptr;  ///< [group] or null
  std::int64_t slope_stride = 0;
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

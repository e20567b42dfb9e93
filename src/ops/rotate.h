// SPDX-License-Identifier: Apache-2.0
// What rotation alone and rotation into the cache share: rules of the tables, and blocks of tokens.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "kernels/rotate.h"
#include "locant/ops.h"
#include "ops/check.h"

namespace locant::rotate_ops {

struct Tables {
  const View<const float, 2>& cos;
  const View<const float, 2>& sin;
  const RotateShape& shape;
};
/// cos and sin [tokens, pairs] whose channels fit into a head.
void check_tables(std::string_view who, const Tables& tables, std::int64_t tokens, std::int64_t head_dim);
/// The width that fits the buffer of a rotation in place.
void check_in_place(std::string_view who, const Tables& tables);

[[nodiscard]] kernels::Layout layout(Pairing pairing) noexcept;

/// All tokens of x, without an out.
template <class T, class U>
[[nodiscard]] kernels::RotateBlock<T, U> block_of(const View<const T, 3>& x, const Tables& tables) noexcept {
  return {.x = x.data_handle(),
          .x_token = x.stride(0),
          .x_head = x.stride(1),
          .cos = tables.cos.data_handle(),
          .cos_token = tables.cos.stride(0),
          .sin = tables.sin.data_handle(),
          .sin_token = tables.sin.stride(0),
          .tokens = x.extent(0),
          .heads = x.extent(1),
          .head_dim = x.extent(2),
          .offset = tables.shape.offset,
          .pairs = tables.cos.extent(1),
          .read = layout(tables.shape.read),
          .write = layout(tables.shape.write),
          .sign = tables.shape.direction == Direction::forward ? 1.0f : -1.0f};
}

/// Tokens first ... first + count - 1, or those of them that there are.
template <class T, class U>
[[nodiscard]] kernels::RotateBlock<T, U> part_of(const kernels::RotateBlock<T, U>& whole, std::int64_t first,
                                                 std::int64_t count) noexcept {
  kernels::RotateBlock<T, U> part = whole;
  part.tokens = std::min(count, whole.tokens - first);
  part.x += first * whole.x_token;
  part.out += first * whole.out_token;
  part.cos += first * whole.cos_token;
  part.sin += first * whole.sin_token;
  return part;
}

[[nodiscard]] inline std::int64_t tokens_of_piece(std::int64_t elements_of_token) noexcept {
  return std::max<std::int64_t>(1, 16384 / elements_of_token);
}

}  // namespace locant::rotate_ops

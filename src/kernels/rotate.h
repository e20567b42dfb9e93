// SPDX-License-Identifier: Apache-2.0
// Rotation of pairs of channels by cos and sin tables, for a run of tokens.
#pragma once

#include <cstdint>

#include "locant/core.h"

namespace locant::kernels {

/// `half` pairs channel i with i + pairs, `interleaved` 2i with 2i + 1.
enum class Layout : std::uint8_t { half, interleaved };

/// Channels of a rotation whose two layouts differ and that works in place, at most.
inline constexpr std::int64_t kRotateInPlaceWidth = 4096;

/// `around` stores past the caches, for an out that these do not hold; the layouts are equal then.
enum class Stores : std::uint8_t { cached, around };

/// x, out [tokens, heads, head_dim] with strides; cos, sin [tokens, pairs]. out is x or does not touch it.
/// Channels outside [offset, offset + 2 pairs) are copied. inverse negates sin.
template <class T, class U = T>
struct RotateBlock {
  const T* x = nullptr;
  std::int64_t x_token = 0;
  std::int64_t x_head = 0;
  U* out = nullptr;
  std::int64_t out_token = 0;
  std::int64_t out_head = 0;
  const float* cos = nullptr;
  std::int64_t cos_token = 0;
  const float* sin = nullptr;
  std::int64_t sin_token = 0;
  std::int64_t tokens = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t offset = 0;
  std::int64_t pairs = 0;
  Layout read = Layout::half;
  Layout write = Layout::half;
  float sign = 1;  ///< factor on sin: 1, or -1 for the inverse
  Stores stores = Stores::cached;
};
void rotate(const RotateBlock<float>& block) noexcept;
void rotate(const RotateBlock<Half>& block) noexcept;
void rotate(const RotateBlock<BFloat16>& block) noexcept;
/// f32 arithmetic as above, one rounding to the dtype of out.
void rotate(const RotateBlock<float, Half>& block) noexcept;
void rotate(const RotateBlock<float, BFloat16>& block) noexcept;

}  // namespace locant::kernels

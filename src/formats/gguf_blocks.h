// SPDX-License-Identifier: Apache-2.0
// One block of a GGUF type to f32: value = scale * q - minus with a whole q. Every such product is exact in
// f32 (11 bits of an f16 times at most 12 of a small scale and q), so a fused subtraction changes nothing.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "locant/core.h"

namespace locant::gguf_blocks {

/// block_bytes() at any address to block_elements() floats.
using Unpack = void (*)(const std::byte* block, float* out) noexcept;

[[nodiscard]] Unpack classic(GgmlType type) noexcept;   ///< Q4_0 to Q8_0; null for others
[[nodiscard]] Unpack k_quants(GgmlType type) noexcept;  ///< Q2_K to Q6_K; null for others
[[nodiscard]] Unpack codebook(GgmlType type) noexcept;  ///< IQ4_NL, IQ4_XS, MXFP4; null for others

/// Any of the above, or null.
[[nodiscard]] inline Unpack unpack_of(GgmlType type) noexcept {
  if (const Unpack unpack = classic(type)) return unpack;
  if (const Unpack unpack = k_quants(type)) return unpack;
  return codebook(type);
}

[[nodiscard]] inline float half_at(const std::byte* bytes) noexcept {
  Half half{};
  std::memcpy(&half.bits, bytes, sizeof(half.bits));
  return f32_from(half);
}
[[nodiscard]] inline int byte_at(const std::byte* bytes, int i) noexcept {
  return std::to_integer<int>(bytes[i]);
}
/// Bit i of a little-endian run of bytes.
[[nodiscard]] inline int bit_at(const std::byte* bytes, int i) noexcept {
  return byte_at(bytes, i / 8) >> (i % 8) & 1;
}
/// Element i of a block of 32 nibbles: the low ones of all bytes, then the high ones.
[[nodiscard]] inline int nibble_at(const std::byte* bytes, int i) noexcept {
  return byte_at(bytes, i % 16) >> (i / 16 * 4) & 15;
}

struct ScaleMinus {
  int scale;
  int minus;
};
/// Of group 0..7 of Q4_K and Q5_K: 12 bytes hold four scales and four minuses of 6 bits, and the low nibbles
/// of the others, whose upper two bits stand above the first ones.
[[nodiscard]] inline ScaleMinus six_bits_at(const std::byte* bytes, int group) noexcept {
  if (group < 4) return {byte_at(bytes, group) & 63, byte_at(bytes, 4 + group) & 63};
  const int low = byte_at(bytes, 4 + group);
  return {(low & 15) | (byte_at(bytes, group - 4) >> 6) << 4, low >> 4 | (byte_at(bytes, group) >> 6) << 4};
}
/// Of group 0..15 of Q3_K: 12 bytes, 16 low nibbles and 16 upper pairs.
[[nodiscard]] inline int q3_k_scale_at(const std::byte* bytes, int group) noexcept {
  const int low = byte_at(bytes, group % 8) >> (group / 8 * 4) & 15;
  const int upper = byte_at(bytes, 8 + group % 4) >> (group / 4 * 2) & 3;
  return (low | upper << 4) - 32;
}
/// Of group 0..7 of an IQ4_XS block: 16 upper bits, then nibbles.
[[nodiscard]] inline int iq4_xs_scale_at(const std::byte* block, int group) noexcept {
  const int high = byte_at(block, 2) | byte_at(block, 3) << 8;
  const int low = byte_at(block, 4 + group / 2) >> (group % 2 * 4) & 15;
  return (low | (high >> (2 * group) & 3) << 4) - 32;
}
/// 2^(e - 128), the scale of twice the values of E2M1; below 2^-126 the one bit stands in the fraction.
[[nodiscard]] inline float mxfp4_scale(std::byte exponent) noexcept {
  const auto e = std::to_integer<std::uint32_t>(exponent);
  return std::bit_cast<float>(e < 2 ? std::uint32_t{0x00200000} << e : (e - 1) << 23);
}

}  // namespace locant::gguf_blocks

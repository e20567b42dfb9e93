// SPDX-License-Identifier: Apache-2.0
// One block of a GGUF type to f32: value = scale * q - minus with a whole q. Every such product is exact in
// f32 (11 bits of an f16 times at most 12 of a small scale and q), so a fused subtraction changes nothing.
#pragma once

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

}  // namespace locant::gguf_blocks

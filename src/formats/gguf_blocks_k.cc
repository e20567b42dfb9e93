// SPDX-License-Identifier: Apache-2.0
// Blocks of 256 with f16 d (and dmin) and a small whole scale (and minus) for each group of 16 or 32:
// Q2_K, Q4_K, Q5_K: (d s) q - dmin m, no sign; Q3_K, Q6_K: (d s) q, signed. Values stand interleaved: a run
// of 32 bytes holds its lowest bits for 32 elements, the next bits for the following 32, and so on.
#include "formats/gguf_blocks.h"

namespace locant::gguf_blocks {
namespace {

constexpr int kElements = 256;

/// Two bits of element i: bytes of 4 x 2 bits, 128 elements in 32 bytes.
int pair_at(const std::byte* bytes, int i) noexcept {
  return byte_at(bytes, i / 128 * 32 + i % 32) >> (i % 128 / 32 * 2) & 3;
}
/// Four bits of element i: 64 elements in 32 bytes.
int quad_at(const std::byte* bytes, int i) noexcept {
  return byte_at(bytes, i / 64 * 32 + i % 32) >> (i % 64 / 32 * 4) & 15;
}
/// One bit of element i: 256 elements in 32 bytes.
int single_at(const std::byte* bytes, int i) noexcept {
  return byte_at(bytes, i % 32) >> (i / 32) & 1;
}

void q2_k(const std::byte* block, float* out) noexcept {
  const std::byte* scales = block;
  const std::byte* values = block + 16;
  const float d = half_at(block + 80);
  const float dmin = half_at(block + 82);
  for (int i = 0; i < kElements; ++i) {
    const int group = byte_at(scales, i / 16);
    const float scale = d * static_cast<float>(group & 15);
    const float minus = dmin * static_cast<float>(group >> 4);
    out[i] = scale * static_cast<float>(pair_at(values, i)) - minus;
  }
}

void q3_k(const std::byte* block, float* out) noexcept {
  const std::byte* high = block;
  const std::byte* values = block + 32;
  const float d = half_at(block + 108);
  for (int i = 0; i < kElements; ++i) {
    const float scale = d * static_cast<float>(q3_k_scale_at(block + 96, i / 16));
    // A set bit means that 4 is not taken off.
    const int q = pair_at(values, i) - (single_at(high, i) == 1 ? 0 : 4);
    out[i] = scale * static_cast<float>(q);
  }
}

void q4_k(const std::byte* block, float* out) noexcept {
  const float d = half_at(block);
  const float dmin = half_at(block + 2);
  for (int i = 0; i < kElements; ++i) {
    const ScaleMinus group = six_bits_at(block + 4, i / 32);
    const float minus = dmin * static_cast<float>(group.minus);
    out[i] = d * static_cast<float>(group.scale) * static_cast<float>(quad_at(block + 16, i)) - minus;
  }
}

void q5_k(const std::byte* block, float* out) noexcept {
  const float d = half_at(block);
  const float dmin = half_at(block + 2);
  for (int i = 0; i < kElements; ++i) {
    const ScaleMinus group = six_bits_at(block + 4, i / 32);
    const float minus = dmin * static_cast<float>(group.minus);
    const int q = quad_at(block + 48, i) | single_at(block + 16, i) << 4;
    out[i] = d * static_cast<float>(group.scale) * static_cast<float>(q) - minus;
  }
}

void q6_k(const std::byte* block, float* out) noexcept {
  const std::byte* high = block + 128;
  const std::byte* scales = block + 192;
  const float d = half_at(block + 208);
  for (int i = 0; i < kElements; ++i) {
    // Low nibbles: 128 elements in 64 bytes, the first 64 below the others.
    const int low = byte_at(block, i / 128 * 64 + i % 64) >> (i % 128 / 64 * 4) & 15;
    const int q = (low | pair_at(high, i) << 4) - 32;
    const float scale = d * static_cast<float>(static_cast<std::int8_t>(scales[i / 16]));
    out[i] = scale * static_cast<float>(q);
  }
}

}  // namespace

Unpack k_quants(GgmlType type) noexcept {
  switch (type) {
    case GgmlType::q2_k:
      return q2_k;
    case GgmlType::q3_k:
      return q3_k;
    case GgmlType::q4_k:
      return q4_k;
    case GgmlType::q5_k:
      return q5_k;
    case GgmlType::q6_k:
      return q6_k;
    default:
      return nullptr;
  }
}

}  // namespace locant::gguf_blocks

// SPDX-License-Identifier: Apache-2.0
// Blocks of 32 with an f16 scale d in front, _1 with an f16 least value m behind it, then 32 bits for the
// fifth bits of Q5, then the values. Q8_0: d q; Q4_0: d (q - 8); Q4_1: d q + m; Q5_0: d (q - 16); Q5_1: d q +
// m.
#include "formats/gguf_blocks.h"

namespace locant::gguf_blocks {
namespace {

constexpr int kElements = 32;

void q8_0(const std::byte* block, float* out) noexcept {
  const float scale = half_at(block);
  for (int i = 0; i < kElements; ++i) {
    out[i] = scale * static_cast<float>(static_cast<std::int8_t>(block[2 + i]));
  }
}

void q4_0(const std::byte* block, float* out) noexcept {
  const float scale = half_at(block);
  for (int i = 0; i < kElements; ++i) out[i] = scale * static_cast<float>(nibble_at(block + 2, i) - 8);
}

void q4_1(const std::byte* block, float* out) noexcept {
  const float scale = half_at(block);
  const float least = half_at(block + 2);
  for (int i = 0; i < kElements; ++i) out[i] = scale * static_cast<float>(nibble_at(block + 4, i)) + least;
}

void q5_0(const std::byte* block, float* out) noexcept {
  const float scale = half_at(block);
  for (int i = 0; i < kElements; ++i) {
    const int q = nibble_at(block + 6, i) | bit_at(block + 2, i) << 4;
    out[i] = scale * static_cast<float>(q - 16);
  }
}

void q5_1(const std::byte* block, float* out) noexcept {
  const float scale = half_at(block);
  const float least = half_at(block + 2);
  for (int i = 0; i < kElements; ++i) {
    const int q = nibble_at(block + 8, i) | bit_at(block + 4, i) << 4;
    out[i] = scale * static_cast<float>(q) + least;
  }
}

}  // namespace

Unpack classic(GgmlType type) noexcept {
  switch (type) {
    case GgmlType::q8_0:
      return q8_0;
    case GgmlType::q4_0:
      return q4_0;
    case GgmlType::q4_1:
      return q4_1;
    case GgmlType::q5_0:
      return q5_0;
    case GgmlType::q5_1:
      return q5_1;
    default:
      return nullptr;
  }
}

}  // namespace locant::gguf_blocks

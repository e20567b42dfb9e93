// SPDX-License-Identifier: Apache-2.0
// Blocks to f32. q8_0: f16 d, 32 x i8, x = d q. q4_0: f16 d, 16 bytes, low nibbles first, then the high ones,
// x = d (q - 8). q4_1: f16 d and m, the same nibbles, x = d q + m. d q is exact: 11 bits times at most 8.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "core/convert.h"
#include "locant/formats.h"

namespace locant {
namespace {

constexpr std::int64_t kElements = 32;  // of a block
constexpr std::int64_t kHalf = kElements / 2;

float half_at(const std::byte* bytes) noexcept {
  Half half{};
  std::memcpy(&half.bits, bytes, sizeof(half.bits));
  return f32_from(half);
}

void unpack_q8_0(const std::byte* block, float* out) noexcept {
  const float scale = half_at(block);
  for (std::int64_t i = 0; i < kElements; ++i) {
    out[i] = scale * static_cast<float>(static_cast<std::int8_t>(block[2 + i]));
  }
}

void unpack_q4_0(const std::byte* block, float* out) noexcept {
  const float scale = half_at(block);
  for (std::int64_t i = 0; i < kHalf; ++i) {
    const int pair = std::to_integer<int>(block[2 + i]);
    out[i] = scale * static_cast<float>((pair & 15) - 8);
    out[kHalf + i] = scale * static_cast<float>((pair >> 4) - 8);
  }
}

void unpack_q4_1(const std::byte* block, float* out) noexcept {
  const float scale = half_at(block);
  const float least = half_at(block + 2);
  for (std::int64_t i = 0; i < kHalf; ++i) {
    const int pair = std::to_integer<int>(block[4 + i]);
    out[i] = scale * static_cast<float>(pair & 15) + least;
    out[kHalf + i] = scale * static_cast<float>(pair >> 4) + least;
  }
}

template <class Unpack>
void for_each_block(GgmlType type, const void* blocks, std::int64_t count, float* out,
                    Unpack unpack) noexcept {
  const auto* block = static_cast<const std::byte*>(blocks);
  for (std::int64_t done = 0; done < count; done += kElements, block += block_bytes(type)) {
    unpack(block, out + done);
  }
}

}  // namespace

bool can_dequantize(GgmlType type) noexcept {
  switch (type) {
    case GgmlType::f32:
    case GgmlType::f16:
    case GgmlType::bf16:
    case GgmlType::q8_0:
    case GgmlType::q4_0:
    case GgmlType::q4_1:
      return true;
    default:
      return false;
  }
}

void dequantize(GgmlType type, const void* blocks, std::int64_t count, float* out) {
  if (!can_dequantize(type)) {
    throw SpecError(
        fmt::format("dequantize: F32, F16, BF16, Q8_0, Q4_0 and Q4_1 are known, got {}", name_of(type)));
  }
  if (count < 0 || count % block_elements(type) != 0) {
    throw SpecError(fmt::format("dequantize: {} stands in blocks of {} elements, got {} elements",
                                name_of(type), block_elements(type), count));
  }
  if (count == 0) return;
  if (type == GgmlType::q8_0) {
    for_each_block(type, blocks, count, out, unpack_q8_0);
  } else if (type == GgmlType::q4_0) {
    for_each_block(type, blocks, count, out, unpack_q4_0);
  } else if (type == GgmlType::q4_1) {
    for_each_block(type, blocks, count, out, unpack_q4_1);
  } else if (type == GgmlType::f32) {
    std::memcpy(out, blocks, static_cast<std::size_t>(count) * sizeof(float));
  } else {
    convert_row(blocks, dtype_of(type).value_or(DType::f32), out, DType::f32, count);
  }
}

}  // namespace locant

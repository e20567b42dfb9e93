// SPDX-License-Identifier: Apache-2.0
// Rows of blocks of any type for the tests of kernels and operations: any bytes, or bytes with sane scales.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/blocks.h"
#include "kernels/targets_and_memory.h"
#include "locant/formats.h"

namespace locant::testing {

[[nodiscard]] inline std::vector<GgmlType> block_types() {
  std::vector<GgmlType> types;
  for (std::uint32_t number = 0; number < 64; ++number) {
    const auto type = ggml_type_of(number);
    if (type && kernels::is_unpacked(*type)) types.push_back(*type);
  }
  return types;
}

[[nodiscard]] inline std::int64_t bytes_of(GgmlType type, std::int64_t elements) {
  return elements / block_elements(type) * block_bytes(type);
}

/// Where the f16 scales of a block stand.
[[nodiscard]] inline std::vector<std::int64_t> halves_of(GgmlType type) {
  switch (type) {
    case GgmlType::q4_1:
    case GgmlType::q5_1:
    case GgmlType::q4_k:
    case GgmlType::q5_k:
      return {0, 2};
    case GgmlType::q2_k:
      return {80, 82};
    case GgmlType::q3_k:
      return {108};
    case GgmlType::q6_k:
      return {208};
    case GgmlType::mxfp4:
      return {};
    default:
      return {0};
  }
}

/// `elements` of random blocks, whose values are about 1 in size, of both signs.
inline void fill_blocks(Random& random, GgmlType type, std::int64_t elements, std::uint8_t* bytes) {
  const std::int64_t size = block_bytes(type);
  for (std::int64_t block = 0; block < elements / block_elements(type); ++block, bytes += size) {
    for (std::int64_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(random.below(256));
    const float step = block_elements(type) == 256 ? 0.01F : 0.1F;
    float sign = random.below(2) == 0 ? 1.0F : -1.0F;
    for (const std::int64_t at : halves_of(type)) {
      const float value = sign * step * static_cast<float>(1 + random.below(16)) / 8;
      const Half half = half_from_f32(at == 2 && block_elements(type) == 32 ? -7 * value : value);
      std::memcpy(bytes + at, &half.bits, sizeof(half.bits));
    }
    if (type == GgmlType::mxfp4) bytes[0] = static_cast<std::uint8_t>(124 + random.below(6));
  }
}

}  // namespace locant::testing

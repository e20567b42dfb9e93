// SPDX-License-Identifier: Apache-2.0
#include "core/convert.h"

#include <cstring>

namespace locant {

float load_f32(const void* from, DType dtype) noexcept {
  if (dtype == DType::f32) {
    float value = 0;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof bits);
  return dtype == DType::f16 ? f32_from(Half{bits}) : f32_from(BFloat16{bits});
}

void store_f32(float value, void* to, DType dtype) noexcept {
  if (dtype == DType::f32) {
    std::memcpy(to, &value, sizeof value);
    return;
  }
  const std::uint16_t bits = dtype == DType::f16 ? half_from_f32(value).bits : bfloat16_from_f32(value).bits;
  std::memcpy(to, &bits, sizeof bits);
}

void convert_row(const void* from, DType from_dtype, void* to, DType to_dtype, std::int64_t count) noexcept {
  const std::size_t from_size = size_of(from_dtype);
  const std::size_t to_size = size_of(to_dtype);
  const auto n = static_cast<std::size_t>(count);
  if (from_dtype == to_dtype) {
    if (n > 0) std::memcpy(to, from, n * to_size);
    return;
  }
  for (std::size_t i = 0; i < n; ++i) {
    store_f32(load_f32(static_cast<const std::byte*>(from) + i * from_size, from_dtype),
              static_cast<std::byte*>(to) + i * to_size, to_dtype);
  }
}

}  // namespace locant

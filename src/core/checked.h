// SPDX-License-Identifier: Apache-2.0
// Arithmetic on numbers from a file: nothing instead of a wrapped result.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace locant {

[[nodiscard]] inline std::optional<std::int64_t> checked_add(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

[[nodiscard]] inline std::optional<std::int64_t> checked_mul(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// The product of all values, 1 of none. A zero does not hide an overflow before or after it: extents whose
/// other axes overflow are refused even where the tensor is empty.
[[nodiscard]] inline std::optional<std::int64_t> checked_product(
    std::span<const std::int64_t> values) noexcept {
  std::int64_t product = 1;
  bool any_zero = false;
  for (const std::int64_t value : values) {
    if (value == 0) {
      any_zero = true;
    } else if (__builtin_mul_overflow(product, value, &product)) {
      return std::nullopt;
    }
  }
  return any_zero ? 0 : product;
}

}  // namespace locant

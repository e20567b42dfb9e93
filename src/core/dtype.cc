// SPDX-License-Identifier: Apache-2.0
// Names, sizes and the 16-bit conversions, by integer arithmetic alone: independent of the rounding mode and
// of flush-to-zero.
#include <bit>

#include "locant/core.h"

namespace locant {
namespace {

constexpr std::uint32_t kF32Infinity = 0x7f800000U;
constexpr std::uint32_t kExponentGap = (127U - 15U) << 23;  // bias of f32 less that of f16

/// `value / 2^shift`, to nearest, ties to even; 1 <= shift <= 31.
constexpr std::uint32_t shift_to_even(std::uint32_t value, unsigned shift) {
  const std::uint32_t kept = value >> shift;
  const std::uint32_t rest = value & ((1U << shift) - 1U);
  const std::uint32_t tie = 1U << (shift - 1U);
  return kept + static_cast<std::uint32_t>(rest > tie || (rest == tie && (kept & 1U) != 0));
}

/// The bits of |x| as f16, without sign.
constexpr std::uint32_t half_magnitude(std::uint32_t magnitude) {
  constexpr std::uint32_t kSmallestNormal = 113U << 23;  // 2^-14
  constexpr std::uint32_t kBeyond = 143U << 23;          // 2^16; 65520 and up reach infinity by the carry
  if (magnitude > kF32Infinity) return 0x7e00U | ((magnitude >> 13) & 0x1ffU);
  if (magnitude >= kBeyond) return 0x7c00U;
  if (magnitude >= kSmallestNormal) return shift_to_even(magnitude - kExponentGap, 13);
  const std::uint32_t exponent = magnitude >> 23;
  if (exponent < 102) return 0;  // below 2^-25, half of the smallest f16
  return shift_to_even((magnitude & 0x7fffffU) | 0x800000U, 126U - exponent);
}

}  // namespace

std::size_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f16:
    case DType::bf16:
    case DType::i16:
      return 2;
    case DType::i8:
    case DType::u8:
    case DType::boolean:
      return 1;
  }
  return 0;
}

std::string_view name_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::f64:
      return "f64";
    case DType::f32:
      return "f32";
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
    case DType::i64:
      return "i64";
    case DType::i32:
      return "i32";
    case DType::i16:
      return "i16";
    case DType::i8:
      return "i8";
    case DType::u8:
      return "u8";
    case DType::boolean:
      return "bool";
  }
  return "";
}

bool is_float(DType dtype) noexcept {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

Half half_from_f32(float x) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  return Half{static_cast<std::uint16_t>(sign | half_magnitude(bits & 0x7fffffffU))};
}

BFloat16 bfloat16_from_f32(float x) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffU) > kF32Infinity) {
    return BFloat16{static_cast<std::uint16_t>((bits >> 16) | 0x40U)};  // quiet, lest the payload be cut to 0
  }
  return BFloat16{static_cast<std::uint16_t>(shift_to_even(bits, 16))};
}

float f32_from(Half x) noexcept {
  const std::uint32_t sign = (x.bits & 0x8000U) << 16;
  const std::uint32_t exponent = (x.bits >> 10) & 0x1fU;
  std::uint32_t mantissa = x.bits & 0x3ffU;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | kF32Infinity | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | (((x.bits & 0x7fffU) << 13) + kExponentGap));
  if (mantissa == 0) return std::bit_cast<float>(sign);
  const auto shift = static_cast<std::uint32_t>(std::countl_zero(mantissa)) - 21U;  // to the implicit bit 10
  mantissa = (mantissa << shift) & 0x3ffU;
  return std::bit_cast<float>(sign | ((113U - shift) << 23) | (mantissa << 13));
}

float f32_from(BFloat16 x) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// The 16-bit conversions against a decoder and a rounding in double that share nothing with them.
#include "core/narrow.h"
#include "locant/core.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace locant {
namespace {

struct Format {
  int mantissa_bits;
  int bias;
};
constexpr Format kHalf{10, 15};
constexpr Format kBFloat16{7, 127};

/// The value of a bit pattern, by its definition.
double decode(unsigned bits, Format format) {
  const unsigned mantissa = bits & ((1U << format.mantissa_bits) - 1U);
  const int exponent_bits = 15 - format.mantissa_bits;
  const unsigned exponent = (bits >> format.mantissa_bits) & ((1U << exponent_bits) - 1U);
  const double sign = (bits & 0x8000U) != 0 ? -1.0 : 1.0;
  if (exponent == (1U << exponent_bits) - 1U) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  const double fraction = std::ldexp(mantissa, -format.mantissa_bits) + (exponent == 0 ? 0.0 : 1.0);
  return sign * std::ldexp(fraction, std::max(static_cast<int>(exponent), 1) - format.bias);
}

/// x rounded to the format in double: nearbyint of x / ulp. Infinity from half an ulp past the largest value.
double rounded(double x, Format format) {
  if (!std::isfinite(x) || x == 0) return x;
  const int exponent = std::max(std::ilogb(x), 1 - format.bias);
  const double ulp = std::ldexp(1.0, exponent - format.mantissa_bits);
  const double value = std::nearbyint(x / ulp) * ulp;
  const double limit = std::ldexp(1.0, format.bias + 1);
  return std::abs(value) >= limit ? std::copysign(std::numeric_limits<double>::infinity(), x) : value;
}

void expect_same(double got, double want, double x) {
  if (std::isnan(want)) {
    EXPECT_TRUE(std::isnan(got)) << x;
    return;
  }
  EXPECT_EQ(got, want) << x;
  EXPECT_EQ(std::signbit(got), std::signbit(want)) << x;
}

void check_rounding(float x) {
  expect_same(static_cast<double>(f32_from(half_from_f32(x))), rounded(static_cast<double>(x), kHalf),
              static_cast<double>(x));
  expect_same(static_cast<double>(f32_from(bfloat16_from_f32(x))), rounded(static_cast<double>(x), kBFloat16),
              static_cast<double>(x));
}

TEST(DType, EveryHalfPatternIsItsValue) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    expect_same(static_cast<double>(f32_from(Half{static_cast<std::uint16_t>(bits)})), decode(bits, kHalf),
                bits);
  }
}

TEST(DType, EveryBFloat16PatternIsItsValue) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    expect_same(static_cast<double>(f32_from(BFloat16{static_cast<std::uint16_t>(bits)})),
                decode(bits, kBFloat16), bits);
  }
}

TEST(DType, EveryPatternComesBack) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const Half half{static_cast<std::uint16_t>(bits)};
    const BFloat16 bfloat{static_cast<std::uint16_t>(bits)};
    if (!std::isnan(f32_from(half))) {
      ASSERT_EQ(half_from_f32(f32_from(half)).bits, bits);
    }
    if (!std::isnan(f32_from(bfloat))) {
      ASSERT_EQ(bfloat16_from_f32(f32_from(bfloat)).bits, bits);
    }
  }
}

TEST(DType, EveryMidpointAndItsNeighboursRoundToEven) {
  for (unsigned bits = 0; bits < 0x7bffU; ++bits) {
    const double low = decode(bits, kHalf);
    const auto middle = static_cast<float>((low + decode(bits + 1, kHalf)) / 2);  // exact in f32
    ASSERT_EQ(half_from_f32(middle).bits, (bits % 2 == 0) ? bits : bits + 1);
    for (const float sign : {1.0F, -1.0F}) {
      check_rounding(sign * middle);
      check_rounding(sign * std::nextafter(middle, 0.0F));
      check_rounding(sign * std::nextafter(middle, 1e9F));
    }
  }
  for (unsigned bits = 0; bits < 0x7f7fU; ++bits) {
    const auto middle = std::bit_cast<float>((bits << 16) | 0x8000U);
    ASSERT_EQ(bfloat16_from_f32(middle).bits, (bits % 2 == 0) ? bits : bits + 1);
    check_rounding(std::nextafter(middle, 0.0F));
    check_rounding(std::nextafter(middle, std::numeric_limits<float>::infinity()));
  }
}

TEST(DType, RandomValuesRoundAsInDouble) {
  std::mt19937 random(7);
  for (int i = 0; i < 2'000'000; ++i)
    check_rounding(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  // most random patterns lie outside f16: these lie inside
  std::uniform_real_distribution<float> exponent(-27, 17);
  for (int i = 0; i < 500'000; ++i) check_rounding((i % 2 == 0 ? 1.0F : -1.0F) * std::exp2(exponent(random)));
}

TEST(DType, Edges) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(half_from_f32(65504.0F).bits, 0x7bffU);
  EXPECT_EQ(half_from_f32(std::nextafter(65520.0F, 0.0F)).bits, 0x7bffU);
  EXPECT_EQ(half_from_f32(65520.0F).bits, 0x7c00U);
  EXPECT_EQ(half_from_f32(-65520.0F).bits, 0xfc00U);
  EXPECT_EQ(half_from_f32(std::numeric_limits<float>::max()).bits, 0x7c00U);
  EXPECT_EQ(half_from_f32(kInfinity).bits, 0x7c00U);
  EXPECT_EQ(half_from_f32(0x1p-24F).bits, 1U);
  EXPECT_EQ(half_from_f32(0x1p-25F).bits, 0U);
  EXPECT_EQ(half_from_f32(std::nextafter(0x1p-25F, 1.0F)).bits, 1U);
  EXPECT_EQ(half_from_f32(-0.0F).bits, 0x8000U);
  EXPECT_EQ(half_from_f32(std::numeric_limits<float>::denorm_min()).bits, 0U);
  EXPECT_EQ(bfloat16_from_f32(std::numeric_limits<float>::max()).bits, 0x7f80U);
  EXPECT_EQ(bfloat16_from_f32(-kInfinity).bits, 0xff80U);
  EXPECT_EQ(bfloat16_from_f32(std::numeric_limits<float>::denorm_min()).bits, 0U);
}

TEST(DType, NanStaysNan) {
  for (std::uint32_t payload = 1; payload <= 0x400000U; payload <<= 1) {
    for (const std::uint32_t sign : {0U, 0x80000000U}) {
      const auto nan = std::bit_cast<float>(sign | 0x7f800000U | payload);
      EXPECT_TRUE(std::isnan(f32_from(half_from_f32(nan)))) << payload;
      EXPECT_TRUE(std::isnan(f32_from(bfloat16_from_f32(nan)))) << payload;
    }
  }
  EXPECT_TRUE(std::isnan(f32_from(half_from_f32(std::bit_cast<float>(0x7fffffffU)))));
  EXPECT_TRUE(std::isnan(f32_from(bfloat16_from_f32(std::bit_cast<float>(0xffffffffU)))));
}

TEST(DType, NamesAndSizes) {
  struct Row {
    DType dtype;
    const char* name;
    std::size_t size;
    bool real;
  };
  const std::vector<Row> rows{{DType::f64, "f64", 8, true},  {DType::f32, "f32", 4, true},
                              {DType::f16, "f16", 2, true},  {DType::bf16, "bf16", 2, true},
                              {DType::i64, "i64", 8, false}, {DType::i32, "i32", 4, false},
                              {DType::i16, "i16", 2, false}, {DType::i8, "i8", 1, false},
                              {DType::u8, "u8", 1, false},   {DType::boolean, "bool", 1, false}};
  for (const Row& row : rows) {
    EXPECT_EQ(name_of(row.dtype), row.name);
    EXPECT_EQ(size_of(row.dtype), row.size) << row.name;
    EXPECT_EQ(is_float(row.dtype), row.real) << row.name;
  }
}

TEST(Narrowed, KeepsWhatTheDtypeKeeps) {
  const float x = 1.00146484375F;  // 1 + 3 * 2^-11: between two halves, nearer to even
  EXPECT_EQ(narrowed(x, DType::f32), x);
  EXPECT_EQ(narrowed(x, DType::f16), f32_from(half_from_f32(x)));
  EXPECT_EQ(narrowed(x, DType::bf16), f32_from(bfloat16_from_f32(x)));
  EXPECT_NE(narrowed(x, DType::f16), x);
}

}  // namespace
}  // namespace locant

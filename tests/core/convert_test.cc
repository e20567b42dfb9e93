// SPDX-License-Identifier: Apache-2.0
#include "core/convert.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

namespace locant {
namespace {

constexpr std::array kDTypes{DType::f32, DType::f16, DType::bf16};

TEST(Convert, EveryPairAtAnyAlignment) {
  const std::vector<float> values{0.F, -1.5F, 3.F, 0x1p-14F, -96.F};  // exact in all three
  for (const DType from : kDTypes) {
    for (const DType to : kDTypes) {
      std::vector<std::byte> source(values.size() * size_of(from) + 1);
      std::vector<std::byte> target(values.size() * size_of(to) + 1);
      for (std::size_t i = 0; i < values.size(); ++i) {
        store_f32(values[i], source.data() + 1 + i * size_of(from), from);
      }
      convert_row(source.data() + 1, from, target.data() + 1, to, static_cast<std::int64_t>(values.size()));
      for (std::size_t i = 0; i < values.size(); ++i) {
        EXPECT_EQ(load_f32(target.data() + 1 + i * size_of(to), to), values[i])
            << name_of(from) << " to " << name_of(to);
      }
      EXPECT_EQ(target[0], std::byte{0});
    }
  }
}

TEST(Convert, NarrowingRoundsToNearestEven) {
  const float value = 1.0F + 0x1p-8F;  // between two bf16 values, ends even at 1
  std::uint16_t bits = 0;
  convert_row(&value, DType::f32, &bits, DType::bf16, 1);
  EXPECT_EQ(bits, bfloat16_from_f32(1.F).bits);
  const float above = 1.0F + 0x1p-8F + 0x1p-20F;
  convert_row(&above, DType::f32, &bits, DType::bf16, 1);
  EXPECT_EQ(bits, bfloat16_from_f32(1.F).bits + 1);
  store_f32(65520.F, &bits, DType::f16);
  EXPECT_EQ(bits, 0x7c00U);
}

TEST(Convert, NoElementsAreNothing) {
  convert_row(nullptr, DType::f32, nullptr, DType::f32, 0);
  convert_row(nullptr, DType::f32, nullptr, DType::bf16, 0);
}

}  // namespace
}  // namespace locant

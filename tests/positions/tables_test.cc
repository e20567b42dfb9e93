// SPDX-License-Identifier: Apache-2.0
// Tables: error against long double at random positions, narrow dtypes, the running product, axes, refusals.
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "budgets.h"
#include "positions/cos_sin.h"
#include "positions/golden.h"
#include "positions/sentences.h"

namespace locant {
namespace {

using golden::planned;
using tables::cos_sin;
using testing_text::sentence;

Rotation rope_of(double theta, std::int64_t width) {
  PositionSpec spec{"rope", {}};
  spec.set("theta", theta);
  spec.set("head_dim", width);
  return planned<Rotation>(spec);
}

TEST(RotationTable, TenThousandPositionsAgainstLongDouble) {
  if (std::numeric_limits<long double>::digits < 64)
    GTEST_SKIP() << "long double is no wider than double here";
  std::mt19937_64 random(11);
  std::uniform_int_distribution<std::int64_t> any(-((1 << 24) - 1), (1 << 24) - 1);
  std::vector<std::int64_t> positions(10000);
  for (std::int64_t& position : positions) position = any(random);
  for (const double theta : {10000.0, 500000.0}) {
    const std::int64_t width = 64;
    auto rotation = rope_of(theta, width);
    rotation.amplitude = theta > 10000 ? 1.4 : 1;
    const auto table = cos_sin(rotation, {}, positions);
    double worst = 0;
    for (std::int64_t i = 0; i < width / 2; ++i) {
      const long double w = std::pow(static_cast<long double>(theta),
                                     -static_cast<long double>(2 * i) / static_cast<long double>(width));
      for (std::size_t t = 0; t < positions.size(); ++t) {
        const long double angle = static_cast<long double>(positions[t]) * w;
        const auto row = static_cast<std::int64_t>(t);
        const long double cos = static_cast<long double>(rotation.amplitude) * std::cos(angle);
        const long double sin = static_cast<long double>(rotation.amplitude) * std::sin(angle);
        worst =
            std::max(worst, static_cast<double>(std::abs(static_cast<long double>(table.c(row, i)) - cos)));
        worst =
            std::max(worst, static_cast<double>(std::abs(static_cast<long double>(table.s(row, i)) - sin)));
      }
    }
    EXPECT_LE(worst, budgets::kTableExact * rotation.amplitude);
    EXPECT_GT(worst, 0);
    RecordProperty("worst", std::to_string(worst / rotation.amplitude * 0x1p24));
  }
}

TEST(RotationTable, NarrowTablesAreRoundedOnce) {
  const auto rotation = rope_of(10000, 64);
  std::vector<std::int64_t> positions(3000);
  for (std::size_t t = 0; t < positions.size(); ++t) positions[t] = static_cast<std::int64_t>(t * t);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const auto table = cos_sin(rotation, {.table = dtype}, positions);
    const double step = dtype == DType::bf16 ? budgets::kTableBf16Step : budgets::kTableF16Step;
    for (std::size_t t = 0; t < positions.size(); ++t) {
      for (std::int64_t i = 0; i < 32; ++i) {
        const double cos =
            std::cos(static_cast<double>(positions[t]) * rotation.inv_freq[static_cast<std::size_t>(i)]);
        const double got = table.c(static_cast<std::int64_t>(t), i);
        EXPECT_LE(std::abs(got - cos), step / 2);
        const auto as_float = static_cast<float>(got);
        EXPECT_EQ(
            dtype == DType::bf16 ? f32_from(bfloat16_from_f32(as_float)) : f32_from(half_from_f32(as_float)),
            as_float);
      }
    }
  }
}

TEST(RotationTable, ADoubleJustPastTheMiddleIsNotRoundedTwice) {
  // 1 + 2^-8 is the middle of two bf16 values; 2^-40 more is above it, but vanishes in f32, where the tie
  // would then go to the even neighbour 1.
  Rotation rotation;
  rotation.inv_freq = {0};
  rotation.amplitude = 1 + 0x1p-8 + 0x1p-40;
  EXPECT_EQ(cos_sin(rotation, {.table = DType::bf16}, {1}).cos[0], 1 + 0x1p-7F);
  rotation.amplitude = 1 + 0x1p-8 - 0x1p-40;
  EXPECT_EQ(cos_sin(rotation, {.table = DType::bf16}, {1}).cos[0], 1);
  rotation.amplitude = 1 + 0x1p-11 + 0x1p-40;
  EXPECT_EQ(cos_sin(rotation, {.table = DType::f16}, {1}).cos[0], 1 + 0x1p-10F);
}

TEST(RotationTable, AmplitudeAndSign) {
  auto rotation = rope_of(123456, 10);
  const auto plain = cos_sin(rotation, {}, {257, 2049});
  rotation.amplitude = 2;
  rotation.sign = -1;
  const auto changed = cos_sin(rotation, {}, {257, 2049});
  for (std::size_t i = 0; i < plain.cos.size(); ++i) {
    EXPECT_EQ(changed.cos[i], 2 * plain.cos[i]);
    EXPECT_EQ(changed.sin[i], -2 * plain.sin[i]);
  }
}

TEST(RotationTable, F32ProductRoundsTheAngle) {
  const auto rotation = rope_of(10000, 64);
  const std::vector<std::int64_t> positions = {1, 2049, 131071, 16777215};
  const auto table = cos_sin(rotation, {.angle = AngleNumerics::f32_product}, positions);
  for (std::size_t t = 0; t < positions.size(); ++t) {
    for (std::int64_t i = 0; i < 32; ++i) {
      const float angle = static_cast<float>(positions[t]) *
                          static_cast<float>(rotation.inv_freq[static_cast<std::size_t>(i)]);
      EXPECT_EQ(table.c(static_cast<std::int64_t>(t), i),
                static_cast<float>(std::cos(static_cast<double>(angle))));
    }
  }
}

TEST(RotationTable, F32RunningIsTheChainOfGgml) {
  // ggml on the CPU: theta = position, then theta *= powf(base, -2/d) pair after pair, all in f32.
  const std::int64_t width = 96;
  const auto rotation = rope_of(500000, width);
  const std::vector<std::int64_t> positions = {0, 1, 257, 4097, 131071};
  const auto table = cos_sin(rotation, {.angle = AngleNumerics::f32_running}, positions);
  const auto factor = static_cast<float>(std::pow(500000.0, -2.0 / static_cast<double>(width)));
  std::size_t unlike_product = 0;
  for (std::size_t t = 0; t < positions.size(); ++t) {
    auto angle = static_cast<float>(positions[t]);
    for (std::int64_t i = 0; i < width / 2; ++i) {
      const auto at = static_cast<std::int64_t>(t);
      EXPECT_EQ(table.s(at, i), static_cast<float>(std::sin(static_cast<double>(angle))))
          << positions[t] << " " << i;
      const float product = static_cast<float>(positions[t]) *
                            static_cast<float>(rotation.inv_freq[static_cast<std::size_t>(i)]);
      unlike_product += product != angle ? 1 : 0;
      angle *= factor;
    }
  }
  EXPECT_GT(unlike_product, 0U);
}

TEST(RotationTable, F32RunningPassesOverPairsThatStay) {
  Rotation rotation;
  rotation.inv_freq = {0, 0.5, 0, 0.25};
  const auto table = cos_sin(rotation, {.angle = AngleNumerics::f32_running}, {3});
  EXPECT_EQ(table.sin[0], 0);
  EXPECT_EQ(table.sin[1], std::sin(1.5F));
  EXPECT_EQ(table.sin[2], 0);
  EXPECT_EQ(table.sin[3], std::sin(0.75F));
}

TEST(RotationTable, EachPairFollowsItsAxis) {
  auto rotation = rope_of(10000, 8);
  rotation.axis = {2, 0, 1, 0};
  std::vector<std::int64_t> positions = {5, 6, 70, 80, 900, 901};  // [3 axes, 2 tokens]
  std::vector<float> cos(8);
  std::vector<float> sin(8);
  rotation_table(rotation, {}, View<std::int64_t, 2>(positions.data(), {3, 2}),
                 View<float, 2>(cos.data(), {2, 4}), View<float, 2>(sin.data(), {2, 4}));
  const Rotation plain = rope_of(10000, 8);
  for (std::size_t t = 0; t < 2; ++t) {
    for (std::size_t i = 0; i < 4; ++i) {
      const auto axis = static_cast<std::size_t>(rotation.axis[i]);
      const auto one = cos_sin(plain, {}, {positions[axis * 2 + t]});
      EXPECT_EQ(cos[t * 4 + i], one.cos[i]);
      EXPECT_EQ(sin[t * 4 + i], one.sin[i]);
    }
  }
}

TEST(RotationTable, WritesThroughStrides) {
  const auto rotation = rope_of(10000, 8);
  const std::vector<std::int64_t> positions = {7, 300};
  const auto plain = cos_sin(rotation, {}, positions);
  std::vector<std::int64_t> spaced = {7, -1, 300, -1};
  std::vector<float> both(16, -9);  // cos and sin interleaved
  rotation_table(rotation, {}, View<std::int64_t, 2>(spaced.data(), {1, 2}, {4, 2}),
                 View<float, 2>(both.data(), {2, 4}, {8, 2}),
                 View<float, 2>(both.data() + 1, {2, 4}, {8, 2}));
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(both[2 * i], plain.cos[i]);
    EXPECT_EQ(both[2 * i + 1], plain.sin[i]);
  }
}

TEST(RotationTable, RefusesBeforeItWrites) {
  auto rotation = rope_of(10000, 8);
  std::vector<std::int64_t> positions = {1, 2, 3};
  std::vector<float> cos(12, -9);
  std::vector<float> sin(12, -9);
  const View<std::int64_t, 2> at(positions.data(), {1, 3});
  const View<float, 2> c(cos.data(), {3, 4});
  const View<float, 2> s(sin.data(), {3, 4});
  const auto says = [&](const Numerics& numerics, View<float, 2> into) {
    return sentence<SpecError>([&] { rotation_table(rotation, numerics, at, c, into); });
  };
  EXPECT_EQ(says({}, View<float, 2>(sin.data(), {4, 3})),
            "rotation_table: cos and sin are [tokens=3, pairs=4], got [4,3]");
  EXPECT_EQ(says({.table = DType::i8}, s), "rotation_table: a table is f64, f32, f16 or bf16, got i8");
  rotation.axis = {0, 1, 2};
  EXPECT_EQ(says({}, s), "rotation_table: a rotation of 4 pairs names an axis for each, got 3");
  rotation.axis = {0, 1, 2, 0};
  EXPECT_EQ(says({}, s), "rotation_table: positions hold at least 3 axes, got 1");
  rotation.axis = {0, -1, 0, 0};
  EXPECT_EQ(says({}, s), "rotation_table: an axis is at least 0, got -1");
  for (const float value : cos) EXPECT_EQ(value, -9);
  for (const float value : sin) EXPECT_EQ(value, -9);
}

TEST(SinusoidRows, RefusesBeforeItWrites) {
  PositionEmbedding embedding;
  embedding.form = EmbeddingForm::sinusoid;
  embedding.width = 4;
  embedding.inv_freq = {1, 0.1};
  std::vector<std::int64_t> positions = {0, 1};
  std::vector<float> out(8, -9);
  const View<std::int64_t, 1> at(positions.data(), {2});
  const auto says = [&](View<float, 2> rows) {
    return sentence<std::logic_error>([&] { sinusoid_rows(embedding, {}, at, rows); });
  };
  const View<float, 2> rows(out.data(), {2, 4});
  EXPECT_EQ(says(View<float, 2>(out.data(), {2, 3})),
            "sinusoid_rows: rows are [tokens=2, width=4], got [2,3]");
  embedding.offset = 1;
  positions[1] = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(says(rows),
            "sinusoid_rows: position + offset 1 must fit in 64 bits, got position 9223372036854775807");
  embedding.inv_freq = {1};
  EXPECT_EQ(says(rows), "sinusoid_rows: a row of width 4 needs 2 frequencies, got 1");
  embedding.form = EmbeddingForm::table;
  EXPECT_EQ(says(rows), "sinusoid_rows: the embedding is a sinusoid, got a table of weights");
  EXPECT_EQ(sentence<SpecError>([&] { sinusoid_rows(embedding, {.table = DType::boolean}, at, rows); }),
            "sinusoid_rows: a table is f64, f32, f16 or bf16, got bool");
  for (const float value : out) EXPECT_EQ(value, -9);
}

}  // namespace
}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// Cos and sin of many angles on every instruction set: the bits of the library's f64, rounded to f32.
#include "positions/sin_cos.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#define HWY_DISABLED_TARGETS \
  (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3 | HWY_AVX3_DL)
#include "hwy/highway.h"

#include "locant/positions.h"
#include "positions/cos_sin.h"
#include "positions/golden.h"

namespace locant {
namespace {

template <class Body>
void on_every_target(Body body) {
  for (const auto target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

bool same(float a, float b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0 || (std::isnan(a) && std::isnan(b));
}

struct Factors {
  double cos = 1, sin = 1;
  float cos_after = 1, sin_after = 1;
};

void expect_bits_of_the_library(double position, const std::vector<double>& frequencies,
                                const Factors& factors = {}) {
  const std::size_t n = frequencies.size();
  std::vector<float> cos(n), sin(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double angle = position * frequencies[i];
    cos[i] = static_cast<float>(std::cos(angle) * factors.cos) * factors.cos_after;
    sin[i] = static_cast<float>(std::sin(angle) * factors.sin) * factors.sin_after;
  }
  on_every_target([&] {
    std::vector<float> got_cos(n), got_sin(n);
    sin_cos({.position = position,
             .frequencies = frequencies.data(),
             .count = static_cast<std::int64_t>(n),
             .cos_factor = factors.cos,
             .sin_factor = factors.sin,
             .cos_after = factors.cos_after,
             .sin_after = factors.sin_after,
             .cos = got_cos.data(),
             .sin = got_sin.data()});
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_TRUE(same(got_cos[i], cos[i])) << position << " * " << frequencies[i] << ": " << got_cos[i];
      ASSERT_TRUE(same(got_sin[i], sin[i])) << position << " * " << frequencies[i] << ": " << got_sin[i];
    }
  });
}

std::vector<double> ladder(double theta, std::size_t pairs, double divisor) {
  std::vector<double> w(pairs);
  for (std::size_t i = 0; i < pairs; ++i)
    w[i] = std::pow(theta, -static_cast<double>(i) / static_cast<double>(pairs)) / divisor;
  return w;
}

TEST(SinCos, PositionsOfEveryLadderPastAMillion) {
  std::mt19937_64 random(3);
  std::uniform_int_distribution<std::int64_t> any(-(1 << 24), 1 << 24);
  for (const double theta : {100.0, 10000.0, 500000.0, 1e6, 8e6, 1e7}) {
    for (const std::size_t pairs : {std::size_t{10}, std::size_t{64}, std::size_t{129}}) {
      for (const double divisor : {1.0, 4.0, 8.0, 40.0}) {
        const auto w = ladder(theta, pairs, divisor);
        for (std::int64_t p = 0; p < 60; ++p) {
          expect_bits_of_the_library(static_cast<double>(p * 37), w);
          expect_bits_of_the_library(static_cast<double>((1 << 20) + p * 97), w);
          expect_bits_of_the_library(static_cast<double>(any(random)), w,
                                     {.cos = 1.3465735902799727, .sin = -1.2});
        }
      }
    }
  }
}

TEST(SinCos, RunsOfAnglesOfOneFrequency) {
  for (const double first : {0.0, 250.0, 130000.0, 1048000.0, 16770000.0}) {
    std::vector<double> positions(20000);
    for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = first + static_cast<double>(i);
    for (const double w : {1.0, 0.7498942093324559, 1e-2, 1.1547819846894582e-04, 2e-7})
      expect_bits_of_the_library(w, positions);
  }
}

// Where sin or cos nearly vanish, where quarters meet, and where f32 has a middle.
TEST(SinCos, AnglesBesideMultiplesOfAQuarter) {
  std::vector<double> angles;
  for (std::int64_t k = 0; k < 4000; ++k) {
    for (const double unit : {std::numbers::pi / 2, std::numbers::pi / 4, std::numbers::pi / 6}) {
      const double angle = static_cast<double>(k * k % 20000000) * unit;
      for (const double near :
           {angle, std::nextafter(angle, 0.0), std::nextafter(angle, 1e300), angle + 1e-9}) {
        angles.push_back(near);
        angles.push_back(-near);
      }
    }
    // asin of a middle between two f32
    const auto value = static_cast<float>(k + 1) / 4001.0F;
    const double middle = (static_cast<double>(value) + static_cast<double>(std::nextafter(value, 2.0F))) / 2;
    angles.push_back(std::asin(middle));
    angles.push_back(std::acos(middle) + 2 * std::numbers::pi);
  }
  expect_bits_of_the_library(1, angles);
  expect_bits_of_the_library(1, angles, {.cos = 0.8, .sin = 0.8});
  expect_bits_of_the_library(1, angles, {.cos_after = 1.1F, .sin_after = -1.1F});
}

TEST(SinCos, AnglesAndFactorsOutsideTheRange) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> angles{0.0,  -0.0, 5e-324, 1e-300, 1e-40, 1e-12, 0x1p-30, 0x1p-29, 33554432.0,
                                   -4e7, 1e9,  1e22,   1e300,  inf,   -inf,  1.0,     2.0,     std::nan("")};
  for (const double factor : {1.0, 0.0, 1e-40, 1e-300, 1e30, 1e200})
    expect_bits_of_the_library(1, angles, {.cos = factor, .sin = -factor});
}

// The tables of a rotation and of a sinusoid are these numbers, wherever they are put.
TEST(SinCos, TablesHoldThem) {
  PositionSpec spec{"rope", {}};
  spec.set("head_dim", 300);
  auto rotation = golden::planned<Rotation>(spec);
  rotation.amplitude = 1.25;
  rotation.sign = -1;
  const std::vector<std::int64_t> positions{0, 1, 2047, 2049, 1048577, 16777215};
  for (const AngleNumerics numerics : {AngleNumerics::f64, AngleNumerics::f32_product}) {
    const auto table = tables::cos_sin(rotation, {.angle = numerics}, positions);
    for (std::size_t t = 0; t < positions.size(); ++t) {
      for (std::size_t i = 0; i < rotation.inv_freq.size(); ++i) {
        const double w = rotation.inv_freq[i];
        const double angle =
            numerics == AngleNumerics::f64
                ? static_cast<double>(positions[t]) * w
                : static_cast<double>(static_cast<float>(positions[t]) * static_cast<float>(w));
        const std::size_t at = t * rotation.inv_freq.size() + i;
        if (numerics == AngleNumerics::f64) {
          ASSERT_TRUE(same(table.cos[at], static_cast<float>(std::cos(angle) * 1.25)));
          ASSERT_TRUE(same(table.sin[at], static_cast<float>(std::sin(angle) * -1.25)));
        } else {
          ASSERT_TRUE(same(table.cos[at], static_cast<float>(std::cos(angle)) * 1.25F));
          ASSERT_TRUE(same(table.sin[at], static_cast<float>(std::sin(angle)) * -1.25F));
        }
      }
    }
  }
}

// Odd and even widths past one part of a row, every arrangement of columns, strides.
TEST(SinCos, SinusoidRowsHoldThem) {
  const std::vector<std::int64_t> positions{0, 7, 1048577};
  for (const std::int64_t width : {2, 9, 256, 259, 600, 601}) {
    for (const Columns columns : {Columns::interleaved, Columns::halves}) {
      for (const std::int64_t frequencies : {width / 2, width - width / 2}) {
        for (const bool cos_first : {false, true}) {
          PositionEmbedding embedding;
          embedding.form = EmbeddingForm::sinusoid;
          embedding.width = width;
          embedding.columns = columns;
          embedding.cos_first = cos_first;
          embedding.scale = 0.75;
          embedding.inv_freq = ladder(10000, static_cast<std::size_t>(frequencies), 1);
          std::vector<float> memory(static_cast<std::size_t>(3 * width * 3), -9.0F);
          const View<float, 2> rows(memory.data(), {3, width}, {3 * width, 3});
          sinusoid_rows(embedding, {}, {positions.data(), {3}}, rows);
          for (std::int64_t t = 0; t < 3; ++t) {
            std::vector<float> expected(static_cast<std::size_t>(width), 0.0F);
            for (std::int64_t i = 0; i < frequencies; ++i) {
              const double angle = static_cast<double>(positions[static_cast<std::size_t>(t)]) *
                                   embedding.inv_freq[static_cast<std::size_t>(i)];
              const auto cosine = static_cast<float>(std::cos(angle) * 0.75);
              const auto sine = static_cast<float>(std::sin(angle) * 0.75);
              const std::int64_t first = columns == Columns::interleaved ? 2 * i : i;
              const std::int64_t second = columns == Columns::interleaved ? 2 * i + 1 : frequencies + i;
              expected[static_cast<std::size_t>(first)] = cos_first ? cosine : sine;
              if (second < width) expected[static_cast<std::size_t>(second)] = cos_first ? sine : cosine;
            }
            for (std::int64_t c = 0; c < width; ++c)
              ASSERT_TRUE(same(rows(t, c), expected[static_cast<std::size_t>(c)])) << width << " " << c;
            ASSERT_EQ(memory[1], -9.0F);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace locant

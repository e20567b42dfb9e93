// SPDX-License-Identifier: Apache-2.0
// rope: what it refuses, and the laws of rotation through its exact tables.
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
using tables::dot;
using tables::rotated;
using testing_text::sentence;

PositionSpec rope_spec(std::int64_t head_dim, std::int64_t rotary_dim, std::string pairing = "half") {
  PositionSpec spec{"rope", {}};
  spec.set("head_dim", head_dim, "head_dim");
  spec.set("rotary_dim", rotary_dim, "partial_rotary_factor");
  spec.set("pairing", std::move(pairing));
  spec.set("theta", 123456.0, "rope_theta");
  return spec;
}

/// What planning says after one parameter is changed.
std::string refusal(std::string name, ParameterValue value, std::string key = {},
                    std::string_view recipe = "exact") {
  PositionSpec spec = rope_spec(96, 64);
  spec.set(std::move(name), std::move(value), std::move(key));
  return sentence<SpecError>([&] { (void)planned<Rotation>(spec, recipe); });
}

std::vector<double> random_head(std::mt19937_64& random, std::size_t width) {
  std::normal_distribution<double> normal;
  std::vector<double> x(width);
  for (double& value : x) value = normal(random);
  return x;
}

TEST(Rope, PlanHoldsWhatTheSpecSays) {
  PositionSpec spec = rope_spec(192, 64, "interleaved");
  spec.set("rotary_offset", std::int64_t{128});
  const auto rotation = planned<Rotation>(spec);
  EXPECT_EQ(rotation.head_dim, 192);
  EXPECT_EQ(rotation.width, 64);
  EXPECT_EQ(rotation.offset, 128);
  EXPECT_EQ(rotation.read, Pairing::interleaved);
  EXPECT_EQ(rotation.write, Pairing::interleaved);
  EXPECT_EQ(rotation.inv_freq.size(), 32U);
  EXPECT_EQ(rotation.amplitude, 1);
  EXPECT_EQ(rotation.sign, 1);
  EXPECT_TRUE(rotation.axis.empty());
}

TEST(Rope, ParametersMayBeIntegersOrDoubles) {
  PositionSpec integers = rope_spec(64, 64);
  integers.set("theta", std::int64_t{123456});
  PositionSpec reals = rope_spec(64, 64);
  reals.set("head_dim", 64.0);
  EXPECT_EQ(planned<Rotation>(integers), planned<Rotation>(reals));
}

TEST(Rope, RefusesWhatCannotBeRotated) {
  EXPECT_EQ(refusal("rotary_dim", std::int64_t{33}, "partial_rotary_factor"),
            "rope: rotary_dim (partial_rotary_factor) must be even, got 33");
  EXPECT_EQ(refusal("rotary_dim", std::int64_t{98}), "rope: rotary_dim must be at most head_dim 96, got 98");
  EXPECT_EQ(refusal("rotary_dim", std::int64_t{0}),
            "rope: rotary_dim must be a whole number from 2 to 1048576, got 0");
  EXPECT_EQ(refusal("rotary_dim", 6.5), "rope: rotary_dim must be a whole number from 2 to 1048576, got 6.5");
  EXPECT_EQ(refusal("rotary_dim", std::string("64")),
            "rope: rotary_dim must be a whole number from 2 to 1048576, got \"64\"");
  EXPECT_EQ(refusal("head_dim", std::numeric_limits<std::int64_t>::max(), "head_dim"),
            "rope: head_dim (head_dim) must be a whole number from 2 to 1048576, got 9223372036854775807");
  EXPECT_EQ(refusal("head_dim", std::numeric_limits<double>::quiet_NaN()),
            "rope: head_dim must be a whole number from 2 to 1048576, got nan");
  EXPECT_EQ(refusal("rotary_offset", std::int64_t{33}),
            "rope: rotary_offset plus rotary_dim 64 must be at most head_dim 96, got 33");
  EXPECT_EQ(refusal("rotary_offset", std::int64_t{-1}),
            "rope: rotary_offset must be a whole number from 0 to 1048576, got -1");
  EXPECT_EQ(refusal("theta", 0.0, "rope_theta"),
            "rope: theta (rope_theta) must be a finite number above 0, got 0");
  EXPECT_EQ(refusal("theta", std::int64_t{-1}), "rope: theta must be a finite number above 0, got -1");
  EXPECT_EQ(refusal("theta", std::numeric_limits<double>::infinity()),
            "rope: theta must be a finite number above 0, got inf");
  EXPECT_EQ(refusal("theta", std::vector<double>{1, 2}),
            "rope: theta must be a finite number above 0, got a list of 2");
  EXPECT_EQ(refusal("theta", 1e-60, {}, "hf"), "rope: theta must give finite frequencies, got 1e-60");
  EXPECT_EQ(refusal("pairing", std::string("neox"), "is_neox_style"),
            "rope: pairing (is_neox_style) must be half or interleaved, got \"neox\"");
  EXPECT_EQ(refusal("pairing", std::int64_t{1}), "rope: pairing must be half or interleaved, got 1");
  EXPECT_EQ(refusal("thetta", 1e4),
            "rope: parameters are theta, head_dim, rotary_dim, rotary_offset, pairing, write_pairing, sign, "
            "sections, axis_layout, acts_on, shared_key, divisors or partial_read, got \"thetta\", did you "
            "mean \"theta\"");
}

TEST(Rope, RefusesAParameterStatedTwice) {
  PositionSpec spec = rope_spec(64, 64);
  spec.parameters.push_back({"theta", 2e4, "rope_scaling.rope_theta"});
  EXPECT_EQ(sentence<SpecError>([&] { (void)planned<Rotation>(spec); }),
            "rope: theta (rope_theta) must be stated once, got two values");
}

TEST(Rope, AnOddHeadWithoutRotaryDimIsRefused) {
  PositionSpec spec{"rope", {}};
  spec.set("head_dim", std::int64_t{5});
  EXPECT_EQ(sentence<SpecError>([&] { (void)planned<Rotation>(spec); }),
            "rope: rotary_dim must be even, got 5");
}

TEST(Rope, ScoresDependOnTheDistanceOnly) {
  std::mt19937_64 random(1);
  const auto rotation = planned<Rotation>(rope_spec(96, 64));
  const auto q = random_head(random, 96);
  const auto k = random_head(random, 96);
  const double size = std::sqrt(dot(q, q) * dot(k, k));
  for (const std::int64_t distance : {0, 1, -1, 255, 2049, 131071}) {
    const double expected = dot(rotated(rotation, q, distance), k);
    for (const std::int64_t n : {1, 256, 4097, 1000000, 16000000}) {
      const double score = dot(rotated(rotation, q, n + distance), rotated(rotation, k, n));
      EXPECT_NEAR(score, expected, budgets::kRelativeLaw * size) << distance << " " << n;
    }
  }
}

TEST(Rope, PositionZeroChangesNothing) {
  std::mt19937_64 random(2);
  for (const char* pairing : {"half", "interleaved"}) {
    const auto x = random_head(random, 96);
    EXPECT_EQ(rotated(planned<Rotation>(rope_spec(96, 64, pairing)), x, 0), x);
  }
}

TEST(Rope, TheNegativePositionUndoesAndTheNormIsKept) {
  std::mt19937_64 random(3);
  const auto rotation = planned<Rotation>(rope_spec(80, 10, "interleaved"));
  const auto x = random_head(random, 80);
  const double norm = std::sqrt(dot(x, x));
  for (const std::int64_t position : {1, 257, 2049, 131071, 16777215}) {
    const auto there = rotated(rotation, x, position);
    EXPECT_NEAR(std::sqrt(dot(there, there)), norm, budgets::kNormKept * norm);
    EXPECT_GT(std::abs(there[0] - x[0]) + std::abs(there[1] - x[1]), budgets::kNormKept);
    const auto back = rotated(rotation, there, -position);
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(back[i], x[i], budgets::kNormKept * norm);
  }
}

TEST(Rope, InterleavedIsHalfOnPermutedChannels) {
  std::mt19937_64 random(4);
  const auto half = planned<Rotation>(rope_spec(64, 64));
  const auto interleaved = planned<Rotation>(rope_spec(64, 64, "interleaved"));
  const auto x = random_head(random, 64);
  std::vector<double> permuted(64);
  for (std::size_t i = 0; i < 32; ++i) {
    permuted[2 * i] = x[i];
    permuted[2 * i + 1] = x[i + 32];
  }
  const auto a = rotated(half, x, 2049);
  const auto b = rotated(interleaved, permuted, 2049);
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(b[2 * i], a[i]);
    EXPECT_EQ(b[2 * i + 1], a[i + 32]);
  }
}

TEST(Rope, ChannelsOutsideTheSliceAreKept) {
  std::mt19937_64 random(5);
  PositionSpec spec = rope_spec(96, 64);
  spec.set("rotary_offset", std::int64_t{20});
  const auto x = random_head(random, 96);
  const auto y = rotated(planned<Rotation>(spec), x, 4097);
  for (std::size_t i = 0; i < 96; ++i) {
    if (i < 20 || i >= 84) {
      EXPECT_EQ(y[i], x[i]);
    } else if (i != 51 && i != 83) {  // the slowest pair moves least
      EXPECT_NE(y[i], x[i]) << i;
    }
  }
}

}  // namespace
}  // namespace locant

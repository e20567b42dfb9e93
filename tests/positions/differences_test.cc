// SPDX-License-Identifier: Apache-2.0
// differences(): what differs, where, by how much, and from which position on.
#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "positions/golden.h"

namespace locant {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

PositionSpec rope(double theta) {
  PositionSpec spec{"rope", {}};
  spec.set("theta", theta);
  spec.set("head_dim", std::int64_t{64});
  return spec;
}

Plan of(std::vector<std::vector<PositionSpec>> layers, std::string_view recipe = "exact") {
  StackPositions positions;
  positions.layers = std::move(layers);
  return plan(positions, find_recipe(recipe), {});
}

/// One kind, so many layers.
Plan uniform(LayerPositions kind, std::size_t layers = 2) {
  Plan result;
  result.layers.assign(layers, 0);
  result.kinds = {std::move(kind)};
  return result;
}

Rotation two_pairs(double w) {
  Rotation rotation;
  rotation.inv_freq = {1, w};
  rotation.head_dim = 4;
  rotation.width = 4;
  return rotation;
}

Plan turning(const Rotation& rotation) {
  LayerPositions kind;
  kind.rotation = rotation;
  return uniform(kind);
}

TEST(Differences, EqualPlansHaveNone) {
  const Plan a = of({{rope(1e4)}, {}, {rope(1e6)}});
  EXPECT_THAT(differences(a, a), IsEmpty());
  Plan other_order = a;  // the same layers through other kinds
  std::swap(other_order.kinds[0], other_order.kinds[1]);
  other_order.layers = {1, 0, 2};
  EXPECT_THAT(differences(a, other_order), IsEmpty());
  EXPECT_THAT(differences({}, {}), IsEmpty());
}

TEST(Differences, FrequenciesNameThePairAndThePositions) {
  // 2^-20 apart: 2^-8 is reached at 4096, passed at 4097; 2^-24 is passed at 1.
  const auto found = differences(turning(two_pairs(0.25)), turning(two_pairs(0.25 + 0x1p-20)));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].site, Site::rotation);
  EXPECT_THAT(found[0].layers, ElementsAre(0, 1));
  EXPECT_EQ(found[0].index, 1);
  EXPECT_EQ(found[0].largest, 0x1p-20);
  EXPECT_EQ(found[0].first_bf16, 4097);
  EXPECT_EQ(found[0].first_f32, 1);
  EXPECT_EQ(
      found[0].what,
      "inv_freq differs at 1 of 2 pairs, most at pair 1: 0.250000954 instead of 0.25; angles part by more "
      "than 2^-24 rad from position 1, by more than 2^-8 from 4097");
}

TEST(Differences, PositionsAreTheFirstOnes) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> exponent(-60, 0);
  for (int n = 0; n < 2000; ++n) {
    const double apart = std::exp2(exponent(random));
    const auto found = differences(turning(two_pairs(0)), turning(two_pairs(apart)));
    ASSERT_EQ(found.size(), 1U);
    for (const auto& [first, step] :
         {std::pair(found[0].first_bf16, 0x1p-8), std::pair(found[0].first_f32, 0x1p-24)}) {
      if (!first) {
        EXPECT_LE(0x1p61 * apart, step);
        continue;
      }
      EXPECT_GT(static_cast<double>(*first) * apart, step);
      EXPECT_LE(static_cast<double>(*first - 1) * apart, step);
    }
  }
}

TEST(Differences, TooCloseToPartAnywhere) {
  const auto found = differences(turning(two_pairs(0)), turning(two_pairs(1e-300)));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FALSE(found[0].first_bf16.has_value());
  EXPECT_FALSE(found[0].first_f32.has_value());
  EXPECT_EQ(found[0].what, "inv_freq differs at 1 of 2 pairs, most at pair 1: 1e-300 instead of 0");
}

TEST(Differences, LayersWithTheSameDifferenceShareAnEntry) {
  const Plan a = of({{rope(1e4)}, {rope(1e6)}, {rope(1e4)}, {}});
  const Plan b = of({{rope(2e4)}, {rope(1e6)}, {rope(2e4)}, {rope(1e4)}});
  const auto found = differences(a, b);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_THAT(found[0].layers, ElementsAre(0, 2));
  EXPECT_THAT(found[0].what, HasSubstr("inv_freq differs at 31 of 32 pairs"));
  EXPECT_THAT(found[1].layers, ElementsAre(3));
  EXPECT_EQ(found[1].what, "a rotation is there only in the second");
  EXPECT_EQ(differences(b, a)[1].what, "a rotation is missing");
}

TEST(Differences, EveryFieldOfARotationCounts) {
  const Rotation base = two_pairs(0.5);
  const auto what = [&](auto change) {
    Rotation other = base;
    change(other);
    const auto found = differences(turning(base), turning(other));
    return found.size() == 1 ? found[0].what : std::to_string(found.size()) + " differences";
  };
  EXPECT_EQ(what([](Rotation& r) { r.amplitude = 1.25; }), "amplitude is 1.25 instead of 1");
  EXPECT_EQ(what([](Rotation& r) { r.sign = -1; }), "sign is -1 instead of 1");
  EXPECT_EQ(what([](Rotation& r) { r.read = Pairing::interleaved; }),
            "pairing is interleaved instead of half");
  EXPECT_EQ(what([](Rotation& r) { r.write = Pairing::interleaved; }),
            "write_pairing is interleaved instead of half");
  EXPECT_EQ(what([](Rotation& r) { r.head_dim = 8; }), "head_dim is 8 instead of 4");
  EXPECT_EQ(what([](Rotation& r) { r.offset = 2; }), "rotary_offset is 2 instead of 0");
  EXPECT_EQ(what([](Rotation& r) { r.width = 6; }), "rotary_dim is 6 instead of 4");
  EXPECT_EQ(what([](Rotation& r) { r.shared_key = true; }), "shared_key is yes instead of no");
  EXPECT_EQ(what([](Rotation& r) { r.acts_on.output_inverse = true; }),
            "acts_on is q, k, the output, inversely instead of q, k");
  EXPECT_EQ(what([](Rotation& r) {
              r.axis = {0, 2};
            }),
            "1 of 2 pairs follow another axis, the first is pair 1: 2 instead of 0");
  EXPECT_EQ(what([](Rotation& r) { r.axis = {0, 0}; }), "0 differences");
  EXPECT_EQ(what([](Rotation& r) { r.inv_freq = {1}; }), "inv_freq has 1 pairs instead of 2");
  EXPECT_EQ(what([](Rotation& r) { r.growth = XposGrowth{}; }), "growth is xpos instead of none");
  Rotation grown = base;
  grown.growth = XposGrowth{.zeta = {1, 0.5}};
  Rotation more = grown;
  more.growth->center = 7;
  more.growth->zeta[1] = 0.25;
  const auto found = differences(turning(grown), turning(more));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].what, "zeta differs at 1 of 2 pairs, most at pair 1: 0.25 instead of 0.5");
  EXPECT_EQ(found[1].what, "center is 7 instead of 0");
}

TEST(Differences, BiasesScalesAndEmbeddings) {
  LayerPositions a;
  a.bias = Bias{.heads = 2, .slopes = {0.5, 0.25}};
  a.query_scale = QueryScale{.form = "log_floor", .scale = 0.1, .floor = 8192, .shift = 1};
  LayerPositions b = a;
  b.bias->slopes[1] = 0.125;
  b.bias->scale_order = ScaleOrder::before_scale;
  b.bias->bidirectional = true;
  b.query_scale->shift = 0;
  b.query_scale->scale = 0;
  Plan first = uniform(a);
  Plan second = uniform(b);
  first.embedding = {PositionEmbedding{.rows = 10, .width = 4, .role = "positions"}};
  second.embedding = {
      PositionEmbedding{.rows = 12, .width = 4, .offset = 2, .role = "positions", .zero_row = 1}};
  std::vector<std::string> whats;
  for (const PlanDifference& one : differences(first, second)) whats.push_back(one.what);
  EXPECT_THAT(
      whats,
      ElementsAre("rows is 12 instead of 10", "offset is 2 instead of 0", "zero_row is 1 instead of none",
                  "slopes differs at 1 of 2 heads, most at head 1: 0.125 instead of 0.25",
                  "scale_order is before_scale instead of after_scale", "bidirectional is yes instead of no",
                  "scale is 0 instead of 0.1", "shift is 0 instead of 1"));
}

TEST(Differences, CountsOfLayersAndEmbeddings) {
  Plan more = of({{rope(1e4)}, {rope(1e4)}, {rope(1e4)}});
  more.embedding.push_back(PositionEmbedding{.rows = 3});
  const auto found = differences(of({{rope(1e4)}}), more);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].what, "the number of embeddings is 1 instead of 0");
  EXPECT_EQ(found[0].site, Site::embedding);
  EXPECT_EQ(found[1].what, "the number of layers is 3 instead of 1");
  EXPECT_THAT(found[1].layers, IsEmpty());
  EXPECT_EQ(found[1].largest, 2);
}

TEST(Differences, TheTruncationOfGptOss) {
  // The ramp of gpt-oss runs from 8.09 to 17.40; rounded to 8 and 18, pair 17 turns 76 % too fast.
  PositionSpec spec{"yarn", {}};
  spec.set("theta", 150000.0);
  spec.set("head_dim", std::int64_t{64});
  spec.set("factor", 32.0);
  spec.set("original_length", std::int64_t{4096});
  spec.set("truncate", std::int64_t{0});
  const Plan stated = of({{spec}});
  spec.set("truncate", std::int64_t{1});
  const Plan rounded = of({{spec}});
  const auto found = differences(stated, rounded);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].first_f32, 1);
  const double ratio = rounded.kinds[0].rotation->inv_freq[17] / stated.kinds[0].rotation->inv_freq[17];
  EXPECT_GT(ratio, 1.75);
  EXPECT_LT(ratio, 2);
}

}  // namespace
}  // namespace locant

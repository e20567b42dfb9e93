// SPDX-License-Identifier: Apache-2.0
// Published lengths and bases against counts that were worked out apart from this code.
#include <gtest/gtest.h>

#include <cmath>

#include "budgets.h"
#include "locant/trust.h"
#include "trust/small_specs.h"

namespace locant {
namespace {

struct Published {
  std::string name;
  std::int64_t head_dim;
  double theta;
  std::int64_t trained;
  std::int64_t critical;
  std::int64_t incomplete;
  std::int64_t negative_from;
};

StaticTrust trust_of(const ModelSpec& spec, std::int64_t trained, std::int64_t to) {
  return static_trust({.spec = &spec, .recipe = "exact", .to = to, .trained = trained});
}

StaticTrust scheduled(const Published& model, const Extension& extension, std::int64_t to) {
  const ModelSpec plain = tests::spec_of(tests::rope_of(model.head_dim, model.theta), model.trained);
  return trust_of(extended_spec(plain, extension, model.trained), model.trained, to);
}

std::int64_t per_mille(double share) {
  return std::llround(1000 * share);
}

class PublishedAngles : public ::testing::TestWithParam<Published> {};

TEST_P(PublishedAngles, CriticalDimensionIncompletePairsAndCosineSum) {
  const Published& model = GetParam();
  const ModelSpec spec = tests::spec_of(tests::rope_of(model.head_dim, model.theta), model.trained);
  const StaticTrust trust = trust_of(spec, model.trained, 40000);
  ASSERT_EQ(trust.rotations.size(), 1U);
  const RotationTrust& rotation = trust.rotations.front();
  EXPECT_EQ(rotation.critical_dimension, model.critical);
  EXPECT_EQ(rotation.incomplete_pairs, model.incomplete);
  EXPECT_EQ(rotation.sum_negative_from, model.negative_from);
  EXPECT_EQ(rotation.first_position, model.trained);  // a plain ladder leaves at once
  EXPECT_EQ(static_cast<std::int64_t>(rotation.pairs.size()), model.head_dim / 2);
}

INSTANTIATE_TEST_SUITE_P(Models, PublishedAngles,
                         ::testing::Values(Published{"llama1", 128, 1e4, 2048, 82, 23, 1707},
                                           Published{"llama2", 128, 1e4, 4096, 92, 18, 1707},
                                           Published{"llama3", 128, 5e5, 8192, 70, 29, 18438},
                                           Published{"qwen25", 128, 1e6, 32768, 80, 24, 27115},
                                           Published{"phi3mini", 96, 1e4, 2048, 62, 17, 1046},
                                           Published{"tiny", 32, 1e4, 128, 12, 10, 474}),
                         [](const auto& model) { return model.param.name; });

constexpr auto kTiny = [] { return Published{"tiny", 32, 1e4, 128, 12, 10, 474}; };
constexpr auto kLlama3 = [] { return Published{"llama3", 128, 5e5, 8192, 70, 29, 18438}; };

TEST(Angles, UnseenCellsOfSchedulesOnATinyModel) {
  const ModelSpec plain = tests::spec_of(tests::rope_of(32, 1e4), 128);
  EXPECT_EQ(per_mille(trust_of(plain, 128, 1024).rotations[0].unseen), 491);
  EXPECT_EQ(scheduled(kTiny(), {.method = "linear", .factor = 8}, 1024).rotations[0].unseen, 0);
  EXPECT_EQ(per_mille(scheduled(kTiny(), {.method = "ntk", .factor = 8}, 1024).rotations[0].unseen), 232);
  EXPECT_EQ(scheduled(kTiny(), {.method = "yarn", .factor = 8}, 1024).rotations[0].unseen, 0);
}

TEST(Angles, TheLlama3RuleEndsWhereItsFactorDoes) {
  const Extension rule{.method = "llama3", .factor = 8};
  EXPECT_EQ(scheduled(kLlama3(), rule, 65536).rotations[0].unseen, 0);
  const RotationTrust far = scheduled(kLlama3(), rule, 131072).rotations[0];
  EXPECT_EQ(per_mille(far.unseen), 208);
  EXPECT_EQ(far.first_position, 65537);
  EXPECT_EQ(far.sum_negative_from, 85133);
}

TEST(Angles, CompressionIsToldByTheFastestPair) {
  const RotationTrust linear = scheduled(kTiny(), {.method = "linear", .factor = 8}, 1024).rotations[0];
  EXPECT_DOUBLE_EQ(linear.fastest_step, 0.125);
  EXPECT_DOUBLE_EQ(linear.least_compression, 0.125);
  const RotationTrust ntk = scheduled(kTiny(), {.method = "ntk", .factor = 8}, 1024).rotations[0];
  EXPECT_DOUBLE_EQ(ntk.fastest_step, 1);
  EXPECT_NEAR(ntk.least_compression, 0.125, budgets::kScheduleExact);
}

TEST(Angles, LinearBlursNeighboursAndSaysSo) {
  const StaticTrust trust = scheduled(kTiny(), {.method = "linear", .factor = 8}, 1024);
  bool said = false;
  for (const TrustFinding& finding : trust.findings) said = said || finding.name == "neighbours-blurred";
  EXPECT_TRUE(said);
}

TEST(Angles, AngleCountsAgreeWithACountOfEveryCell) {
  for (const char* const method : {"linear", "ntk", "yarn", "llama3"}) {
    for (const std::int64_t to : {129, 500, 2600}) {
      const RotationTrust rotation = scheduled(kTiny(), {.method = method, .factor = 4}, to).rotations[0];
      for (const PairAngles& pair : rotation.pairs) {
        std::int64_t unseen = 0;
        const double seen = pair.plain * (pair.compression < 1 ? 128 : 127) * (1 + 1e-12);
        for (std::int64_t m = 0; m < to && pair.plain * 127 < 2 * M_PI; ++m)
          unseen += std::fmod(pair.inv_freq * static_cast<double>(m), 2 * M_PI) >= seen ? 1 : 0;
        // an angle that is both the last seen and the next step may count either way
        EXPECT_LE(std::abs(std::llround(pair.unseen * static_cast<double>(to)) - unseen), 1 + to / 400)
            << method << " pair " << pair.pair << " to " << to;
      }
    }
  }
}

TEST(Angles, F32AnglesLoseMoreFartherOut) {
  const ModelSpec spec = tests::spec_of(tests::rope_of(128, 5e5), 8192);
  const auto error = [&](std::int64_t to) {
    return static_trust({.spec = &spec, .recipe = "hf", .to = to}).rotations[0].table_error;
  };
  const double at_32k = error(32768);
  const double at_1m = error(1 << 20);
  // An angle of 32768 in f32 is off by up to half of 2^-8.
  EXPECT_GT(at_32k, 0x1p-12);
  EXPECT_LT(at_32k, 32768 * 0x1p-23);
  EXPECT_GT(at_1m, 10 * at_32k);
  EXPECT_LT(trust_of(spec, 8192, 1 << 20).rotations[0].table_error, budgets::kTableExact * 2);
}

TEST(Extension, RefusesWhatCannotBe) {
  const ModelSpec plain = tests::spec_of(tests::rope_of(32, 1e4), 128);
  EXPECT_THROW((void)extended_spec(plain, {.method = "magic", .factor = 2}, 128), SpecError);
  EXPECT_THROW((void)extended_spec(plain, {.method = "yarn", .factor = 0.5}, 128), SpecError);
  EXPECT_THROW((void)extended_spec(plain, {.method = "none"}, 128), SpecError);
  EXPECT_THROW((void)extended_spec(plain, {.method = "linear", .factor = 2, .beta_fast = 8}, 128), SpecError);
  const ModelSpec twice = extended_spec(plain, {.method = "yarn", .factor = 2}, 128);
  EXPECT_THROW((void)extended_spec(twice, {.method = "linear", .factor = 2}, 128), SpecError);
  const ModelSpec back = extended_spec(twice, {.method = "none"}, 128);
  EXPECT_EQ(back.positions.layers[0][0].mechanism, "rope");
  ModelSpec alibi = plain;
  alibi.positions.layers[0].clear();
  EXPECT_THROW((void)extended_spec(alibi, {.method = "linear", .factor = 2}, 128), SpecError);
}

}  // namespace
}  // namespace locant

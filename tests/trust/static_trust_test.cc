// SPDX-License-Identifier: Apache-2.0
// What the static part says of models that no text can measure, and of what no recipe reads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "locant/trust.h"
#include "trust/small_specs.h"

namespace locant {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using tests::rope_of;
using tests::spec_of;

std::vector<std::string> found_in(const StaticTrust& facts) {
  std::vector<std::string> names;
  for (const TrustFinding& finding : facts.findings) names.push_back(finding.name);
  return names;
}

TEST(StaticTrust, ADecoderCanBeMeasured) {
  const ModelSpec spec = spec_of(rope_of(64, 10000), 128);
  EXPECT_THAT(static_trust({.spec = &spec}).unmeasurable, IsEmpty());
}

TEST(StaticTrust, WhatSeesBehindItCannot) {
  ModelSpec spec = spec_of(rope_of(64, 10000), 128);
  spec.attention[0].bidirectional = true;
  const StaticTrust facts = static_trust({.spec = &spec});
  EXPECT_EQ(facts.unmeasurable, "a token of llama sees those behind it");
  EXPECT_THAT(trust_verdict(facts, nullptr).text, HasSubstr("no decoder: a token of llama"));
}

TEST(StaticTrust, WhatReadsAnEncoderCannot) {
  ModelSpec spec = spec_of(rope_of(64, 10000), 128);
  StackSpec encoder;
  encoder.positions.stack = Stack::encoder;
  encoder.positions.layers = spec.positions.layers;
  encoder.attention = spec.attention;
  spec.others.push_back(encoder);
  const StaticTrust facts = static_trust({.spec = &spec});
  EXPECT_EQ(facts.unmeasurable, "llama reads an encoder beside the text");
}

TEST(StaticTrust, AFamilyThatNoRecipeKnowsIsSaid) {
  ModelSpec spec = spec_of(rope_of(64, 10000), 128);
  EXPECT_THAT(found_in(static_trust({.spec = &spec})), IsEmpty());
  spec.generic = true;
  spec.family = "lama";
  EXPECT_THAT(found_in(static_trust({.spec = &spec})), Contains("family-unknown"));
}

TEST(StaticTrust, AScheduleThatTheRecipeRefusesIsSaid) {
  PositionSpec dynamic = rope_of(64, 10000);
  dynamic.mechanism = "dynamic_ntk";
  dynamic.set("factor", 4.0);
  dynamic.set("max_positions", std::int64_t{128});
  const ModelSpec spec = spec_of(dynamic, 128);
  EXPECT_THAT(found_in(static_trust({.spec = &spec, .recipe = "ctranslate2"})), Contains("recipe-refuses"));
  EXPECT_THAT(found_in(static_trust({.spec = &spec, .recipe = "hf"})),
              ::testing::Not(Contains("recipe-refuses")));
}

}  // namespace
}  // namespace locant

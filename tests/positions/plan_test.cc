// SPDX-License-Identifier: Apache-2.0
// plan(): what a model says about a stack becomes kinds that equal layers share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "locant/positions.h"
#include "positions/sentences.h"

namespace locant {
namespace {

using testing::ElementsAre;
using testing_text::sentence;

PositionSpec rope_spec(double theta, std::string name = "rope") {
  PositionSpec spec{std::move(name), {}};
  spec.set("theta", theta);
  spec.set("head_dim", std::int64_t{64});
  return spec;
}

PositionSpec alibi_spec(std::int64_t heads) {
  PositionSpec spec{"alibi", {}};
  spec.set("heads", heads);
  return spec;
}

PositionSpec learned_spec() {
  PositionSpec spec{"learned", {}};
  spec.set("rows", std::int64_t{1024});
  spec.set("width", std::int64_t{768});
  return spec;
}

Plan exact(const StackPositions& positions) {
  return plan(positions, find_recipe("exact"), {});
}

TEST(Plan, EqualLayersShareAKind) {
  StackPositions positions;
  positions.stack = Stack::encoder;
  positions.embedding = {learned_spec()};
  positions.layers = {{rope_spec(1e4)},
                      {},
                      {rope_spec(1e4, "rotary")},
                      {rope_spec(1e6)},
                      {},
                      {alibi_spec(12), rope_spec(1e4)},
                      {rope_spec(1e4), alibi_spec(12)}};
  const Plan result = exact(positions);
  EXPECT_EQ(result.stack, Stack::encoder);
  EXPECT_THAT(result.layers, ElementsAre(0, 1, 0, 2, 1, 3, 3));
  ASSERT_EQ(result.kinds.size(), 4U);
  EXPECT_TRUE(result.kinds[0].rotation.has_value());
  EXPECT_FALSE(result.kinds[0].bias.has_value());
  EXPECT_EQ(result.kinds[1], LayerPositions{});
  EXPECT_NE(result.kinds[2].rotation, result.kinds[0].rotation);
  EXPECT_EQ(result.kinds[3].rotation, result.kinds[0].rotation);
  EXPECT_EQ(result.kinds[3].bias->heads, 12);
  ASSERT_EQ(result.embedding.size(), 1U);
  EXPECT_EQ(result.embedding[0].rows, 1024);
}

TEST(Plan, OfNothingIsEmpty) {
  const Plan result = exact({});
  EXPECT_EQ(result, Plan{});
}

TEST(Plan, FollowsTheRecipe) {
  StackPositions positions;
  positions.layers = {{rope_spec(123456)}};
  const Plan hf = plan(positions, find_recipe("hf"), {});
  EXPECT_NE(hf, exact(positions));
  EXPECT_EQ(hf, plan(positions, find_recipe("hf"), {}));
}

TEST(Plan, RefusesWhatALayerCannotHold) {
  const auto says = [](std::vector<PositionSpec> embedding, std::vector<std::vector<PositionSpec>> layers) {
    StackPositions positions;
    positions.embedding = std::move(embedding);
    positions.layers = std::move(layers);
    return sentence<SpecError>([&] { (void)exact(positions); });
  };
  EXPECT_EQ(says({}, {{rope_spec(1e4)}, {rope_spec(1e4), rope_spec(1e6)}}),
            "plan: a layer holds one mechanism per site, got a second rotation at layer 1, rope");
  EXPECT_EQ(says({}, {{alibi_spec(8), alibi_spec(8)}}),
            "plan: a layer holds one mechanism per site, got a second bias at layer 0, alibi");
  EXPECT_EQ(says({}, {{learned_spec()}}), "plan: learned acts on the embedding, got it at layer 0");
  EXPECT_EQ(says({alibi_spec(8)}, {}), "plan: alibi acts on the bias of a layer, got it at the embedding");
  EXPECT_EQ(says({}, {{rope_spec(-1)}}), "rope: theta must be a finite number above 0, got -1");
  EXPECT_EQ(says({}, {{rope_spec(1e4, "ropes")}}),
            "mechanism: no mechanism has this name, got \"ropes\", did you mean \"rope\"");
}

}  // namespace
}  // namespace locant

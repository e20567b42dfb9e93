// SPDX-License-Identifier: Apache-2.0
// Positions that only a few families have: values that rotate, bases that grow in steps, relative sinusoids,
// slopes and where they count from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "locant/positions.h"
#include "spec/configs.h"

namespace locant {
namespace {

using namespace tests;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

TEST(Rotations, DeepseekV4RotatesValuesAndTurnsTheOutputBack) {
  const ModelSpec spec = looked_at({{"model_type", "deepseek_v4"}});
  const Plan plan = locant::plan(spec.positions, find_recipe("hf"), {});
  for (const LayerPositions& kind : plan.kinds) {
    ASSERT_TRUE(kind.rotation.has_value());
    EXPECT_TRUE(kind.rotation->acts_on.v);
    EXPECT_TRUE(kind.rotation->acts_on.output_inverse);
    EXPECT_TRUE(kind.rotation->shared_key);
    EXPECT_EQ(kind.rotation->offset + kind.rotation->width, kind.rotation->head_dim);
  }
  const Json roformer = {{"model_type", "roformer"}, {"num_hidden_layers", 1}};
  EXPECT_EQ(looked_at(roformer).positions.layers.at(0).at(0).find("acts_on"), nullptr);
  EXPECT_EQ(word(looked_at(with(roformer, {{"rotary_value", true}})).positions.layers.at(0).at(0), "acts_on"),
            "qkv");
}

TEST(Rotations, QwenGrowsInStepsPastWhatItWasTrainedAt) {
  const Json base = {{"model_type", "qwen"},      {"hidden_size", 4096},      {"num_hidden_layers", 2},
                     {"num_attention_heads", 32}, {"kv_channels", 128},       {"intermediate_size", 22016},
                     {"seq_length", 2048},        {"rotary_emb_base", 10000}, {"rotary_pct", 1.0}};
  const ModelSpec spec = looked_at(with(base, {{"use_dynamic_ntk", true}, {"use_logn_attn", true}}));
  ASSERT_EQ(spec.positions.layers.at(1).size(), 2U);
  const PositionSpec& rope = spec.positions.layers[1][0];
  EXPECT_EQ(rope.mechanism, "dynamic_ntk");
  EXPECT_EQ(word(rope, "growth"), "steps");
  EXPECT_EQ(integer(rope, "max_positions"), 2048);
  EXPECT_EQ(spec.positions.layers[1][1].mechanism, "logn");
  EXPECT_EQ(spec.positions.layers[1][1].find("length")->key, "seq_length");
  EXPECT_THAT(texts_of(spec.notes), Not(Contains(HasSubstr("use_dynamic_ntk"))));
  const auto slowest = [&](std::int64_t seen) {
    return locant::plan(spec.positions, find_recipe("vllm"), {.seen = seen})
        .kinds.at(0)
        .rotation->inv_freq.back();
  };
  EXPECT_EQ(slowest(1), slowest(2048));
  EXPECT_EQ(slowest(2049), slowest(4096));
  EXPECT_GT(slowest(2048), slowest(2049));
  EXPECT_GT(slowest(4096), slowest(4097));
  const ModelSpec plain = looked_at(with(base, {{"use_dynamic_ntk", false}, {"use_logn_attn", false}}));
  EXPECT_EQ(plain.positions.layers.at(1).size(), 1U);
  EXPECT_EQ(plain.positions.layers[1][0].mechanism, "rope");
  EXPECT_NO_THROW((void)locant::plan(spec.positions, find_recipe("exact"), {}));
}

TEST(Bias, XlnetHasRelativeSinusoids) {
  const ModelSpec spec = looked_at({{"model_type", "xlnet"}, {"n_layer", 2}});
  const PositionSpec& relative = spec.positions.layers.at(1).at(0);
  EXPECT_EQ(relative.mechanism, "xlnet");
  EXPECT_EQ(integer(relative, "width"), 1024);
  EXPECT_EQ(word(relative, "direction"), "bidirectional");
  EXPECT_EQ(relative.find("clamp"), nullptr);
  const ModelSpec other = looked_at({{"model_type", "xlnet"}, {"clamp_len", 400}, {"attn_type", "uni"}});
  EXPECT_EQ(integer(other.positions.layers.at(0).at(0), "clamp"), 400);
  EXPECT_EQ(word(other.positions.layers[0][0], "direction"), "causal");
  EXPECT_FALSE(other.attention.at(0).bidirectional);
  EXPECT_NO_THROW((void)locant::plan(spec.positions, find_recipe("exact"), {}));
}

TEST(Bias, WhereSlopesAreCountedFrom) {
  EXPECT_EQ(word(looked_at({{"model_type", "bloom"},
                            {"n_layer", 1},
                            {"hidden_size", 64},
                            {"n_head", 8},
                            {"vocab_size", 9}})
                     .positions.layers.at(0)
                     .at(0),
                 "counts_from"),
            "sequence_start");
  EXPECT_EQ(
      word(looked_at({{"model_type", "mpt"}, {"n_layers", 1}}).positions.layers.at(0).at(0), "counts_from"),
      "sequence_end");
}

}  // namespace
}  // namespace locant

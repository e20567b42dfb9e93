// SPDX-License-Identifier: Apache-2.0
// Rows of architectures and their rotations: pairing, base, width, schedules, axes. Numbers are those of
// llama.cpp's code (0.3.36 of llama_cpp_python).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "budgets.h"
#include "spec/gguf_models.h"

namespace locant {
namespace {

using namespace tests;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(GgufArchitectures, EachIsReadAndPlanned) {
  const std::vector<std::string_view> names = gguf_architectures();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  EXPECT_GE(names.size(), 100U);
  for (const std::string_view name : names) {
    SCOPED_TRACE(name);
    const ModelSpec spec = read(complete(std::string(name)));
    EXPECT_FALSE(spec.generic);
    EXPECT_EQ(spec.layers, 4);
    EXPECT_EQ(spec.positions.layers.size(), 4U);
    EXPECT_EQ(spec.attention.size(), 4U);
    for (const AttentionSpec& attention : spec.attention) EXPECT_GT(attention.scale, 0);
    for (const char* const recipe : {"llama.cpp", "exact", "hf"})
      EXPECT_EQ(plan(spec.positions, find_recipe(recipe), {}).layers.size(), 4U);
  }
}

TEST(GgufArchitectures, AnUnknownOneIsReadByTheSharedKeys) {
  GgufModel model = gguf_model("newest");
  model.set("newest.rope.freq_base", 70000.0).set("newest.rope.dimension_count", 8);
  const ModelSpec spec = read(model);
  EXPECT_TRUE(spec.generic);
  EXPECT_EQ(spec.family, "newest");
  EXPECT_EQ(spec.hidden, 64);
  EXPECT_EQ(number_of(rope_of(spec), "theta"), 70000);
  EXPECT_EQ(whole_of(rope_of(spec), "rotary_dim"), 8);
  EXPECT_THAT(texts(spec), Contains(HasSubstr("architecture \"newest\" is none that Locant knows")));
  const ModelSpec bare = read(GgufModel().set("general.architecture", "mamba"));
  EXPECT_TRUE(bare.generic);
  EXPECT_EQ(bare.layers, 0);
  EXPECT_THAT(texts(bare), Contains(HasSubstr("mamba.block_count is not stated")));
}

TEST(GgufRope, PairsAsTheFileIsStored) {
  for (const char* const name : {"llama", "mistral3", "granite", "command-r", "chatglm", "glm4"}) {
    EXPECT_EQ(word_of(rope_of(read(complete(name).drop(std::string(name) + ".rope.dimension_sections"))),
                      "pairing"),
              "interleaved")
        << name;
  }
  for (const char* const name : {"qwen2", "gemma2", "phi3", "gptneox", "falcon", "glm4moe", "gpt-oss"}) {
    EXPECT_EQ(word_of(rope_of(read(complete(name).drop(std::string(name) + ".rope.dimension_sections"))),
                      "pairing"),
              "half")
        << name;
  }
}

TEST(GgufRope, TheKeysOfABaseAndAWidth) {
  const ModelSpec plain = read(gguf_model("qwen3"));
  EXPECT_EQ(number_of(rope_of(plain), "theta"), 10000);
  EXPECT_EQ(rope_of(plain).find("theta")->key, "");
  EXPECT_EQ(rope_of(plain).find("rotary_dim"), nullptr);
  EXPECT_EQ(plain.head_dim, 16);
  GgufModel model = gguf_model("qwen3");
  model.set("qwen3.attention.key_length", 40)
      .set("qwen3.rope.dimension_count", 24)
      .set("qwen3.rope.freq_base", 1e6);
  const ModelSpec spec = read(model);
  EXPECT_EQ(spec.head_dim, 40);
  EXPECT_EQ(whole_of(rope_of(spec), "rotary_dim"), 24);
  EXPECT_EQ(rope_of(spec).find("rotary_dim")->key, "qwen3.rope.dimension_count");
  EXPECT_EQ(number_of(rope_of(spec), "theta"), 1e6);
  EXPECT_EQ(rope_of(spec).find("theta")->key, "qwen3.rope.freq_base");
  EXPECT_DOUBLE_EQ(spec.attention[0].scale, 1 / std::sqrt(40.0));
}

TEST(GgufRope, Schedules) {
  const auto mechanism = [](const char* type, GgufModel model) {
    if (*type != '\0') model.set("llama.rope.scaling.type", type);
    return rope_of(read(model)).mechanism;
  };
  const GgufModel plain = gguf_model("llama");
  GgufModel four = plain;
  four.set("llama.rope.scaling.factor", 4.0);
  EXPECT_EQ(mechanism("", plain), "rope");
  EXPECT_EQ(mechanism("none", plain), "rope");
  EXPECT_EQ(mechanism("", four), "linear") << "a missing type is linear";
  EXPECT_EQ(mechanism("linear", four), "linear");
  EXPECT_EQ(mechanism("none", four), "rope") << "none never stretches";
  EXPECT_EQ(mechanism("yarn", four), "yarn");
  GgufModel old = plain;
  old.set("llama.rope.scale_linear", 2.0);
  EXPECT_EQ(mechanism("", old), "linear");
  EXPECT_EQ(number_of(rope_of(read(old)), "factor"), 2);
  EXPECT_EQ(mechanism("", old.set("llama.rope.scaling.factor", 0.0)), "rope") << "0 = nothing is stretched";
}

TEST(GgufRope, Yarn) {
  GgufModel model = gguf_model("qwen2");
  model.set("qwen2.rope.scaling.type", "yarn")
      .set("qwen2.rope.scaling.factor", 4.0)
      .set("qwen2.rope.scaling.original_context_length", 1024)
      .set("qwen2.rope.scaling.yarn_beta_fast", 16.0)
      .set("qwen2.rope.scaling.yarn_attn_factor", 3.0);
  const ModelSpec spec = read(model);
  EXPECT_EQ(spec.lengths.trained, 1024);
  EXPECT_EQ(whole_of(rope_of(spec), "original_length"), 1024);
  EXPECT_EQ(rope_of(spec).find("beta_fast"), nullptr) << "llama.cpp reads it for two architectures";
  EXPECT_THAT(texts(spec), Contains(HasSubstr("does not read qwen2.rope.scaling.yarn_beta_fast")));
  EXPECT_NEAR(planned(rope_of(spec)).amplitude, 0.1 * std::log(4.0) + 1, budgets::kSpecScale);
  model.set("qwen2.rope.scaling.attn_factor", 0.5);
  EXPECT_NEAR(planned(rope_of(read(model))).amplitude, 0.5 * (0.1 * std::log(4.0) + 1), budgets::kSpecScale);
  GgufModel large = gguf_model("mistral3");
  large.set("mistral3.rope.scaling.type", "yarn")
      .set("mistral3.rope.scaling.factor", 16.0)
      .set("mistral3.rope.scaling.yarn_beta_fast", 4.0)
      .set("mistral3.rope.scaling.yarn_log_multiplier", 1.0)
      .set("mistral3.attention.temperature_scale", 0.1)
      .set("mistral3.rope.scaling.original_context_length", 512);
  const ModelSpec of_large = read(large);
  EXPECT_EQ(number_of(rope_of(of_large), "beta_fast"), 4);
  EXPECT_NEAR(planned(rope_of(of_large)).amplitude, 1, budgets::kSpecScale);
  ASSERT_EQ(of_large.positions.layers[3].size(), 2U);
  const PositionSpec& growth = of_large.positions.layers[3][1];
  EXPECT_EQ(growth.mechanism, "attention_temperature");
  EXPECT_EQ(number_of(growth, "floor"), 512);
  EXPECT_EQ(whole_of(growth, "shift"), 0);
}

TEST(GgufRope, DivisorsOfLlama3) {
  GgufModel model = gguf_model("llama");
  model.floats("rope_freqs.weight", {1, 1, 1, 1.5, 3, 8, 8, 8});
  const PositionSpec rope = rope_of(read(model));
  EXPECT_EQ(rope.mechanism, "rope");
  EXPECT_EQ(rope.find("divisors")->key, "rope_freqs.weight");
  const Rotation rotation = planned(rope);
  EXPECT_NEAR(rotation.inv_freq[7], std::pow(10000.0, -14.0 / 16) / 8, budgets::kSpecScale);
}

TEST(GgufRope, LongFactorsByTheContextThatIsOpened) {
  GgufModel model = gguf_model("phi3");
  model.set("phi3.rope.dimension_count", 12)
      .set("phi3.rope.scaling.original_context_length", 1024)
      .set("phi3.rope.scaling.attn_factor", 1.19)
      .floats("rope_factors_short.weight", {1, 1, 1, 1, 1, 1})
      .floats("rope_factors_long.weight", {1, 2, 3, 4, 5, 6});
  const ModelSpec spec = read(model);
  const PositionSpec& rope = rope_of(spec);
  EXPECT_EQ(rope.mechanism, "longrope");
  const double slowest = std::pow(10000.0, -10.0 / 12);
  EXPECT_NEAR(planned(rope, {.seen = 1, .capacity = 512}).inv_freq[5], slowest, budgets::kSpecScale);
  EXPECT_NEAR(planned(rope, {.seen = 1, .capacity = 2048}).inv_freq[5], slowest / 6, budgets::kSpecScale);
  EXPECT_NEAR(planned(rope).inv_freq[5], slowest / 6, budgets::kSpecScale) << "the file's own context";
  EXPECT_EQ(planned(rope).amplitude, static_cast<double>(1.19F));
  EXPECT_EQ(spec.lengths.trained, 1024);
}

TEST(GgufRope, PositionAxes) {
  GgufModel model = gguf_model("qwen2vl");
  model.set("qwen2vl.rope.dimension_sections", std::vector<int>{2, 3, 3, 0});
  EXPECT_THAT(planned(rope_of(read(model))).axis, ElementsAre(0, 0, 1, 1, 1, 2, 2, 2));
  GgufModel turns = gguf_model("qwen3vl");
  turns.set("qwen3vl.rope.dimension_sections", std::vector<int>{4, 2, 2, 0});
  EXPECT_THAT(planned(rope_of(read(turns))).axis, ElementsAre(0, 1, 2, 0, 1, 2, 0, 3))
      << "a pair that is left over follows the fourth axis";
  GgufModel image = gguf_model("glm4");
  image.set("glm4.rope.dimension_sections", std::vector<int>{2, 3, 3, 0});
  EXPECT_EQ(word_of(rope_of(read(image)), "pairing"), "half");
}

}  // namespace
}  // namespace locant

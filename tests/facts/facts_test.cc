// SPDX-License-Identifier: Apache-2.0
// Facts of published configs: every layer stands once per site, and numbers that are known of each model.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numbers>
#include <set>
#include <string>
#include <vector>

#include "budgets.h"
#include "core/temp_dir.h"
#include "locant/facts.h"
#include "locant/formats.h"

namespace locant {
namespace {

namespace fs = std::filesystem;
using tests::message_of;

fs::path folder() {
  return fs::path(LOCANT_TEST_DATA_DIR) / "hf-configs";
}

bool no_data() {
  return std::string(LOCANT_TEST_DATA_DIR).empty() || !fs::is_directory(folder());
}

Facts facts(const std::string& name, const FactsQuery& query = {}) {
  return facts_of(read_hf_config((folder() / (name + ".json")).string(), Reading::facts), query);
}

/// Each layer of each stack is in one entry per site, or in one entry without a plan.
void expect_each_layer_once(const Facts& facts, Stack stack, std::size_t layers) {
  std::map<std::int64_t, std::multiset<std::string>> sites;
  for (const PositionFacts& entry : facts.positions) {
    if (entry.stack != stack) continue;
    EXPECT_TRUE(std::is_sorted(entry.layers.begin(), entry.layers.end()));
    for (const std::int64_t layer : entry.layers) sites[layer].insert(std::string(site_of(entry)));
  }
  EXPECT_EQ(sites.size(), layers);
  for (const auto& [layer, of_layer] : sites) {
    EXPECT_LT(layer, static_cast<std::int64_t>(layers));
    for (const std::string& site : of_layer) EXPECT_EQ(of_layer.count(site), 1U) << layer << " " << site;
    if (of_layer.count("none") > 0) {
      EXPECT_EQ(of_layer.size(), 1U) << layer;
    }
  }
}

TEST(Facts, EveryPublishedConfigCoversEachLayerOnce) {
  if (no_data()) GTEST_SKIP() << "no folder hf-configs in the test data";
  int seen = 0;
  for (const auto& file : fs::directory_iterator(folder())) {
    if (file.path().extension() != ".json") continue;
    SCOPED_TRACE(file.path().filename());
    const ModelSpec spec = read_hf_config(file.path().string(), Reading::facts);
    for (const char* const recipe : {"exact", "hf"}) {
      const Facts facts = facts_of(spec, {.recipe = recipe});
      expect_each_layer_once(facts, spec.positions.stack, static_cast<std::size_t>(spec.layers));
      for (const StackSpec& other : spec.others)
        expect_each_layer_once(facts, other.positions.stack, other.positions.layers.size());
      EXPECT_EQ(facts.recipe, recipe);
      EXPECT_NE(facts.limits.memory.kv_bytes_per_token.has_value(), !facts.limits.memory.why_not.empty());
    }
    ++seen;
  }
  EXPECT_GE(seen, 100);
}

TEST(Facts, WavesOfLlama31) {
  if (no_data()) GTEST_SKIP() << "no folder hf-configs in the test data";
  const Facts of = facts("llama-3.1-405b", {.recipe = "exact"});
  ASSERT_EQ(of.positions.size(), 1U);
  EXPECT_EQ(of.positions[0].mechanism, "llama3");
  EXPECT_EQ(of.positions[0].layers.size(), 126U);
  EXPECT_EQ(of.positions[0].theta, 500000.0);
  EXPECT_EQ(of.limits.lengths.trained, 8192);
  EXPECT_EQ(of.limits.lengths.configured, 131072);
  ASSERT_EQ(of.limits.angles.size(), 1U);
  const AngleFacts& angle = of.limits.angles[0];
  const double turn = 2 * std::numbers::pi;
  EXPECT_NEAR(angle.shortest_wavelength, turn, turn * budgets::kFrequencyExact);
  // the slowest wave of theta 500000 over 128 dimensions, divided by the factor 8
  const double longest = 8 * turn * std::pow(500000.0, 126.0 / 128);
  EXPECT_NEAR(angle.longest_wavelength, longest, longest * budgets::kScheduleExact);
  EXPECT_EQ(angle.pairs, 64);
  // The plain ladder has 64 - floor(64 ln(8191 / 2 pi) / ln 500000) - 1 = 29 slow pairs; the factor moves
  // more behind the line, but those had their turn.
  ASSERT_TRUE(angle.incomplete_pairs && angle.leaves_from);
  EXPECT_GE(*angle.incomplete_pairs, 29);
  EXPECT_GE(*angle.leaves_from, 8 * 8191);
  EXPECT_EQ(angle.leaving_pairs, 29);
}

TEST(Facts, PairsOfPlainRopeLeaveAtTheLength) {
  if (no_data()) GTEST_SKIP() << "no folder hf-configs in the test data";
  const Facts of = facts("llama-3-8b", {.recipe = "exact", .distance = 20000});
  const AngleFacts& angle = of.limits.angles.at(0);
  EXPECT_EQ(of.limits.angle_basis, "configured");
  EXPECT_EQ(angle.incomplete_pairs, 29);
  EXPECT_EQ(angle.leaves_from, of.limits.lengths.configured);
  EXPECT_EQ(angle.leaving_pairs, 29);
  EXPECT_EQ(facts("llama-3-8b").limits.angles.at(0).leaving_pairs, 0);
}

TEST(Facts, HeadsAreReadByTheRecipe) {
  ModelSpec t5;
  t5.head.tied_regardless = true;
  EXPECT_TRUE(facts_of(t5, {.recipe = "hf"}).head.tied);
  EXPECT_FALSE(facts_of(t5, {.recipe = "exact"}).head.tied);
  EXPECT_FALSE(facts_of(t5, {.recipe = "llama.cpp"}).head.tied);
  ModelSpec minicpm;
  minicpm.format = "gguf";
  minicpm.family = "minicpm";
  minicpm.head.scale = 256.0 / 2304;
  EXPECT_EQ(facts_of(minicpm, {.recipe = "exact"}).head.scale, 256.0 / 2304);
  EXPECT_EQ(facts_of(minicpm, {.recipe = "llama.cpp"}).head.scale, 1 / (256.0 / 2304));
  minicpm.head.scale_key = "minicpm.logit_scale";
  EXPECT_EQ(facts_of(minicpm, {.recipe = "llama.cpp"}).head.scale, 256.0 / 2304);
}

TEST(Facts, TheNormaliserOfGemmaIsRoundedButInLlamaCpp) {
  ModelSpec gemma;
  gemma.embedding.scale = std::sqrt(2560.0);
  EXPECT_EQ(facts_of(gemma, {.recipe = "hf"}).embedding.scale_rounding, ScaleRounding::none);
  gemma.embedding.scale_in_run_dtype = true;
  EXPECT_EQ(facts_of(gemma, {.recipe = "hf"}).embedding.scale_rounding, ScaleRounding::run_dtype);
  EXPECT_EQ(facts_of(gemma, {.recipe = "llama.cpp"}).embedding.scale_rounding, ScaleRounding::none);
  EXPECT_EQ(facts_of(gemma, {.recipe = "exact"}).embedding.scale_rounding, ScaleRounding::none);
}

TEST(Facts, WindowsOfGptOss) {
  if (no_data()) GTEST_SKIP() << "no folder hf-configs in the test data";
  const Facts of = facts("gpt-oss-20b");
  ASSERT_EQ(of.attention.size(), 2U);
  EXPECT_EQ(of.attention[0].attention.kind, AttentionKind::window);
  EXPECT_EQ(of.attention[0].attention.window, 128);
  EXPECT_TRUE(of.attention[0].attention.sinks);
  EXPECT_EQ(of.attention[0].layers.size(), 12U);
  EXPECT_EQ(of.attention[1].layers.front(), 1);
  // 24 layers of 8 heads of 64, keys and values, two bytes each; half of the layers keep 128 tokens
  constexpr std::int64_t kLayer = 2 * 8 * 64 * 2;
  EXPECT_EQ(of.limits.memory.kv_bytes_per_token, 24 * kLayer);
  EXPECT_EQ(of.limits.memory.at_configured, 12 * kLayer * 128 + 12 * kLayer * 131072);
}

TEST(Facts, DeepSeekKeepsItsMagnitudesInVllm) {
  if (no_data()) GTEST_SKIP() << "no folder hf-configs in the test data";
  for (const std::string recipe : {"hf", "vllm", "llama.cpp"}) {
    const Facts of = facts("deepseek-r1", {.recipe = recipe});
    EXPECT_EQ(std::get<Rotation>(*of.positions[0].plan).amplitude, 1.0) << recipe;
  }
}

TEST(Facts, TwoRotationsOfGemma3) {
  if (no_data()) GTEST_SKIP() << "no folder hf-configs in the test data";
  const Facts of = facts("gemma-3-27b");
  ASSERT_EQ(of.positions.size(), 2U);
  EXPECT_EQ(of.positions[0].theta, 10000.0);
  EXPECT_EQ(of.positions[0].mechanism, "rope");
  EXPECT_EQ(of.positions[1].theta, 1e6);
  EXPECT_EQ(of.positions[1].mechanism, "linear");
  EXPECT_EQ(of.positions[1].layers.front(), 5);
  EXPECT_EQ(of.embedding.scale_rounding, ScaleRounding::run_dtype);
}

TEST(Facts, SlopesOfBloom) {
  if (no_data()) GTEST_SKIP() << "no folder hf-configs in the test data";
  const Facts of = facts("bloom-7b1", {.recipe = "exact"});
  ASSERT_EQ(of.positions.size(), 1U);
  const auto& bias = std::get<Bias>(of.positions[0].plan.value());
  EXPECT_EQ(bias.slopes.size(), 32U);
  EXPECT_EQ(bias.slopes, alibi_slopes(32));
  EXPECT_EQ(of.embedding.norm, NormKind::layer);
  EXPECT_FALSE(of.limits.hard.has_value());
  EXPECT_FALSE(of.limits.lengths.trained.has_value());
}

TEST(Facts, TablesThatEnd) {
  if (no_data()) GTEST_SKIP() << "no folder hf-configs in the test data";
  const Facts gpt2 = facts("gpt2");
  EXPECT_EQ(gpt2.limits.hard, 1024);
  EXPECT_EQ(gpt2.limits.last_position, 1023);
  EXPECT_EQ(gpt2.positions.at(1).mechanism, "none");
  EXPECT_EQ(gpt2.positions.at(1).layers.size(), 12U);
  const Facts opt = facts("opt-125m");
  EXPECT_EQ(opt.limits.hard, 2050);
  EXPECT_EQ(opt.limits.last_position, 2047);
}

TEST(Facts, ADistanceChangesWhatFollowsTheLength) {
  if (no_data()) GTEST_SKIP() << "no folder hf-configs in the test data";
  const auto plan_at = [](const std::string& name, std::int64_t distance) {
    const Facts of = facts(name, {.distance = distance});
    return std::get<Rotation>(of.positions.at(0).plan.value());
  };
  EXPECT_EQ(plan_at("phi-3-mini-128k-instruct", 16), plan_at("phi-3-mini-128k-instruct", 4096));
  EXPECT_NE(plan_at("phi-3-mini-128k-instruct", 16), plan_at("phi-3-mini-128k-instruct", 4097));
  EXPECT_EQ(facts("phi-3-mini-128k-instruct").positions.at(0).length_rule, LengthRule::seen);
  EXPECT_EQ(plan_at("llama-3.1-405b", 16), plan_at("llama-3.1-405b", 100000));
  EXPECT_EQ(facts("llama-3.1-405b").positions.at(0).length_rule, LengthRule::none);
  // vLLM reads the length that the server was opened for
  const FactsQuery small{.recipe = "vllm", .capacity = 4096};
  const FactsQuery large{.recipe = "vllm", .capacity = 131072};
  EXPECT_NE(facts("phi-3-mini-128k-instruct", small).positions.at(0).plan,
            facts("phi-3-mini-128k-instruct", large).positions.at(0).plan);
}

/// A small dynamic_ntk model whose sizes are all stated.
ModelSpec dynamic_model(const tests::TempDir& dir) {
  return read_hf_config(
      dir.write("config.json",
                R"({"model_type": "llama", "vocab_size": 320, "hidden_size": 72, "num_hidden_layers": 3,
                    "num_attention_heads": 9, "num_key_value_heads": 3, "intermediate_size": 100,
                    "max_position_embeddings": 2048,
                    "rope_parameters": {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 123456.0}})"),
      Reading::facts);
}

TEST(Facts, DynamicNtkFollowsTheDistance) {
  const tests::TempDir dir;
  const ModelSpec spec = dynamic_model(dir);
  const Facts near = facts_of(spec, {.distance = 2048});
  const Facts far = facts_of(spec, {.distance = 4096});
  EXPECT_EQ(near.positions.at(0).plan, facts_of(spec).positions.at(0).plan);
  EXPECT_NE(near.positions.at(0).plan, far.positions.at(0).plan);
  EXPECT_EQ(far.distance, 4096);
  EXPECT_EQ(far.limits.memory.kv_bytes_per_token, 3 * 2 * 3 * 8 * 2);
  EXPECT_EQ(far.limits.memory.at_configured, 3 * 2 * 3 * 8 * 2 * 2048);
}

TEST(Facts, WhatIsWrongIsRefused) {
  const tests::TempDir dir;
  const ModelSpec spec = dynamic_model(dir);
  const auto said = [&](const FactsQuery& query) {
    return message_of<SpecError>([&] { (void)facts_of(spec, query); });
  };
  EXPECT_EQ(said({.distance = -1}), "facts: a distance is at least 0 tokens, got -1");
  EXPECT_EQ(said({.capacity = 0}), "facts: a capacity is at least 1 token, got 0");
  EXPECT_NE(said({.recipe = "vlm"}).find("did you mean \"vllm\""), std::string::npos);
  const std::string damaged = dir.write("model.safetensors", "none");
  EXPECT_NE(message_of<FileError>([&] { (void)facts_of(spec, {.weights = damaged}); }), "");
}

TEST(Facts, HeadersOfABundledModel) {
  const std::string path = std::string(LOCANT_SOURCE_DIR) + "/models/rope";
  const Facts of = facts_of(read_hf_config(path, Reading::facts), {.weights = path});
  EXPECT_EQ(of.embedding.tensor, "model.embed_tokens.weight");
  EXPECT_EQ(of.head.tensor, of.embedding.tensor);
  EXPECT_TRUE(of.embedding.dtype.has_value());
  // four layers of 4 x 128^2 and 3 x 128 x 344 weights, nine norms, the embedding
  EXPECT_EQ(of.model.parameters, 4 * (4 * 128 * 128 + 3 * 128 * 344) + 9 * 128 + 260 * 128);
  EXPECT_FALSE(of.head.absent);
}

TEST(Facts, ABareEncoderHasNoHeadAndItsPositionIdsAreNoParameters) {
  const tests::TempDir dir;
  const std::string config =
      dir.write("config.json",
                R"({"model_type": "bert", "vocab_size": 11, "hidden_size": 4, "num_hidden_layers": 1,
          "num_attention_heads": 2, "intermediate_size": 6, "max_position_embeddings": 8})");
  const std::vector<float> values(44);
  const std::vector<std::int64_t> ids(8);
  const auto written = [&](std::string_view extra) {
    std::string path = (fs::path(config).parent_path() / "model.safetensors").string();
    SafetensorsWriter file(path);
    file.add("embeddings.word_embeddings.weight", TensorRef(values.data(), DType::f32, {11, 4}));
    file.add("embeddings.position_ids", TensorRef(ids.data(), DType::i64, {1, 8}));
    if (!extra.empty()) file.add(extra, TensorRef(values.data(), DType::f32, {4, 4}));
    file.finish();
    return facts_of(read_hf_config(fs::path(config).parent_path().string(), Reading::facts),
                    {.weights = std::move(path)});
  };
  const Facts bare = written("");
  EXPECT_TRUE(bare.head.absent);
  EXPECT_EQ(bare.head.tensor, "");
  EXPECT_EQ(bare.model.parameters, 44);
  EXPECT_FALSE(written("cls.predictions.transform.dense.weight").head.absent);
}

}  // namespace
}  // namespace locant

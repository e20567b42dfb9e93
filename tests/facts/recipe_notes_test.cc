// SPDX-License-Identifier: Apache-2.0
// What a recipe refuses or reads otherwise is a note: C109 and C110.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "core/temp_dir.h"
#include "locant/facts.h"

namespace locant {
namespace {

namespace fs = std::filesystem;
using tests::TempDir;

/// A small model of the llama family with that rope_scaling.
ModelSpec model(const std::string& scaling) {
  const TempDir dir;
  return read_hf_config(
      dir.write("config.json",
                R"({"model_type": "llama", "vocab_size": 320, "hidden_size": 96, "num_hidden_layers": 3,
                    "num_attention_heads": 6, "intermediate_size": 100, "max_position_embeddings": 4096,
                    "rope_theta": 123456.0, "rope_scaling": )" +
                    scaling + "}"),
      Reading::facts);
}

constexpr const char* kDynamic = R"({"type": "dynamic", "factor": 4.0})";
constexpr const char* kYarn = R"({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024})";
constexpr const char* kUncut =
    R"({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024, "truncate": false})";

std::vector<std::string> texts(const Facts& facts, const std::string& rule) {
  std::vector<std::string> found;
  for (const Note& note : facts.notes) {
    if (note.rule == rule) found.push_back(note.text);
  }
  return found;
}

TEST(C109, ARefusedScheduleIsAFact) {
  for (const char* const recipe : {"ctranslate2", "tensorrt-llm", "onnxruntime"}) {
    SCOPED_TRACE(recipe);
    const Facts facts = facts_of(model(kDynamic), {.recipe = recipe});
    const std::vector<std::string> said = texts(facts, "C109");
    ASSERT_EQ(said.size(), 1U);
    EXPECT_EQ(said[0].rfind(std::string(recipe) + " has no plan here, dynamic_ntk: ", 0), 0U) << said[0];
    ASSERT_EQ(facts.positions.size(), 1U);
    const PositionFacts& entry = facts.positions[0];
    EXPECT_FALSE(entry.plan.has_value());
    EXPECT_FALSE(entry.refused.empty());
    EXPECT_EQ(site_of(entry), "rotation");
    EXPECT_EQ(entry.mechanism, "dynamic_ntk");
    EXPECT_EQ(entry.layers.size(), 3U);
    EXPECT_TRUE(facts.limits.angles.empty());
    EXPECT_TRUE(texts(facts, "C110").empty());
  }
}

TEST(C109, WhatARecipeHasIsNotRefused) {
  for (const char* const recipe : {"exact", "hf", "sglang", "vllm", "mlx"}) {
    const Facts facts = facts_of(model(kDynamic), {.recipe = recipe});
    EXPECT_TRUE(texts(facts, "C109").empty()) << recipe;
    EXPECT_TRUE(facts.positions.at(0).plan.has_value()) << recipe;
  }
}

TEST(C109, WhatEveryRecipeRefusesStillThrows) {
  const ModelSpec spec = model(R"({"type": "dynamic", "factor": -1.0})");
  EXPECT_THROW((void)facts_of(spec, {.recipe = "hf"}), SpecError);
  EXPECT_THROW((void)facts_of(spec, {.recipe = "ctranslate2"}), SpecError);
}

TEST(C110, RulesThatDiffer) {
  const Facts cut = facts_of(model(kUncut), {.recipe = "llama.cpp"});
  ASSERT_EQ(texts(cut, "C110").size(), 1U);
  EXPECT_NE(
      texts(cut, "C110")[0].find("llama.cpp reads the rotation of 3 layers otherwise than exact: inv_freq"),
      std::string::npos)
      << texts(cut, "C110")[0];
  EXPECT_FALSE(texts(facts_of(model(kDynamic), {.recipe = "sglang"}), "C110").empty());
}

TEST(C110, RoundingIsNoDifference) {
  // f32 tables, f32 angles: not one rule differs on a plain or truncated schedule
  for (const char* const recipe : {"exact", "hf", "vllm", "llama.cpp", "mlx", "sglang", "onnxruntime"}) {
    EXPECT_TRUE(texts(facts_of(model("null"), {.recipe = recipe}), "C110").empty()) << recipe;
  }
  for (const char* const recipe : {"exact", "hf", "vllm", "llama.cpp"})
    EXPECT_TRUE(texts(facts_of(model(kYarn), {.recipe = recipe}), "C110").empty()) << recipe;
}

TEST(C110, OnlyAtTheDistanceAskedFor) {
  const ModelSpec spec = model(kDynamic);
  EXPECT_TRUE(texts(facts_of(spec, {.recipe = "vllm", .distance = 4096}), "C110").empty());
  EXPECT_FALSE(texts(facts_of(spec, {.recipe = "vllm", .distance = 8192}), "C110").empty());
}

TEST(RecipeNotes, PublishedConfigsAgreeWithTransformers) {
  const fs::path folder = fs::path(LOCANT_TEST_DATA_DIR) / "hf-configs";
  if (std::string(LOCANT_TEST_DATA_DIR).empty() || !fs::is_directory(folder))
    GTEST_SKIP() << "no folder hf-configs in the test data";
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const ModelSpec spec = read_hf_config(entry.path().string(), Reading::facts);
    const Facts hf = facts_of(spec, {.recipe = "hf"});
    EXPECT_TRUE(texts(hf, "C109").empty()) << entry.path();
    EXPECT_TRUE(texts(hf, "C110").empty()) << entry.path() << texts(hf, "C110").front();
  }
}

}  // namespace
}  // namespace locant

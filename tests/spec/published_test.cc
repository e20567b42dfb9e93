// SPDX-License-Identifier: Apache-2.0
// Published configs: each is read, or refused in a sentence that names the file and a key. Nothing else is
// thrown.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "locant/positions.h"
#include "locant/spec.h"

namespace locant {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> published() {
  std::vector<fs::path> found;
  const fs::path folder = fs::path(LOCANT_TEST_DATA_DIR) / "hf-configs";
  if (std::string(LOCANT_TEST_DATA_DIR).empty() || !fs::is_directory(folder)) return found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

bool names_a_key(const nlohmann::json& config, const std::string& sentence) {
  if (sentence.find("model_type") != std::string::npos) return true;
  return std::any_of(config.items().begin(), config.items().end(),
                     [&](const auto& item) { return sentence.find(item.key()) != std::string::npos; });
}

void expect_sane(const ModelSpec& spec) {
  EXPECT_EQ(spec.attention.size(), static_cast<std::size_t>(spec.layers));
  EXPECT_EQ(spec.positions.layers.size(), static_cast<std::size_t>(spec.layers));
  if (spec.kv_heads > 0) {
    EXPECT_EQ(spec.heads % spec.kv_heads, 0);
  }
  for (const char* const recipe : {"exact", "hf"}) {
    const Plan plan = locant::plan(spec.positions, find_recipe(recipe), {});
    EXPECT_EQ(plan.layers.size(), static_cast<std::size_t>(spec.layers));
    for (const StackSpec& other : spec.others) {
      EXPECT_EQ(other.attention.size(), other.positions.layers.size());
      (void)locant::plan(other.positions, find_recipe(recipe), {});
    }
  }
}

TEST(Published, EveryOneIsInspected) {
  const std::vector<fs::path> paths = published();
  if (paths.empty()) GTEST_SKIP() << "no folder hf-configs in the test data";
  std::vector<std::string> generic;
  for (const fs::path& path : paths) {
    SCOPED_TRACE(path.filename());
    const ModelSpec spec = read_hf_config(path.string(), Reading::facts);
    expect_sane(spec);
    if (spec.generic) {
      generic.push_back(path.stem().string());
      EXPECT_FALSE(spec.notes.empty());
    } else {
      EXPECT_GE(spec.hidden, 1);
      EXPECT_GE(spec.layers, 1);
      EXPECT_GE(spec.vocab, 1);
    }
  }
  EXPECT_THAT(generic, testing::UnorderedElementsAre("minicpm-v-2_6", "minicpm-v-4", "minicpm3-4b",
                                                     "openmoe-8b", "wavlm-base-plus"));
}

TEST(Published, IsReadOrRefusedByKey) {
  const std::vector<fs::path> paths = published();
  if (paths.empty()) GTEST_SKIP() << "no folder hf-configs in the test data";
  std::size_t readable = 0;
  for (const fs::path& path : paths) {
    SCOPED_TRACE(path.filename());
    const nlohmann::json config = nlohmann::json::parse(std::ifstream(path));
    try {
      expect_sane(read_hf_config(path.string()));
      ++readable;
    } catch (const SpecError& error) {
      const std::string sentence = error.what();
      EXPECT_EQ(sentence.rfind(path.string() + ": ", 0), 0U) << sentence;
      EXPECT_TRUE(names_a_key(config, sentence)) << sentence;
    }
  }
  EXPECT_GE(readable, 100U);
}

// The best known of each family that are there must be readable.
TEST(Published, KnownOnesAreRead) {
  const std::vector<fs::path> paths = published();
  if (paths.empty()) GTEST_SKIP() << "no folder hf-configs in the test data";
  for (const char* name : {"bloom-7b1", "gpt2", "llama-2-7b-hf", "llama-3-8b", "tinyllama-1.1b-chat-v1.0"}) {
    const fs::path path = paths.front().parent_path() / (std::string(name) + ".json");
    EXPECT_NO_THROW((void)read_hf_config(path.string())) << name;
  }
}

TEST(Published, FactsOfBloomGpt2AndLlama) {
  const std::vector<fs::path> paths = published();
  if (paths.empty()) GTEST_SKIP() << "no folder hf-configs in the test data";
  const auto read = [&](const char* name) {
    return read_hf_config((paths.front().parent_path() / name).string());
  };
  const ModelSpec bloom = read("bloom-7b1.json");
  EXPECT_EQ(bloom.hidden, 4096);
  EXPECT_EQ(bloom.heads, 32);
  EXPECT_EQ(bloom.vocab, 250880);
  const ModelSpec gpt2 = read("gpt2.json");
  EXPECT_EQ(gpt2.hidden, 768);
  EXPECT_EQ(gpt2.layers, 12);
  EXPECT_EQ(gpt2.head_dim, 64);
  EXPECT_EQ(gpt2.lengths.configured, 1024);
  const ModelSpec llama = read("llama-3-8b.json");
  EXPECT_EQ(llama.kv_heads, 8);
  EXPECT_EQ(llama.heads, 32);
  EXPECT_EQ(llama.head_dim, 128);
}

}  // namespace
}  // namespace locant

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

void expect_sane(const ModelSpec& spec, const nlohmann::json& config) {
  EXPECT_EQ(spec.family, config.at("model_type"));
  EXPECT_EQ(spec.vocab, config.at("vocab_size"));
  EXPECT_GE(spec.layers, 1);
  EXPECT_GE(spec.hidden, spec.heads);
  EXPECT_EQ(spec.heads % spec.kv_heads, 0);
  EXPECT_EQ(spec.attention.size(), static_cast<std::size_t>(spec.layers));
  EXPECT_EQ(spec.positions.layers.size(), static_cast<std::size_t>(spec.layers));
  EXPECT_GT(spec.mlp.width, 0);
  if (!config.contains("head_dim")) {
    EXPECT_EQ(spec.head_dim * spec.heads, spec.hidden);
  }
  const Plan plan = locant::plan(spec.positions, find_recipe("hf"), {});
  EXPECT_EQ(plan.layers.size(), static_cast<std::size_t>(spec.layers));
  if (spec.family == "llama") {
    ASSERT_TRUE(plan.kinds.at(0).rotation.has_value());
    EXPECT_EQ(plan.kinds[0].rotation->width, spec.head_dim);
    if (config.contains("rope_theta")) {
      EXPECT_EQ(std::get<double>(spec.positions.layers[0][0].find("theta")->value), config.at("rope_theta"));
    }
  }
}

TEST(Published, IsReadOrRefusedByKey) {
  const std::vector<fs::path> paths = published();
  if (paths.empty()) GTEST_SKIP() << "no folder hf-configs in the test data";
  std::size_t readable = 0;
  for (const fs::path& path : paths) {
    SCOPED_TRACE(path.filename());
    const nlohmann::json config = nlohmann::json::parse(std::ifstream(path));
    try {
      expect_sane(read_hf_config(path.string()), config);
      ++readable;
    } catch (const SpecError& error) {
      const std::string sentence = error.what();
      EXPECT_EQ(sentence.rfind(path.string() + ": ", 0), 0U) << sentence;
      EXPECT_TRUE(names_a_key(config, sentence)) << sentence;
    }
  }
  EXPECT_GE(readable, 5U);
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

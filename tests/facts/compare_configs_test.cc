// SPDX-License-Identifier: Apache-2.0
// Published configs under hf against vllm, llama.cpp and mlx: every difference, and the configs without one,
// as compare_configs.json lists them; and each disagreement of docs/disagreements.md that applies to one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "locant/compare.h"

namespace locant {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using ::testing::Contains;

constexpr std::array<const char*, 3> kOthers = {"vllm", "llama.cpp", "mlx"};

/// "rotation amplitude", "rotation inv_freq past" where no token of the configured length shows it.
std::vector<std::string> told(const Comparison& found) {
  std::set<std::string> words;
  for (const Difference& one : found.differences)
    words.insert(one.site + " " + one.what + (one.inside ? "" : " past"));
  return {words.begin(), words.end()};
}

/// What the config gives under each other recipe, or the sentence of its refusal.
Json measured(const fs::path& config) {
  const ModelSpec spec = read_hf_config(config.string(), Reading::facts);
  Json row = Json::object();
  for (const char* const other : kOthers) {
    const auto side = [&](const char* recipe) {
      return CompareSide{
          .name = recipe, .spec = &spec, .recipe = recipe, .dtype = stated_dtype(config.string())};
    };
    try {
      row[other] = told(compare(side("hf"), side(other)));
    } catch (const SpecError& error) {
      const std::string sentence = error.what();
      return sentence.substr(0, sentence.find(", got"));
    }
  }
  return row;
}

std::vector<fs::path> configs() {
  std::vector<fs::path> found;
  const std::string data = LOCANT_TEST_DATA_DIR;
  if (data.empty() || !fs::is_directory(data + "/hf-configs")) return found;
  for (const auto& entry : fs::directory_iterator(data + "/hf-configs")) {
    if (entry.path().extension() == ".json") found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

Json table() {
  std::ifstream file(std::string(LOCANT_SOURCE_DIR) + "/tests/facts/compare_configs.json");
  return Json::parse(file);
}

TEST(CompareConfigs, EveryConfigSaysWhatTheTableSays) {
  const std::vector<fs::path> paths = configs();
  if (paths.empty()) GTEST_SKIP() << "no published configs here (LOCANT_TEST_DATA)";
  const Json want = table();
  EXPECT_EQ(want.size(), paths.size());
  // Each takes a second: a fixed sample, and all of them where all tests are run.
  const std::size_t step = std::getenv("LOCANT_FULL") == nullptr ? 6 : 1;
  for (std::size_t i = 0; i < paths.size(); i += step) {
    const fs::path& path = paths[i];
    const std::string name = path.stem().string();
    ASSERT_TRUE(want.contains(name)) << name << ": " << measured(path).dump();
    EXPECT_EQ(measured(path).dump(), want[name].dump()) << name;
  }
}

struct Row {
  const char* row;  ///< of docs/disagreements.md
  const char* config;
  const char* recipe;
  const char* said;
};
// The rows that apply to a published config under these recipes, one config each.
constexpr Row kRows[] = {
    {"2", "gpt-oss-20b", "llama.cpp", "rotation inv_freq"},
    {"2", "gpt-oss-20b", "mlx", "rotation inv_freq"},
    {"4", "phi-3-mini-128k-instruct", "vllm", "rotation inv_freq"},
    {"4", "phi-3-mini-128k-instruct", "llama.cpp", "rotation inv_freq"},
    {"4, 16", "phi-3-mini-128k-instruct", "mlx", "rotation inv_freq"},
    {"4", "phi-3.5-moe-instruct", "mlx", "rotation inv_freq"},
    {"5", "gemma-7b", "llama.cpp", "scale embedding_scale"},
    {"6", "qwen2.5-vl-7b-instruct", "vllm", "position_ids after_video"},
    {"6", "qwen3-vl-2b-instruct-trimmed", "llama.cpp", "rotation axis"},
    {"7", "bloom-7b1", "vllm", "bias bias"},
    {"13", "t5-small", "llama.cpp", "head head_scale"},
    {"14", "llama-3.1-405b", "llama.cpp", "rotation angle"},
};

TEST(CompareConfigs, DisagreementsThatApply) {
  const Json want = table();
  for (const Row& row : kRows) {
    ASSERT_TRUE(want.contains(row.config)) << row.config;
    const auto said = want[row.config][row.recipe].get<std::vector<std::string>>();
    EXPECT_THAT(said, Contains(row.said))
        << "row " << row.row << ": " << row.config << " under " << row.recipe;
  }
}

TEST(CompareConfigs, ConfigsWithoutADifference) {
  std::size_t none = 0;
  const Json all = table();
  for (const auto& [name, row] : all.items()) {
    if (!row.is_object()) continue;
    const bool silent = std::all_of(row.begin(), row.end(), [](const Json& said) { return said.empty(); });
    none += silent ? 1U : 0U;
  }
  EXPECT_GT(none, 0U);
  for (const char* const plain : {"gpt2", "opt-125m", "llama-2-7b-hf", "tinyllama-1.1b-chat-v1.0"}) {
    for (const char* const other : kOthers) EXPECT_TRUE(all[plain][other].empty()) << plain << " " << other;
  }
}

}  // namespace
}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// Which rules speak on published configs: a config that is healthy has none, whatever else is added later.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "locant/spec.h"

namespace locant {
namespace {

namespace fs = std::filesystem;
using Ids = std::set<std::string>;

// What is odd in the file itself:
//   glm-5.2-fp8-sim, step-3.7-flash: the holder of the copy trimmed the rotation's keys away;
//   gte-new: YaRN stands under custom_rope_scaling beside a null rope_scaling, a window under a name of its
//   own; minicpm-v-4: 32786 for 32768.
const std::map<std::string, Ids> kOdd = {
    {"glm-5.2-fp8-sim", {"C114"}},
    {"gte-new", {"C102", "C106"}},
    {"minicpm-v-4", {"C112"}},
    {"step-3.7-flash", {"C114"}},
};

Ids rules_of(const fs::path& path) {
  Ids ids;
  for (const Note& note : read_hf_config(path.string(), Reading::facts).notes) {
    if (!note.rule.empty()) ids.insert(note.rule);
  }
  return ids;
}

TEST(PublishedRules, AreExactlyThese) {
  const fs::path folder = fs::path(LOCANT_TEST_DATA_DIR) / "hf-configs";
  if (std::string(LOCANT_TEST_DATA_DIR).empty() || !fs::is_directory(folder))
    GTEST_SKIP() << "no folder hf-configs in the test data";
  std::map<std::string, Ids> odd;
  int seen = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    ++seen;
    if (Ids ids = rules_of(entry.path()); !ids.empty())
      odd.emplace(entry.path().stem().string(), std::move(ids));
  }
  EXPECT_GE(seen, 118);
  EXPECT_EQ(odd, kOdd);
}

TEST(PublishedRules, BundledModelsAreSilent) {
  for (const char* const name : {"alibi", "learned", "rope", "sinusoidal"}) {
    const fs::path folder = fs::path(LOCANT_SOURCE_DIR) / "models" / name;
    EXPECT_EQ(rules_of(folder), Ids()) << name;
  }
}

// Models of recorded faults are small: one keeps ids of the large vocabulary, one states a factor of its own.
TEST(PublishedRules, ModelsOfRecordedFaults) {
  const fs::path folder = fs::path(LOCANT_TEST_DATA_DIR) / "real-faults";
  if (std::string(LOCANT_TEST_DATA_DIR).empty() || !fs::is_directory(folder))
    GTEST_SKIP() << "no folder real-faults in the test data";
  std::map<std::string, Ids> odd;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!fs::exists(entry.path() / "model" / "config.json")) continue;
    if (Ids ids = rules_of(entry.path() / "model"); !ids.empty())
      odd.emplace(entry.path().filename().string(), std::move(ids));
  }
  const std::map<std::string, Ids> expected = {{"transformers-deepseek-v2-softmax-scale", {"C107"}},
                                               {"transformers-qwen25vl-image-temporal", {"C116"}}};
  EXPECT_EQ(odd, expected);
}

}  // namespace
}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// Every config against what transformers itself makes of it (golden/transformers.json, by
// golden/generate.py): each schedule in the words of v4 and v5, the defaults of each family's class, and
// published configs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "budgets.h"
#include "locant/positions.h"
#include "spec/configs.h"

namespace locant {
namespace {

using namespace tests;

const Json& golden() {
  static const Json kGolden =
      Json::parse(std::ifstream(std::string(LOCANT_SOURCE_DIR) + "/tests/spec/golden/transformers.json"));
  return kGolden;
}

ModelSpec read_facts(const Json& config) {
  const TempDir dir;
  return read_hf_config(dir.write("config.json", config.dump()), Reading::facts);
}

bool near(double ours, double theirs, double budget) {
  return std::abs(ours - theirs) <= budget * std::abs(theirs);
}

// Mechanisms that a spec names and the registry lacks, each once.
std::set<std::string> unknown_mechanisms(const ModelSpec& spec) {
  std::set<std::string> unknown;
  for (const auto& layer : spec.positions.layers) {
    for (const PositionSpec& position : layer) {
      try {
        (void)find_mechanism(position.mechanism);
      } catch (const SpecError&) {
        unknown.insert(position.mechanism);
      }
    }
  }
  return unknown;
}

void expect_schedule(const Rotation& rotation, const Json& row) {
  const Json& inv_freq = row.at("inv_freq");
  ASSERT_EQ(rotation.inv_freq.size(), inv_freq.size());
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    EXPECT_TRUE(near(rotation.inv_freq[i], inv_freq[i].get<double>(), budgets::kFrequencyHf))
        << "pair " << i << " of " << inv_freq.size() << ", seen " << row.at("seen") << ": "
        << rotation.inv_freq[i] << " is not " << inv_freq[i];
  }
  EXPECT_TRUE(near(rotation.amplitude, row.at("amplitude").get<double>(), budgets::kSpecScale))
      << rotation.amplitude << " is not " << row.at("amplitude");
  EXPECT_EQ(rotation.width, 2 * static_cast<std::int64_t>(inv_freq.size()));
}

void expect_pairing(const Rotation& rotation, const std::string& word) {
  EXPECT_EQ(rotation.read, word == "half" ? Pairing::half : Pairing::interleaved);
  EXPECT_EQ(rotation.write, word == "interleaved" ? Pairing::interleaved : Pairing::half);
}

void expect_rotations(const ModelSpec& spec, const Json& row) {
  std::set<std::string> done;
  for (std::size_t layer = 0; layer < row.at("layers").size(); ++layer) {
    const Json& kind = row.at("kinds").at(row.at("layers")[layer].get<std::size_t>());
    bool rotates = false;
    for (const PositionSpec& position : spec.positions.layers[layer]) {
      rotates = rotates || find_mechanism(position.mechanism).site == Site::rotation;
    }
    EXPECT_EQ(rotates, kind.at("rotates").get<bool>()) << "layer " << layer;
    if (!rotates || !kind.contains("schedules") || kind["schedules"].is_null()) continue;
    if (!done.insert(kind.dump()).second) continue;
    SCOPED_TRACE("layer " + std::to_string(layer));
    StackPositions one;
    one.layers = {spec.positions.layers[layer]};
    for (const Json& schedule : kind["schedules"]) {
      const Plan plan =
          locant::plan(one, find_recipe("hf"), {.seen = schedule.at("seen").get<std::int64_t>()});
      ASSERT_TRUE(plan.kinds.at(0).rotation.has_value());
      expect_schedule(*plan.kinds[0].rotation, schedule);
      if (kind.at("pairing").is_string()) expect_pairing(*plan.kinds[0].rotation, kind["pairing"]);
    }
  }
}

void expect_attention(const ModelSpec& spec, const Json& row) {
  for (std::size_t layer = 0; layer < row.at("layers").size(); ++layer) {
    SCOPED_TRACE("layer " + std::to_string(layer));
    const Json& kind = row.at("kinds").at(row.at("layers")[layer].get<std::size_t>());
    const AttentionSpec& attention = spec.attention[layer];
    EXPECT_EQ(name_of(attention.kind), kind.at("kind").get<std::string>());
    EXPECT_EQ(attention.window, kind.at("window").get<std::int64_t>());
    if (kind.contains("scale")) {
      EXPECT_TRUE(near(attention.scale, kind["scale"].get<double>(), budgets::kSpecScale))
          << attention.scale << " is not " << kind["scale"];
    }
    if (kind.contains("softcap")) {
      EXPECT_EQ(attention.softcap, kind["softcap"].get<double>());
    }
  }
}

void expect_same(const ModelSpec& spec, const Json& row) {
  ASSERT_EQ(spec.positions.layers.size(), row.at("layers").size());
  ASSERT_EQ(spec.attention.size(), row.at("layers").size());
  EXPECT_THAT(unknown_mechanisms(spec), testing::IsEmpty());
  if (testing::Test::HasFailure() && !unknown_mechanisms(spec).empty()) return;
  expect_rotations(spec, row);
  expect_attention(spec, row);
  if (row.at("vocab").is_number()) {
    EXPECT_EQ(spec.vocab, row["vocab"].get<std::int64_t>());
  }
  if (row.at("hidden").is_number()) {
    EXPECT_EQ(spec.hidden, row["hidden"].get<std::int64_t>());
  }
  if (row.at("tied").is_boolean()) {
    EXPECT_EQ(spec.head.tied || spec.head.tied_regardless, row["tied"].get<bool>());
  }
  EXPECT_TRUE(near(spec.embedding.scale, row.at("embedding_scale").get<double>(), budgets::kSpecScale))
      << spec.embedding.scale << " is not " << row["embedding_scale"];
  EXPECT_TRUE(near(spec.head.scale, row.at("head_scale").get<double>(), budgets::kSpecScale))
      << spec.head.scale << " is not " << row["head_scale"];
  EXPECT_EQ(spec.head.softcap, row.at("head_softcap").get<double>());
  EXPECT_FALSE(spec.generic);
}

TEST(Golden, HoldsEnoughCases) {
  EXPECT_GE(golden().at("synthetic").size(), 40U);
  EXPECT_GE(golden().at("defaults").size(), 90U);
  EXPECT_GE(golden().at("published").size(), 80U);
}

TEST(Golden, EverySchedule) {
  for (const auto& item : golden().at("synthetic").items()) {
    SCOPED_TRACE(item.key());
    expect_same(read_facts(item.value().at("config")), item.value());
  }
}

TEST(Golden, DefaultsOfEveryClass) {
  for (const auto& item : golden().at("defaults").items()) {
    SCOPED_TRACE(item.key());
    expect_same(read_facts({{"model_type", item.key()}}), item.value());
  }
}

TEST(Golden, PublishedConfigs) {
  const std::filesystem::path folder = std::filesystem::path(LOCANT_TEST_DATA_DIR) / "hf-configs";
  if (std::string(LOCANT_TEST_DATA_DIR).empty() || !std::filesystem::is_directory(folder)) {
    GTEST_SKIP() << "no folder hf-configs in the test data";
  }
  for (const auto& item : golden().at("published").items()) {
    SCOPED_TRACE(item.key());
    const ModelSpec spec = read_hf_config((folder / item.key()).string(), Reading::facts);
    if (spec.generic) continue;  // a class that transformers has and Locant has no row for
    expect_same(spec, item.value());
  }
}

}  // namespace
}  // namespace locant

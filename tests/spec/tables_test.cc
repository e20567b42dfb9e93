// SPDX-License-Identifier: Apache-2.0
// Slopes, buckets, sinusoids and partial rotations of configs against what transformers makes of them
// (golden/tables.json, by golden/generate_tables.py), and partial rotations under every other recipe.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

#include "budgets.h"
#include "locant/positions.h"
#include "spec/configs.h"

namespace locant {
namespace {

using namespace tests;

const Json& golden() {
  static const Json kGolden =
      Json::parse(std::ifstream(std::string(LOCANT_SOURCE_DIR) + "/tests/spec/golden/tables.json"));
  return kGolden;
}

ModelSpec read_facts(const Json& config) {
  const TempDir dir;
  return read_hf_config(dir.write("config.json", config.dump()), Reading::facts);
}

Plan planned(const ModelSpec& spec, std::string_view recipe = "hf") {
  return plan(spec.positions, find_recipe(recipe), {});
}

TEST(GoldenTables, SlopesOfConfigs) {
  ASSERT_GE(golden().at("slopes").size(), 6U);
  for (const Json& one : golden()["slopes"]) {
    SCOPED_TRACE(one.at("config").dump());
    const Plan plan = planned(read_facts(one["config"]));
    ASSERT_TRUE(plan.kinds.at(0).bias.has_value());
    const std::vector<double>& slopes = plan.kinds[0].bias->slopes;
    ASSERT_EQ(slopes.size(), one.at("slopes").size());
    for (std::size_t h = 0; h < slopes.size(); ++h) {
      EXPECT_NEAR(slopes[h], one["slopes"][h].get<double>(), budgets::kFrequencyHf * slopes[h]) << h;
    }
  }
}

TEST(GoldenTables, BucketsOfConfigs) {
  for (const Json& one : golden().at("buckets")) {
    SCOPED_TRACE(one.at("config").dump());
    const ModelSpec spec = read_facts(one["config"]);
    const auto expect_buckets = [&](const StackPositions& positions, const char* side) {
      const Bias bias = plan(positions, find_recipe("hf"), {}).kinds.at(0).bias.value();
      const T5Buckets buckets{
          .buckets = bias.buckets, .max_distance = bias.max_distance, .bidirectional = bias.bidirectional};
      for (std::size_t i = 0; i < one.at("relative").size(); ++i) {
        const auto relative = one["relative"][i].get<std::int64_t>();
        EXPECT_EQ(t5_bucket(relative, buckets), one.at(side)[i].get<std::int64_t>()) << side << relative;
      }
    };
    expect_buckets(spec.positions, "decoder");
    expect_buckets(spec.others.at(0).positions, "encoder");
  }
}

/// Rows at positions: of the embedding of the first stack that has a sinusoid, or of a relative table.
std::vector<float> rows_of(const ModelSpec& spec, std::vector<std::int64_t> positions, std::int64_t& width) {
  const Numerics numerics = find_recipe("hf").numerics;
  const auto tokens = static_cast<std::int64_t>(positions.size());
  const View<std::int64_t, 1> at(positions.data(), {tokens});
  std::vector<Plan> plans = {planned(spec)};
  for (const StackSpec& other : spec.others) {
    plans.push_back(plan(other.positions, find_recipe("hf"), {}));
  }
  for (const Plan& one : plans) {
    for (const PositionEmbedding& embedding : one.embedding) {
      if (embedding.form != EmbeddingForm::sinusoid) continue;
      width = embedding.width;
      std::vector<float> rows(static_cast<std::size_t>(tokens * width));
      sinusoid_rows(embedding, numerics, at, View<float, 2>(rows.data(), {tokens, width}));
      return rows;
    }
  }
  const Bias bias = plans.at(0).kinds.at(0).bias.value();
  width = 2 * static_cast<std::int64_t>(bias.inv_freq.size());
  std::vector<float> rows(static_cast<std::size_t>(tokens * width));
  relative_rows(bias, numerics, at, View<float, 2>(rows.data(), {tokens, width}));
  return rows;
}

TEST(GoldenTables, SinusoidsOfConfigs) {
  ASSERT_GE(golden().at("rows").size(), 7U);
  for (const Json& one : golden()["rows"]) {
    SCOPED_TRACE(one.at("config").dump());
    const auto positions = one.at("positions").get<std::vector<std::int64_t>>();
    std::int64_t width = 0;
    const std::vector<float> rows = rows_of(read_facts(one["config"]), positions, width);
    for (std::size_t t = 0; t < positions.size(); ++t) {
      // The angle moves with its frequency, which is two ulp of f32 from torch's.
      const double budget = budgets::kTableHf + static_cast<double>(positions[t]) * budgets::kFrequencyHf;
      for (std::size_t c = 0; c < one.at("columns").size(); ++c) {
        const auto column = one["columns"][c].get<std::size_t>();
        EXPECT_NEAR(double{rows[t * static_cast<std::size_t>(width) + column]},
                    one.at("rows")[t][c].get<double>(), budget)
            << positions[t] << " " << column;
      }
    }
  }
}

/// The narrowest rotation of all layers; 0 where none rotates.
std::int64_t rotated(const Json& config, std::string_view recipe) {
  std::int64_t narrowest = 0;
  for (const LayerPositions& kind : planned(read_facts(config), recipe).kinds) {
    if (!kind.rotation) continue;
    const std::int64_t width = kind.rotation->width;
    narrowest = narrowest == 0 ? width : std::min(narrowest, width);
  }
  return narrowest;
}

TEST(GoldenTables, PartialRotationsOfEveryClass) {
  ASSERT_GE(golden().at("partial").size(), 60U);
  for (const auto& [name, word] : golden()["partial"].items()) {
    SCOPED_TRACE(name);
    Json config = {{"model_type", name},
                   {"vocab_size", 32},
                   {"hidden_size", 512},
                   {"num_attention_heads", 8},
                   {"num_key_value_heads", 8},
                   {"head_dim", 64},
                   {"num_hidden_layers", 6},
                   {"intermediate_size", 64},
                   {"rope_scaling", {{"rope_type", "default"}}},
                   {"partial_rotary_factor", 1.0}};
    const std::int64_t whole = rotated(config, "exact");
    ASSERT_GT(whole, 0);
    config["partial_rotary_factor"] = 0.5;
    EXPECT_EQ(rotated(config, "hf"), word == "whole" ? whole : whole / 2);
    // Others follow the key; so does transformers itself beside a schedule.
    for (const char* recipe : {"exact", "vllm", "sglang", "mlx"}) {
      EXPECT_EQ(rotated(config, recipe), whole / 2) << recipe;
    }
    config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2.0}};
    EXPECT_EQ(rotated(config, "hf"), whole / 2);
  }
}

}  // namespace
}  // namespace locant

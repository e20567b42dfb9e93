// SPDX-License-Identifier: Apache-2.0
// Which rule of counting a family has under a recipe: mrope_rules, padding_rule, padded_positions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "positions/golden.h"
#include "positions/sentences.h"

namespace locant {
namespace {

using golden::cases;
using golden::integers;
using testing::ElementsAre;
using testing_text::sentence;
using Ids = std::vector<std::int64_t>;

Ids padded(Ids mask, std::int64_t columns, std::int64_t start, const PaddingRule& rule) {
  Ids out(mask.size(), -9);
  const View<std::int64_t, 2> in(mask.data(), {static_cast<std::int64_t>(mask.size()) / columns, columns});
  padded_positions(in, start, rule, View<std::int64_t, 2>(out.data(), in.shape()));
  return out;
}

TEST(MropeRules, WhoGoesOnWhere) {
  for (const Recipe& recipe : recipes()) {
    const bool sides = recipe.name == "hf" || recipe.name == "llama.cpp";
    for (const char* family : {"qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5_moe", "glm4v"}) {
      EXPECT_EQ(mrope_rules(family, recipe).after,
                sides ? AfterVision::longest_side : AfterVision::largest_position)
          << recipe.name << " " << family;
    }
  }
}

TEST(MropeRules, TimeStepsAreTheFamilys) {
  const Recipe& hf = find_recipe("hf");
  EXPECT_EQ(mrope_rules("qwen2_vl", hf).steps, TimeSteps::counted);
  EXPECT_EQ(mrope_rules("qwen2_5_vl_text", hf).steps, TimeSteps::scaled);
  EXPECT_EQ(mrope_rules("qwen3_vl_moe_text", hf).steps, TimeSteps::separate);
  EXPECT_EQ(mrope_rules("glm4v_text", hf).steps, TimeSteps::separate);
  EXPECT_EQ(mrope_rules("qwen3_5", hf).merge, 2);
  EXPECT_EQ(sentence<SpecError>([&] { (void)mrope_rules("qwen2_5_v", hf); }),
            "mrope_rules: a family has three position axes, got \"qwen2_5_v\", did you mean \"qwen2_5_vl\"");
}

/// The rules give what the live package gives, and another text position behind a video elsewhere.
TEST(MropeRules, GiveThePositionsOfTransformers) {
  bool parted = false;
  for (const auto& one : cases("hf_mrope_ids")) {
    const auto family = one.at("family").get<std::string>();
    SCOPED_TRACE(family + one.at("videos").dump());
    Ids kinds;
    Ids mask;
    for (const auto& row : one.at("kinds")) {
      for (const auto& kind : row) kinds.push_back(kind.get<std::int64_t>());
    }
    for (const auto& row : one.at("mask")) {
      for (const auto& bit : row) mask.push_back(bit.get<std::int64_t>());
    }
    const auto rows = static_cast<std::int64_t>(one.at("kinds").size());
    const std::array<std::int64_t, 2> shape = {rows, static_cast<std::int64_t>(kinds.size()) / rows};
    const auto grids = [&](const char* key) {
      std::vector<VisionGrid> found;
      for (const auto& g : one.at(key)) {
        found.push_back({.time = g[0].get<std::int64_t>(),
                         .height = g[1].get<std::int64_t>(),
                         .width = g[2].get<std::int64_t>()});
      }
      return found;
    };
    const auto images = grids("images");
    auto videos = grids("videos");
    for (std::size_t v = 0; v < videos.size() && v < one.at("seconds").size(); ++v) {
      videos[v].seconds = static_cast<double>(static_cast<float>(one.at("seconds")[v].get<double>()));
    }
    const auto under = [&](std::string_view recipe) {
      MropeRules rules = mrope_rules(family, find_recipe(recipe));
      rules.merge = one.at("merge").get<std::int64_t>();
      rules.tokens_per_second = one.at("tokens_per_second").get<double>();
      return mrope_positions({.kinds = View<std::int64_t, 2>(kinds.data(), shape),
                              .mask = View<std::int64_t, 2>(mask.data(), shape),
                              .images = images,
                              .videos = videos},
                             rules);
    };
    EXPECT_EQ(under("hf").deltas, integers(one.at("deltas")));
    EXPECT_EQ(under("llama.cpp").ids, under("hf").ids);
    EXPECT_EQ(under("vllm").ids, under("exact").ids);
    parted = parted || under("vllm").deltas != under("hf").deltas;
  }
  EXPECT_TRUE(parted);
}

TEST(PaddingRule, CountsColumnsInTransformersAndContentElsewhere) {
  for (const Recipe& recipe : recipes()) {
    const PaddingRule rule = padding_rule("xglm", recipe);
    EXPECT_EQ(rule.counting, recipe.name == "hf" ? Counting::columns : Counting::content) << recipe.name;
    EXPECT_EQ(padding_rule("opt", recipe).counting, Counting::content);
    EXPECT_EQ(padding_rule("opt", recipe).pad_value, -1);
  }
  const Ids mask = {0, 0, 1, 1, 1, 1, 1, 1, 1, 0};
  EXPECT_THAT(padded(mask, 5, 0, padding_rule("xglm", find_recipe("exact"))),
              ElementsAre(0, 0, 0, 1, 2, 0, 1, 2, 3, 0));
  EXPECT_THAT(padded(mask, 5, 0, padding_rule("xglm", find_recipe("hf"))),
              ElementsAre(0, 1, 2, 3, 4, 0, 1, 2, 3, 4));
  EXPECT_THAT(padded(mask, 5, 300, padding_rule("gpt2", find_recipe("hf"))),
              ElementsAre(300, 301, 302, 303, 304, 300, 301, 302, 303, 304));
  EXPECT_THAT(padded(mask, 5, 0, padding_rule("opt", find_recipe("hf"))),
              ElementsAre(-1, -1, 0, 1, 2, 0, 1, 2, 3, -1));
}

TEST(PaddingRule, IsThatOfTheLivePackage) {
  for (const auto& one : cases("hf_padded_ids")) {
    const auto family = one.at("family").get<std::string>();
    SCOPED_TRACE(family);
    const PaddingRule rule = padding_rule(family, find_recipe("hf"));
    for (std::size_t b = 0; b < one.at("mask").size(); ++b) {
      const Ids mask = integers(one.at("mask")[b]);
      Ids rows = padded(mask, static_cast<std::int64_t>(mask.size()), 0, rule);
      for (std::int64_t& row : rows) row += one.at("offset").get<std::int64_t>();
      EXPECT_EQ(rows, integers(one.at("rows")[b]));
    }
  }
}

TEST(PaddingRule, RefusesWhatMaskedPositionsRefuses) {
  EXPECT_EQ(sentence<SpecError>([] {
              (void)padded({0, 2}, 2, 0, {.counting = Counting::columns});
            }),
            "masked_positions: a mask holds 0 and 1, got 2 at row 0 column 1");
}

}  // namespace
}  // namespace locant

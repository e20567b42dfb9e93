// SPDX-License-Identifier: Apache-2.0
// No row of a recipe without an effect: each quirk changes the plan of an example, or is asked for in a room
// that is named here. The effect is seen against the same recipe without that one row.
#include <cmath>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "budgets.h"
#include "positions/golden.h"
#include "positions/sentences.h"

namespace locant {
namespace {

using testing_text::sentence;
using List = std::vector<double>;

struct Example {
  PositionSpec spec;
  Extent extent{};
};

PositionSpec spec_of(std::string mechanism, std::vector<Parameter> more) {
  PositionSpec spec{std::move(mechanism), std::move(more)};
  if (find_mechanism(spec.mechanism).site == Site::rotation) {
    spec.set("head_dim", std::int64_t{64});
    spec.set("theta", 150000.0);
  }
  return spec;
}

PositionSpec yarn(std::vector<Parameter> more) {
  PositionSpec spec = spec_of("yarn", std::move(more));
  spec.set("factor", 32.0);
  if (spec.find("max_positions") == nullptr) spec.set("original_length", std::int64_t{4096});
  return spec;
}

PositionSpec longrope(std::vector<Parameter> more) {
  PositionSpec spec = spec_of("longrope", std::move(more));
  spec.set("short_factor", List(32, 1.5));
  spec.set("long_factor", List(32, 30.0));
  if (spec.find("original_length") == nullptr) spec.set("original_length", std::int64_t{4096});
  spec.set("max_positions", std::int64_t{131072});
  return spec;
}

PositionSpec dynamic() {
  return spec_of("dynamic_ntk", {{"factor", 2.0}, {"max_positions", std::int64_t{4096}}});
}

const std::map<Quirk, Example>& examples() {
  static const std::map<Quirk, Example> kExamples = {
      {Quirk::yarn_ignores_attention_factor,
       {yarn({{"attention_factor", 1.0, "rope_parameters.attention_factor"}})}},
      {Quirk::yarn_ignores_mscale_pair, {yarn({{"mscale", 1.0}, {"mscale_all_dim", 1.0}})}},
      {Quirk::yarn_mscale_defaults, {yarn({{"mscale", 0.707}})}},
      {Quirk::yarn_mscale_is_mscale_all_dim, {yarn({{"mscale", 0.8}, {"mscale_all_dim", 0.5}})}},
      {Quirk::yarn_mscale_alone_is_amplitude, {yarn({{"mscale", 1.0}})}},
      {Quirk::yarn_always_truncates, {yarn({{"truncate", std::int64_t{0}}})}},
      {Quirk::yarn_never_truncates, {yarn({})}},
      {Quirk::yarn_original_is_1024, {yarn({{"max_positions", std::int64_t{131072}}})}},
      {Quirk::yarn_original_is_4096, {yarn({{"max_positions", std::int64_t{131072}}})}},
      {Quirk::yarn_sections_quadruple_original, {yarn({{"sections", List{8, 12, 12}}})}},
      {Quirk::yarn_reads_grok_original, {yarn({{"declared", std::string("original")}})}},
      {Quirk::yarn_plain_telechat_magnitude, {yarn({{"declared", std::string("telechat3-yarn")}})}},
      {Quirk::yarn_refused, {yarn({})}},
      {Quirk::dynamic_ntk_from_start, {dynamic(), {.seen = 100}}},
      {Quirk::dynamic_ntk_never, {dynamic(), {.seen = 8192}}},
      {Quirk::dynamic_ntk_refused, {dynamic()}},
      {Quirk::longrope_by_capacity, {longrope({}), {.seen = 100, .capacity = 8192}}},
      {Quirk::longrope_by_table, {longrope({{"original_length", std::int64_t{1024}}}), {.seen = 100}}},
      {Quirk::longrope_one_later, {longrope({}), {.seen = 4097}}},
      {Quirk::longrope_always_long, {longrope({}), {.seen = 100}}},
      {Quirk::longrope_pair_keeps_short,
       {longrope({{"short_mscale", 1.1}, {"long_mscale", 1.2}}), {.seen = 5000}}},
      {Quirk::longrope_ignores_attention_factor,
       {longrope({{"attention_factor", 1.5, "rope_parameters.attention_factor"}})}},
      {Quirk::longrope_whole_ratio, {longrope({{"original_length", std::int64_t{3000}}})}},
      {Quirk::llama3_ignores_factor,
       {spec_of("llama3", {{"factor", 8.0}, {"original_length", std::int64_t{8192}}})}},
      {Quirk::proportional_ignores_factor,
       {spec_of("proportional", {{"proportion", 0.25}, {"factor", 8.0}})}},
      {Quirk::proportional_refused, {spec_of("proportional", {{"proportion", 0.25}})}},
      {Quirk::sections_fourth_axis,
       {spec_of("rope", {{"sections", List{12, 10, 10}}, {"axis_layout", std::string("interleaved")}})}},
      {Quirk::sections_rescaled, {spec_of("rope", {{"sections", List{16, 24, 24}}})}},
      {Quirk::yarn_truncates_layer_types,
       {yarn({{"truncate", std::int64_t{0}, "rope_parameters.full_attention.truncate"}})}},
      {Quirk::yarn_ignores_extrapolation_factor, {yarn({{"extrapolation_factor", 0.5}})}},
      {Quirk::sections_ignored, {spec_of("rope", {{"sections", List{8, 12, 12}}})}},
      {Quirk::base_taken_for_width,
       {{.mechanism = "rope",
         .parameters = {{"head_dim", std::int64_t{64}}, {"theta", 10000.0, "rotary_emb_base"}}}}},
      {Quirk::partial_factor_ignored_by_default,
       {spec_of("rope", {{"rotary_dim", std::int64_t{32}, "partial_rotary_factor"},
                         {"partial_read", std::string("scaled_only")}})}},
      {Quirk::slopes_bf16_before_scale,
       {spec_of("alibi", {{"heads", std::int64_t{12}}, {"scale_order", std::string("before_scale")}})}},
      {Quirk::sinusoid_whole_half,
       {spec_of("sinusoidal", {{"width", std::int64_t{512}}, {"dialect", std::string("marian")}})}},
      {Quirk::sinusoid_starts_at_one,
       {spec_of("sinusoidal", {{"width", std::int64_t{512}}, {"dialect", std::string("halves")}})}},
      {Quirk::temperature_needs_own_block,
       {spec_of("attention_temperature", {{"scale", 0.1, "rope_parameters.llama_4_scaling_beta"}})}},
  };
  return kExamples;
}

/// Quirks that plan() does not ask for, and where their effect is tested.
const std::map<Quirk, std::string_view>& elsewhere() {
  static const std::map<Quirk, std::string_view> kElsewhere = {
      {Quirk::table_in_run_dtype, "TablesFollowTheRunDtypeWhereTheRecipeSaysSo"},
      {Quirk::bias_in_run_dtype, "TablesFollowTheRunDtypeWhereTheRecipeSaysSo"},
      {Quirk::embedding_scale_unrounded, "facts_test: TheNormaliserOfGemmaIsRoundedButInLlamaCpp"},
      {Quirk::head_scale_inverted_by_default, "facts_test: HeadsAreReadByTheRecipe"},
      {Quirk::head_tied_whatever_stated, "facts_test: HeadsAreReadByTheRecipe"},
      {Quirk::head_unscaled_when_tied, "under_recipe_test: TheTiedHeadOfT5IsScaled"},
      {Quirk::gelu_by_tanh, "under_recipe_test: GeluIsTheOneThatWasPublished"},
      {Quirk::expert_groups_by_pairs, "under_recipe_test: GroupsOfDeepSeekV2CountByTheirBest"},
      {Quirk::next_position_ignores_time, "position_rules_test"},
      {Quirk::padding_counted, "position_rules_test"},
  };
  return kElsewhere;
}

/// The plan as a value, or the sentence of its refusal.
std::pair<std::optional<SitePlan>, std::string> outcome(const Example& example, const Recipe& recipe) {
  std::optional<SitePlan> plan;
  const std::string said = sentence<SpecError>(
      [&] { plan = find_mechanism(example.spec.mechanism).plan(example.spec, recipe, example.extent); });
  return {plan, said};
}

/// The plan of a stack that holds nothing but the example; none where a recipe refuses it.
std::optional<Plan> whole_plan(const Example& example, const Recipe& recipe) {
  StackPositions positions;
  if (find_mechanism(example.spec.mechanism).site == Site::embedding) {
    positions.embedding = {example.spec};
  } else {
    positions.layers = {{example.spec}};
  }
  try {
    return plan(positions, recipe, example.extent);
  } catch (const SpecError&) {
    return std::nullopt;
  }
}

/// differences() names what a row changes, in words.
void expect_told(const Example& example, const Recipe& without, const Recipe& recipe) {
  const std::optional<Plan> a = whole_plan(example, without);
  const std::optional<Plan> b = whole_plan(example, recipe);
  if (!a || !b) return;
  const std::vector<PlanDifference> found = differences(*a, *b);
  ASSERT_FALSE(found.empty());
  for (const PlanDifference& one : found) {
    EXPECT_FALSE(one.what.empty());
    EXPECT_EQ(one.site, find_mechanism(example.spec.mechanism).site);
  }
}

TEST(Quirks, EveryRowOfEveryRecipeHasItsEffect) {
  std::set<Quirk> seen;
  for (const Recipe& recipe : recipes()) {
    for (const Deviation& row : recipe.deviations) {
      if (row.quirk == Quirk::none) continue;
      SCOPED_TRACE(std::string(recipe.name) + ": " + std::string(row.what));
      EXPECT_TRUE(recipe.has(row.quirk));
      seen.insert(row.quirk);
      if (elsewhere().contains(row.quirk)) continue;
      const auto example = examples().find(row.quirk);
      ASSERT_NE(example, examples().end());
      std::vector<Deviation> others;
      for (const Deviation& other : recipe.deviations) {
        if (other.quirk != row.quirk) others.push_back(other);
      }
      EXPECT_EQ(others.size() + 1, recipe.deviations.size()) << "a quirk has one row";
      Recipe without = recipe;
      without.deviations = others;
      EXPECT_NE(outcome(example->second, recipe), outcome(example->second, without));
      expect_told(example->second, without, recipe);
    }
  }
  for (const auto& [quirk, example] : examples()) EXPECT_TRUE(seen.contains(quirk)) << example.spec.mechanism;
  for (const auto& [quirk, who] : elsewhere()) EXPECT_TRUE(seen.contains(quirk)) << who;
}

TEST(Quirks, TheExamplesPlanUnderExact) {
  for (const auto& [quirk, example] : examples()) {
    if (quirk == Quirk::sections_rescaled) continue;  // nothing but the stretching makes them fit
    EXPECT_EQ(outcome(example, find_recipe("exact")).second, "nothing") << example.spec.mechanism;
  }
}

TEST(Quirks, NoneIsNobodys) {
  for (const Recipe& recipe : recipes()) EXPECT_FALSE(recipe.has(Quirk::none)) << recipe.name;
  EXPECT_FALSE(find_recipe("exact").has(Quirk::yarn_always_truncates));
  EXPECT_FALSE(find_recipe("hf").has(Quirk::yarn_always_truncates));
  EXPECT_TRUE(find_recipe("mlx").has(Quirk::yarn_always_truncates));
}

TEST(Quirks, TablesFollowTheRunDtypeWhereTheRecipeSaysSo) {
  for (const Recipe& recipe : recipes()) {
    SCOPED_TRACE(recipe.name);
    const Numerics narrow = numerics_of(recipe, DType::bf16);
    EXPECT_EQ(narrow.run_dtype, DType::bf16);
    EXPECT_EQ(narrow.table, recipe.has(Quirk::table_in_run_dtype) ? DType::bf16 : DType::f32);
    EXPECT_EQ(narrow.bias, recipe.has(Quirk::bias_in_run_dtype) ? DType::bf16 : DType::f32);
    EXPECT_EQ(narrow.bias_before_scale,
              recipe.has(Quirk::slopes_bf16_before_scale) ? DType::bf16 : DType::f32);
    EXPECT_EQ(narrow.frequency, recipe.numerics.frequency);
    EXPECT_EQ(narrow.angle, recipe.numerics.angle);
    EXPECT_EQ(numerics_of(recipe, DType::f32).table, DType::f32);
  }
  EXPECT_TRUE(find_recipe("vllm").has(Quirk::table_in_run_dtype));
  EXPECT_TRUE(find_recipe("hf").has(Quirk::bias_in_run_dtype));
  EXPECT_EQ(sentence<SpecError>([] { (void)numerics_of(find_recipe("hf"), DType::i64); }),
            "numerics_of: a model runs in f32, f16 or bf16, got i64");
}

TEST(Quirks, NumericsOfTheRuntimes) {
  EXPECT_EQ(find_recipe("llama.cpp").numerics.angle, AngleNumerics::f32_running);
  for (const char* name : {"hf", "vllm", "sglang", "mlx", "tensorrt-llm", "ctranslate2", "onnxruntime"}) {
    EXPECT_EQ(find_recipe(name).numerics.angle, AngleNumerics::f32_product) << name;
    EXPECT_EQ(find_recipe(name).numerics.frequency, DType::f32) << name;
  }
}

/// Amplitudes and switches worked out by hand from the published code.
TEST(Quirks, KnownConsequences) {
  const auto amplitude = [](const PositionSpec& spec, std::string_view recipe) {
    return golden::planned<Rotation>(spec, recipe).amplitude;
  };
  const double g = 0.1 * std::log(32.0) + 1;
  const PositionSpec pair = yarn({{"mscale", 1.0}, {"mscale_all_dim", 1.0}});
  for (const char* one : {"exact", "hf", "sglang", "llama.cpp", "mlx", "tensorrt-llm", "onnxruntime"}) {
    EXPECT_EQ(amplitude(pair, one), 1) << one;
  }
  EXPECT_DOUBLE_EQ(amplitude(pair, "vllm"), g);
  PositionSpec deepseek = pair;
  deepseek.set("declared", std::string("deepseek_yarn"));
  for (const Recipe& recipe : recipes()) {
    if (recipe.has(Quirk::yarn_refused)) continue;
    EXPECT_EQ(amplitude(deepseek, recipe.name), 1) << recipe.name;
  }
  PositionSpec stated = yarn({{"attention_factor", 1.0}});
  for (const Recipe& recipe : recipes()) {  // a rule of the family, not of the config
    if (recipe.has(Quirk::yarn_refused)) continue;
    EXPECT_EQ(amplitude(stated, recipe.name), 1) << recipe.name;
  }
  stated.set("attention_factor", 1.0, "rope_parameters.attention_factor");
  EXPECT_EQ(amplitude(stated, "hf"), 1);
  for (const char* one : {"vllm", "sglang", "llama.cpp", "mlx", "tensorrt-llm", "onnxruntime"}) {
    EXPECT_DOUBLE_EQ(amplitude(stated, one), g) << one;
  }
  // A file of llama.cpp holds longrope's amplitude; its converter ignores the config's.
  PositionSpec file = longrope({{"attention_factor", 1.5, "phi3.rope.scaling.attn_factor"}});
  EXPECT_EQ(amplitude(file, "llama.cpp"), 1.5);
  file.set("attention_factor", 1.5, "rope_parameters.attention_factor");
  EXPECT_DOUBLE_EQ(amplitude(file, "llama.cpp"), std::sqrt(1 + std::log(32.0) / std::log(4096.0)));
}

TEST(Quirks, WhoUsesTheLongFactorsWhen) {
  const auto is_long = [](std::string_view recipe, const Extent& extent) {
    const auto rotation = golden::planned<Rotation>(longrope({}), recipe, extent);
    return std::abs(rotation.inv_freq[0] * 30 - 1) < std::abs(rotation.inv_freq[0] * 1.5 - 1);
  };
  for (const char* recipe : {"exact", "hf", "onnxruntime", "ctranslate2"}) {
    EXPECT_FALSE(is_long(recipe, {.seen = 4096, .capacity = 131072})) << recipe;
    EXPECT_TRUE(is_long(recipe, {.seen = 4097, .capacity = 4097})) << recipe;
  }
  EXPECT_FALSE(is_long("sglang", {.seen = 4097}));
  EXPECT_TRUE(is_long("sglang", {.seen = 4098}));
  for (const char* recipe : {"vllm", "llama.cpp", "tensorrt-llm"}) {
    EXPECT_FALSE(is_long(recipe, {.seen = 4096, .capacity = 4096})) << recipe;
    EXPECT_TRUE(is_long(recipe, {.seen = 1, .capacity = 4097})) << recipe;
    EXPECT_TRUE(is_long(recipe, {.seen = 1})) << recipe << ": opened for the whole configured length";
  }
  EXPECT_TRUE(is_long("mlx", {.seen = 1, .capacity = 1}));
  const auto short_original = [](std::string_view recipe, std::int64_t seen) {
    const PositionSpec spec = longrope({{"original_length", std::int64_t{1024}}});
    return golden::planned<Rotation>(spec, recipe, {.seen = seen}).inv_freq[0];
  };
  EXPECT_LT(short_original("ctranslate2", 1), short_original("hf", 1)) << "the table has 2048 rows";
  EXPECT_EQ(short_original("ctranslate2", 1025), short_original("hf", 1025));
}

TEST(Quirks, DynamicNtkFollowsWhatTheRecipeFollows) {
  const auto slowest = [](std::string_view recipe, std::int64_t seen) {
    return golden::planned<Rotation>(dynamic(), recipe, {.seen = seen}).inv_freq.back();
  };
  EXPECT_EQ(slowest("exact", 1), slowest("exact", 4096));
  EXPECT_GT(slowest("exact", 4096), slowest("exact", 4097));
  EXPECT_EQ(slowest("sglang", 1), slowest("sglang", 100000));
  // (s^2 - s + 1) = 3 times slower for s = 2 at every length
  EXPECT_NEAR(slowest("exact", 1) / slowest("sglang", 1), 3, 3 * budgets::kFrequencyHf);
  EXPECT_EQ(slowest("vllm", 1), slowest("vllm", 100000));
  EXPECT_EQ(slowest("vllm", 1), slowest("hf", 1));
}

}  // namespace
}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// docs/disagreements.md: the numbers in it are what differences() prints for the config it names, exact
// against the rules of a recipe in the same numerics.
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "positions/golden.h"
#include "positions/sentences.h"

namespace locant {
namespace {

using testing_text::sentence;
using List = std::vector<double>;

struct Disagreement {
  std::string name;  ///< of the row and the config
  PositionSpec spec;
  std::string recipe;
  Extent extent{};
};

PositionSpec rotation(std::string mechanism, double theta, std::int64_t head_dim,
                      std::vector<Parameter> more) {
  PositionSpec spec{std::move(mechanism), std::move(more)};
  spec.set("theta", theta);
  spec.set("head_dim", head_dim);
  return spec;
}

PositionSpec yarn(double theta, std::int64_t head_dim, std::int64_t original, double factor,
                  std::vector<Parameter> more = {}) {
  PositionSpec spec = rotation("yarn", theta, head_dim, std::move(more));
  spec.set("original_length", original);
  spec.set("factor", factor);
  return spec;
}

PositionSpec phi3() {
  for (const auto& one : golden::cases("longrope")) {
    if (one.at("name").get<std::string>().starts_with("Phi-3-mini"))
      return golden::spec_of("longrope", one.at("parameters"));
  }
  throw std::runtime_error("no case of Phi-3");
}

PositionSpec llama2() {
  return rotation("dynamic_ntk", 10000, 128, {{"factor", 2.0}, {"max_positions", std::int64_t{4096}}});
}

PositionSpec sinusoidal(std::string dialect) {
  return {"sinusoidal", {{"width", std::int64_t{512}}, {"dialect", std::move(dialect)}}};
}

std::vector<Disagreement> all() {
  const Parameter whole = {"truncate", std::int64_t{0}};
  const PositionSpec ministral = yarn(1e6, 128, 16384, 16, {{"mscale", 1.0}, {"mscale_all_dim", 1.0}});
  return {
      {"1 Ministral 3", ministral, "vllm"},
      {"1 a stated factor",
       yarn(1e6, 128, 32768, 4, {{"attention_factor", 1.0, "rope_scaling.attention_factor"}}), "sglang"},
      {"2 gpt-oss", yarn(150000, 64, 4096, 32, {whole}), "llama.cpp"},
      {"2 a layer type",
       yarn(150000, 64, 4096, 32, {{"truncate", std::int64_t{0}, "rope_parameters.full_attention.truncate"}}),
       "hf"},
      {"2 Qwen2.5-VL", yarn(1e6, 128, 32768, 4, {{"sections", List{16, 24, 24}}}), "vllm"},
      {"3 Llama 2, 100 seen", llama2(), "sglang", {.seen = 100}},
      {"3 Llama 2, 8192 seen", llama2(), "vllm", {.seen = 8192}},
      {"3 Llama 2, refused", llama2(), "tensorrt-llm"},
      {"4 Phi-3-mini, 100 seen", phi3(), "mlx", {.seen = 100}},
      {"4 Phi-3-mini, 4097 seen", phi3(), "sglang", {.seen = 4097}},
      {"4 Phi-3-mini, opened for 131072", phi3(), "vllm", {.seen = 100, .capacity = 131072}},
      {"6 Qwen3-VL",
       rotation("rope", 5e6, 128,
                {{"sections", List{24, 20, 20}}, {"axis_layout", std::string("interleaved")}}),
       "llama.cpp"},
      {"7 Falcon-RW",
       {"alibi", {{"heads", std::int64_t{64}}, {"scale_order", std::string("before_scale")}}},
       "hf"},
      {"8 half of a head",
       rotation("rope", 10000, 128,
                {{"rotary_dim", std::int64_t{64}, "partial_rotary_factor"},
                 {"partial_read", std::string("scaled_only")}}),
       "hf"},
      {"9 Marian", sinusoidal("marian"), "hf"},
      {"9 OpenNMT-tf", sinusoidal("halves"), "ctranslate2"},
      {"11 Grok-2", yarn(208533496, 128, 8192, 16, {{"declared", std::string("original")}}), "llama.cpp"},
      {"12 TeleChat3", yarn(1e6, 128, 32768, 4, {{"declared", std::string("telechat3-yarn")}}), "mlx"},
      {"12 Ministral 3's temperature",
       {"attention_temperature",
        {{"scale", 0.1, "rope_parameters.llama_4_scaling_beta"},
         {"floor", 16384.0},
         {"shift", std::int64_t{0}}}},
       "vllm"},
      {"15 GPT-NeoX",
       {"rope", {{"head_dim", std::int64_t{96}}, {"theta", 10000.0, "rotary_emb_base"}}},
       "tensorrt-llm"},
      {"15 no original length",
       rotation("yarn", 1e6, 128, {{"factor", 4.0}, {"max_positions", std::int64_t{131072}}}),
       "tensorrt-llm"},
  };
}

/// Sentences of what differs, or of the refusal.
std::vector<std::string> told(const Disagreement& one) {
  StackPositions positions;
  if (find_mechanism(one.spec.mechanism).site == Site::embedding) {
    positions.embedding = {one.spec};
  } else {
    positions.layers = {{one.spec}};
  }
  const Recipe& exact = find_recipe("exact");
  Recipe by_rule = find_recipe(one.recipe);
  by_rule.numerics = exact.numerics;
  std::vector<std::string> sentences;
  const std::string refused = sentence<SpecError>([&] {
    for (const PlanDifference& found :
         differences(plan(positions, exact, one.extent), plan(positions, by_rule, one.extent))) {
      sentences.push_back(found.what);
    }
  });
  if (refused != "nothing") sentences = {refused};
  return sentences;
}

TEST(Disagreements, ThePageSaysWhatDifferencesPrints) {
  std::ifstream file(std::string(LOCANT_SOURCE_DIR) + "/docs/disagreements.md");
  std::ostringstream page;
  page << file.rdbuf();
  for (const Disagreement& one : all()) {
    const std::vector<std::string> sentences = told(one);
    EXPECT_FALSE(sentences.empty()) << one.name;
    for (const std::string& said : sentences) {
      EXPECT_NE(page.str().find(said), std::string::npos)
          << one.name << " under " << one.recipe << ": " << said;
    }
  }
}

}  // namespace
}  // namespace locant

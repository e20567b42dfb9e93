// SPDX-License-Identifier: Apache-2.0
// Attention temperature: a query at position p is multiplied by 1 + a ln(1 + floor((p + shift)/F)), so that
// attention over long texts stays sharp (Nakanishi 2025). Llama 4: shift 1; Ministral 3: shift 0.
#include <array>

#include "positions/parameters.h"

namespace locant {
namespace {

constexpr std::string_view kName = "attention_temperature";
constexpr std::array<std::string_view, 2> kAliases = {"temperature", "llama_4_scaling"};

constexpr std::array<ParameterDescription, 3> kParameters = {{
    {"scale", "1", "0.1",
     "attn_scale rope_parameters.llama_4_scaling_beta llama_4_scaling.beta attention.temperature_scale",
     "growth per logarithm; 0 = no temperature"},
    {"floor", "tokens", "8192",
     "floor_scale rope_parameters.original_max_position_embeddings "
     "llama_4_scaling.original_max_position_embeddings attention.temperature_length",
     "tokens of one step"},
    {"shift", "tokens", "1", "", "added to the position: 1 in Llama 4, 0 in Ministral 3 and Mistral 4"},
}};

SitePlan plan_attention_temperature(const PositionSpec& spec, const Recipe& recipe, const Extent&) {
  const Parameters read(kName, spec, kParameters);
  QueryScale scale;
  scale.form = "log_floor";
  scale.scale = read.number("scale", 0.1);
  scale.floor = read.positive("floor", 8192);
  scale.shift = static_cast<double>(read.integer("shift", {.min = 0, .max = kMaxRows}, 1));
  if (recipe.has(Quirk::temperature_needs_own_block) && read.key("scale").starts_with("rope_parameters.")) {
    scale.scale = 0;
  }
  return scale;
}

}  // namespace

Mechanism attention_temperature() {
  return {.name = kName,
          .aliases = kAliases,
          .site = Site::query_scale,
          .summary = "multiplies queries by a factor that grows with the logarithm of their position",
          .formula = "q[p] *= 1 + scale * ln(1 + floor((p + shift)/floor))",
          .paper =
              "Nakanishi 2025, Scalable-Softmax Is Superior for Attention, arXiv:2501.19399; "
              "published code of Llama 4",
          .parameters = kParameters,
          .plan = plan_attention_temperature};
}

}  // namespace locant

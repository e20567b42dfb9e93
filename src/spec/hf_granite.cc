// SPDX-License-Identifier: Apache-2.0
#include "spec/hf_granite.h"

#include <algorithm>
#include <string>
#include <vector>

namespace locant {
namespace {

void granite_scales(Config& config, ModelSpec& spec) {
  if (const auto scale = config.number({"embedding_multiplier"})) {
    scale_embedding(spec, *scale, config.stated({"embedding_multiplier"}));
  }
  if (const auto scale = config.number({"attention_multiplier"})) set_attention_scale(spec, *scale);
  if (const auto divisor = config.number({"logits_scaling"})) {
    if (*divisor == 0) config.fail("logits_scaling", "a number that is not 0");
    spec.head.scale = 1 / *divisor;
    spec.head.scale_key = config.stated({"logits_scaling"});
  }
  spec.block.branch_scale = config.number({"residual_multiplier"}).value_or(1);
}

}  // namespace

void finish_granite(Config& config, ModelSpec& spec, const HfFamily& family) {
  set_rotations(config, spec, family, uniform_layers(spec, "full_attention"));
  if (config.word({"position_embedding_type"}).value_or("rope") == "nope") no_layer(spec);
  granite_scales(config, spec);
}

// Layers that attend rotate only where the config says so.
void finish_granitemoehybrid(Config& config, ModelSpec& spec, const HfFamily& family) {
  const LayerTypes types = read_layer_types(config, spec);
  if (config.word({"position_embedding_type"}).value_or("nope") == "rope") {
    set_rotations(config, spec, family, types);
  } else {
    set_positions(config, spec, types, [](const std::string&) { return std::vector<PositionSpec>(); });
  }
  granite_scales(config, spec);
}

// layer_rope_theta: a base for each layer; 0 = the layer does not rotate.
void finish_granite_swa(Config& config, ModelSpec& spec, const HfFamily& family) {
  LayerTypes types = config.words({"layer_types"});
  if (types.empty()) {
    for (std::int64_t layer = 0; layer < spec.layers; ++layer)
      types.emplace_back(layer % 4 == 0 ? "full_attention" : "sliding_attention");
  }
  types.resize(static_cast<std::size_t>(spec.layers), "full_attention");
  set_windows(config, spec, types);
  for (AttentionSpec& attention : spec.attention) attention.sinks = true;
  set_rotations(config, spec, family, uniform_layers(spec, "full_attention"));
  const std::vector<double> bases = config.numbers({"layer_rope_theta"});
  for (std::size_t layer = 0; layer < std::min(bases.size(), spec.positions.layers.size()); ++layer) {
    std::vector<PositionSpec>& sites = spec.positions.layers[layer];
    if (bases[layer] == 0) sites.clear();
    for (PositionSpec& rope : sites) rope.set("theta", bases[layer], config.stated({"layer_rope_theta"}));
  }
  granite_scales(config, spec);
}

}  // namespace locant

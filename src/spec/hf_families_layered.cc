// SPDX-License-Identifier: Apache-2.0
// Families whose layers differ: windows and chunks between layers of full attention, layers without positions
// (NoPE), one rotation per layer type, layers that hold no attention.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "locant/core.h"
#include "spec/config_rules.h"
#include "spec/hf_dense.h"
#include "spec/hf_experts.h"
#include "spec/hf_gemma.h"
#include "spec/hf_layers.h"
#include "spec/hf_nope.h"

namespace locant {
namespace {

using namespace std::string_view_literals;

const RopeStyle kHalf{};

void finish_olmo3(Config& config, ModelSpec& spec, const HfFamily& family) {
  const LayerTypes types = read_layer_types(config, spec, {.period = 4});
  set_windows(config, spec, types);
  set_local_rotations(config, spec, family, types, {.scaled = false, .theta = {"rope_local_base_freq"}});
}

// sliding_window counts only beside use_sliding_window, and from layer max_window_layers on.
void finish_qwen2(Config& config, ModelSpec& spec, const HfFamily& family) {
  if (family.runs) config.require("use_mrope", false, "this family has one axis of positions");
  const bool windowed = config.flag({"use_sliding_window"}).value_or(false);
  const std::int64_t first = config.integer({"max_window_layers"}, 0).value_or(0);
  const bool stated = config.integer({"sliding_window"}, 0).value_or(0) > 0;
  LayerTypes types = read_layer_types(config, spec);
  if (!config.has("layer_types") && windowed && stated) {
    for (std::int64_t layer = first; layer < spec.layers; ++layer) {
      types[static_cast<std::size_t>(layer)] = "sliding_attention";
    }
  }
  set_windows(config, spec, types);
  set_rotations(config, spec, family, types);
}

void finish_dots1(Config& config, ModelSpec& spec, const HfFamily& family) {
  const std::int64_t first = config.integer({"max_window_layers"}, 0).value_or(spec.layers);
  const bool windowed = config.integer({"sliding_window"}, 0).value_or(0) > 0;
  LayerTypes types = read_layer_types(config, spec);
  if (!config.has("layer_types") && windowed) {
    for (std::int64_t layer = first; layer < spec.layers; ++layer) {
      types[static_cast<std::size_t>(layer)] = "sliding_attention";
    }
  }
  set_windows(config, spec, types);
  set_rotations(config, spec, family, types);
}

void finish_ministral(Config& config, ModelSpec& spec, const HfFamily& family) {
  const bool windowed = config.integer({"sliding_window"}, 0).value_or(0) > 0;
  LayerTypes types = read_layer_types(config, spec);
  if (!config.has("layer_types") && windowed) types = uniform_layers(spec, "sliding_attention");
  set_windows(config, spec, types);
  set_rotations(config, spec, family, types);
}

// Three layers of linear attention to one of full attention.
void finish_qwen3_next(Config& config, ModelSpec& spec, const HfFamily& family) {
  const std::int64_t period = config.integer({"full_attention_interval"}, 1).value_or(4);
  const LayerTypes types = read_layer_types(config, spec, {.period = period, .other = "linear_attention"});
  set_rotations(config, spec, family, types);
}

// A list with 1 for each layer that rotates, for all its name; empty = every `interval`-th layer does not.
std::vector<bool> rotating_layers(Config& config, const ModelSpec& spec) {
  const std::vector<double> stated = config.numbers({"no_rope_layers"});
  const std::int64_t interval = config.integer({"no_rope_layer_interval"}, 1).value_or(4);
  const auto layers = static_cast<std::size_t>(spec.layers);
  std::vector<bool> rotates(layers);
  if (!stated.empty() && stated.size() < layers) {
    if (!config.tolerant()) config.fail("no_rope_layers", "a number for each layer");
    config.odd(
        rules::kWrongListLength, "no_rope_layers",
        fmt::format("has {} numbers for {} layers, the rest is taken to rotate", stated.size(), layers));
  }
  for (std::size_t layer = 0; layer < layers; ++layer) {
    rotates[layer] = stated.empty() ? static_cast<std::int64_t>(layer + 1) % interval != 0
                                    : layer >= stated.size() || stated[layer] != 0;
  }
  return rotates;
}

void finish_smollm3(Config& config, ModelSpec& spec, const HfFamily& family) {
  const std::vector<bool> rotates = rotating_layers(config, spec);
  const bool windowed = config.flag({"use_sliding_window"}).value_or(false) &&
                        config.integer({"sliding_window"}, 0).value_or(0) > 0;
  LayerTypes types = read_layer_types(config, spec);
  if (!config.has("layer_types") && windowed) {
    for (std::size_t layer = 0; layer < types.size(); ++layer) {
      if (!rotates[layer]) types[layer] = "sliding_attention";
    }
  }
  config.ignore(std::array<std::string_view, 2>{"max_window_layers", "sliding_window"});
  if (windowed) set_windows(config, spec, types);
  set_rotations(config, spec, family, types);
  for (std::size_t layer = 0; layer < rotates.size(); ++layer) {
    if (!rotates[layer]) spec.positions.layers[layer].clear();
  }
}

// Experts of moe_layers, else of every interleave_moe_layer_step-th layer, read what the router's sigmoid
// leaves of a state; an mlp of its own width stands in the others.
void read_llama4_experts(Config& config, ModelSpec& spec) {
  read_experts(config, spec, {.count_otherwise = 16, .chosen_otherwise = 1});
  ExpertsSpec& experts = spec.experts;
  experts.shared_width = experts.width;
  experts.router = RouterScore::sigmoid;
  experts.weighs_input = true;
  spec.mlp.width = config.integer({"intermediate_size_mlp"}, 1).value_or(16384);
  const std::int64_t step = config.integer({"interleave_moe_layer_step"}, 1).value_or(1);
  const bool listed = !config.present({"moe_layers"}).empty();
  const std::vector<double> named = config.numbers({"moe_layers"});
  keep_experts_where(spec, [&](std::int64_t layer) {
    if (!listed) return (layer + 1) % step == 0;
    return std::find(named.begin(), named.end(), static_cast<double>(layer)) != named.end();
  });
}

// Layers without a rotation see everything and scale their queries by position; the others see one chunk.
void finish_llama4(Config& config, ModelSpec& spec, const HfFamily& family) {
  const std::vector<bool> rotates = rotating_layers(config, spec);
  LayerTypes types = read_layer_types(config, spec);
  if (!config.has("layer_types")) {
    for (std::size_t layer = 0; layer < types.size(); ++layer) {
      if (rotates[layer]) types[layer] = "chunked_attention";
    }
  }
  set_windows(config, spec, types);
  const PositionSpec rope = read_rope(config, family.rope, whole_head(spec));
  PositionSpec temperature{.mechanism = "attention_temperature", .parameters = {}};
  if (const auto scale = config.number({"attn_scale"}))
    temperature.set("scale", *scale, config.stated({"attn_scale"}));
  if (const auto floor = config.number({"floor_scale"})) {
    temperature.set("floor", *floor, config.stated({"floor_scale"}));
  }
  temperature.set("shift", std::int64_t{1});
  const bool tuned = config.flag({"attn_temperature_tuning"}).value_or(true);
  if (config.flag({"use_qk_norm"}).value_or(true)) {
    spec.block.qk_norm = {.kind = QkNorm::head,
                          .norm = {.kind = NormKind::rms, .eps = spec.norm.eps, .gain = false},
                          .after_rotation = true,
                          .rotating_only = true};
  }
  read_llama4_experts(config, spec);
  no_layer(spec);
  for (std::size_t layer = 0; layer < rotates.size(); ++layer) {
    if (rotates[layer]) {
      spec.positions.layers[layer] = {rope};
    } else if (tuned) {
      spec.positions.layers[layer] = {temperature};
    }
  }
}

void finish_mimo_v2(Config& config, ModelSpec& spec, const HfFamily& family) {
  LayerTypes types = read_layer_types(config, spec, {.period = 6});
  if (const std::vector<double> pattern = config.numbers({"hybrid_layer_pattern"}); !pattern.empty()) {
    if (pattern.size() < types.size()) config.fail("hybrid_layer_pattern", "a number for each layer");
    for (std::size_t layer = 0; layer < types.size(); ++layer) {
      types[layer] = pattern[layer] != 0 ? "sliding_attention" : "full_attention";
    }
  } else if (!config.has("layer_types") && !types.empty()) {
    types.front() = "full_attention";
  }
  set_windows(config, spec, types);
  // The older key counts the tokens before the query's own.
  if (const auto before = config.integer({"sliding_window_size"}, 0)) {
    for (AttentionSpec& attention : spec.attention) {
      if (attention.kind == AttentionKind::window) attention.window = *before + 1;
    }
  }
  (void)config.present({"attention_chunk_size"});
  if (config.flag({"add_swa_attention_sink_bias"}).value_or(true)) {
    for (AttentionSpec& attention : spec.attention) attention.sinks = attention.kind == AttentionKind::window;
  }
  set_local_rotations(config, spec, family, types,
                      {.partial = true, .scaled = false, .theta = {"swa_rope_theta"}});
}

void finish_step3(Config& config, ModelSpec& spec, const HfFamily& family) {
  const LayerTypes types = read_layer_types(config, spec);
  set_windows(config, spec, types);
  set_rotations(config, spec, family, types);
}

void finish_lfm2(Config& config, ModelSpec& spec, const HfFamily& family) {
  LayerTypes types = read_layer_types(config, spec);
  if (const std::vector<double> full = config.numbers({"full_attn_idxs"});
      !config.has("layer_types") && !full.empty()) {
    types = uniform_layers(spec, "conv");
    for (const double layer : full) {
      if (layer >= 0 && layer < static_cast<double>(spec.layers)) {
        types[static_cast<std::size_t>(layer)] = "full_attention";
      }
    }
  }
  set_rotations(config, spec, family, types);
}

// State spaces with a layer of attention now and then, which marks no positions.
void finish_jamba(Config& config, ModelSpec& spec, const HfFamily&) {
  const std::int64_t period = config.integer({"attn_layer_period"}, 1).value_or(8);
  const std::int64_t offset = config.integer({"attn_layer_offset"}, 0).value_or(4);
  LayerTypes types = uniform_layers(spec, "mamba");
  for (std::int64_t layer = 0; layer < spec.layers; ++layer) {
    if (layer % period == offset) types[static_cast<std::size_t>(layer)] = "attention";
  }
  set_positions(config, spec, types, [](const std::string&) { return std::vector<PositionSpec>(); });
}

void finish_nemotron_h(Config& config, ModelSpec& spec, const HfFamily&) {
  const std::string pattern = config.word({"hybrid_override_pattern"}).value_or("");
  LayerTypes types = pattern.empty() ? read_layer_types(config, spec) : LayerTypes();
  for (const char letter : pattern) {
    types.emplace_back(letter == '*' ? "attention" : letter == 'M' ? "mamba" : letter == 'E' ? "moe" : "mlp");
  }
  if (types.size() != static_cast<std::size_t>(spec.layers)) {
    config.fail("hybrid_override_pattern", "a letter for each layer");
  }
  set_positions(config, spec, types, [](const std::string&) { return std::vector<PositionSpec>(); });
  // Present in published configs; no layer rotates.
  (void)config.number({"rope_theta"});
  (void)config.number({"partial_rotary_factor"});
}

HfFamily act_in(const HfKeys& keys, HfFamily family) {
  family.keys = &keys;
  return family;
}

HfFamily layered(std::string_view name, decltype(HfFamily::finish) finish, const RopeStyle& rope = kHalf) {
  return {.name = name, .rope = rope, .finish = finish};
}

const RopeStyle kInterleaved{.pairing = "interleaved"};
const RopeStyle kPartial{.partial = true};
const RopeStyle kThreeAxes{.axis_layout = "chunked"};
const RopeStyle kThreeAxesPartial{.partial = true, .axis_layout = "interleaved"};

constexpr std::array kLlama4Ignored = {"attention_dropout"sv, "for_llm_compression"sv,
                                       "output_router_logits"sv, "router_aux_loss_coef"sv,
                                       "router_jitter_noise"sv};
const HfKeys kLlama4Keys = {.vocab = {"vocab_size"},
                            .hidden = {"hidden_size"},
                            .layers = {"num_hidden_layers"},
                            .heads = {"num_attention_heads"},
                            .kv_heads = {"num_key_value_heads"},
                            .head_dim = {"head_dim"},
                            .mlp_width = {"intermediate_size"},
                            .activation = {"hidden_act"},
                            .norm_eps = {"rms_norm_eps"},
                            .length = {"max_position_embeddings"}};

const std::array kFamilies = {
    runs({.name = "cohere2", .norm = NormKind::layer, .rope = kInterleaved, .finish = finish_cohere2}),
    layered("dots1", finish_dots1),
    runs(layered("exaone4", finish_exaone4)),
    runs(act_in(hidden_activation_keys(), layered("gemma2", finish_gemma2))),
    runs(act_in(hidden_activation_keys(), layered("gemma3_text", finish_gemma3))),
    layered("gemma3n_text", finish_gemma3n),
    layered("gemma4_text", finish_gemma4),
    layered("jamba", finish_jamba),
    layered("lfm2", finish_lfm2),
    HfFamily{.name = "llama4_text",
             .keys = &kLlama4Keys,
             .mlp_factor = 0,
             .mlp_bias = Biases::never,
             .rope = kInterleaved,
             .finish = finish_llama4,
             .runs = true,
             .ignored = kLlama4Ignored},
    layered("mimo", finish_qwen2),
    layered("mimo_v2_flash", finish_mimo_v2, kPartial),
    runs(layered("ministral", finish_ministral)),
    layered("nemotron_h", finish_nemotron_h),
    runs(layered("olmo3", finish_olmo3)),
    runs(layered("qwen2", finish_qwen2)),
    layered("qwen2_5_vl_text", finish_qwen2, kThreeAxes),
    layered("qwen2_vl_text", finish_qwen2, kThreeAxes),
    runs(layered("qwen3", finish_qwen2)),
    layered("qwen3_5_moe_text", finish_qwen3_next, kThreeAxesPartial),
    layered("qwen3_5_text", finish_qwen3_next, kThreeAxesPartial),
    layered("qwen3_next", finish_qwen3_next, kPartial),
    runs(layered("smollm3", finish_smollm3)),
    layered("step3p5", finish_step3, kPartial),
};

}  // namespace

std::span<const HfFamily> layered_families() noexcept {
  return kFamilies;
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
#include "spec/hf_gemma.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "spec/hf_dense.h"

namespace locant {
namespace {

void gemma_scales(Config& config, ModelSpec& spec) {
  scale_embedding(spec, std::sqrt(static_cast<double>(spec.hidden)), {});
  spec.embedding.scale_in_run_dtype = true;
  config.ignore(std::array<std::string_view, 1>{"hidden_act"});  // hidden_activation counts
  read_softcaps(config, spec);
  if (const auto scalar = config.number({"query_pre_attn_scalar"})) {
    if (*scalar <= 0) config.fail("query_pre_attn_scalar", "a number above 0");
    set_attention_scale(spec, 1 / std::sqrt(*scalar));
  }
}

// Read backwards too, an encoder: nothing that run computes.
void refuse_both_ways(Config& config, ModelSpec& spec) {
  const Keys key = {"use_bidirectional_attention"};
  if (!config.flag(key).value_or(false)) return;
  if (!config.tolerant()) config.fail(*key.begin(), "false or absent (run computes causal models)");
  for (AttentionSpec& attention : spec.attention) attention.bidirectional = true;
}

// global_head_dim, or what per_layer_config states for the first layer of full attention.
std::int64_t gemma4_global_head_dim(Config& config, const ModelSpec& spec, const LayerTypes& types) {
  std::optional<Config> layers = config.object("per_layer_config");
  if (!layers) return config.integer({"global_head_dim"}, 1).value_or(spec.head_dim);
  const auto full = std::find(types.begin(), types.end(), "full_attention") - types.begin();
  std::optional<Config> own = layers->object(std::to_string(full));
  return own ? own->integer({"head_dim"}, 1).value_or(spec.head_dim) : spec.head_dim;
}

}  // namespace

void finish_gemma2(Config& config, ModelSpec& spec, const HfFamily& family) {
  const LayerTypes types = read_layer_types(config, spec, {.period = 2});
  set_windows(config, spec, types);
  set_rotations(config, spec, family, types);
  gemma_scales(config, spec);
  refuse_both_ways(config, spec);
  offset_gains(spec);
}

void finish_gemma3(Config& config, ModelSpec& spec, const HfFamily& family) {
  const std::int64_t period =
      config.integer({"sliding_window_pattern", "_sliding_window_pattern"}, 1).value_or(6);
  const LayerTypes types = read_layer_types(config, spec, {.period = period});
  set_windows(config, spec, types);
  set_local_rotations(config, spec, family, types, {.scaled = false, .theta = {"rope_local_base_freq"}});
  gemma_scales(config, spec);
  refuse_both_ways(config, spec);
  offset_gains(spec);
}

void finish_gemma3n(Config& config, ModelSpec& spec, const HfFamily& family) {
  const LayerTypes types = read_layer_types(config, spec, {.period = 5});
  set_windows(config, spec, types);
  set_local_rotations(config, spec, family, types, {.scaled = false, .theta = {"rope_local_base_freq"}});
  gemma_scales(config, spec);
  set_attention_scale(spec, 1);
}

// Layers of full attention have wider heads.
void finish_gemma4(Config& config, ModelSpec& spec, const HfFamily& family) {
  LayerTypes types = read_layer_types(config, spec, {.period = 6});
  if (!types.empty()) types.back() = "full_attention";
  set_windows(config, spec, types);
  const std::int64_t global = gemma4_global_head_dim(config, spec, types);
  set_positions(config, spec, types, [&](const std::string& type) {
    const std::int64_t head_dim = type == "full_attention" ? global : spec.head_dim;
    return std::vector{read_rope(config, family.rope, {.head_dim = head_dim, .rotating = head_dim}, type)};
  });
  gemma_scales(config, spec);
  set_attention_scale(spec, 1);
}

}  // namespace locant

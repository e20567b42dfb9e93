// SPDX-License-Identifier: Apache-2.0
#include "spec/hf_nope.h"

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace locant {
namespace {

// Only layers with a window rotate.
void rotate_windows_only(Config& config, ModelSpec& spec, const HfFamily& family, const LayerTypes& types) {
  set_positions(config, spec, types, [&](const std::string& type) -> std::vector<PositionSpec> {
    if (type != "sliding_attention") return {};
    return {read_rope(config, family.rope, whole_head(spec), type)};
  });
}

// The pattern is a number, or a word of L (local) and G (global).
std::int64_t exaone4_period(Config& config) {
  const Keys key = {"sliding_window_pattern"};
  if (const std::string_view stated = config.present(key);
      !stated.empty() && config.value(stated).is_string()) {
    const std::string word = config.word(key).value_or("");
    return static_cast<std::int64_t>(word.size());
  }
  return config.integer(key, 0).value_or(4);
}

}  // namespace

void finish_cohere2(Config& config, ModelSpec& spec, const HfFamily& family) {
  config.ignore(
      std::array<std::string_view, 1>{"prefix_dense_sliding_window_pattern"});  // layer_types says it
  const std::int64_t period = config.integer({"sliding_window_pattern"}, 1).value_or(4);
  const LayerTypes types = read_layer_types(config, spec, {.period = period});
  set_windows(config, spec, types);
  rotate_windows_only(config, spec, family, types);
  spec.head.scale = config.number({"logit_scale"}).value_or(1);
  spec.head.scale_key = config.stated({"logit_scale"});
  spec.norm.bias = false;
  config.require("use_parallel_block", true, "the branches of this family are parallel");
  config.require("use_gated_activation", true, "the mlp of this family is gated");
  config.require("use_qk_norm", false, "the queries and keys of this family are not normed");
  config.require("position_embedding_type", "rope_gptj", "this family pairs adjacent channels");
  config.ignore(std::array<std::string_view, 5>{"layer_switch", "order_of_interleaved_layers", "rotary_pct",
                                                "use_embedding_sharing", "use_parallel_embedding"});
}

void finish_exaone4(Config& config, ModelSpec& spec, const HfFamily& family) {
  const std::int64_t period = exaone4_period(config);
  const bool windowed = config.integer({"sliding_window"}, 0).value_or(0) > 0;
  const LayerTypes types = read_layer_types(config, spec, {.period = windowed ? period : 0});
  set_windows(config, spec, types);
  if (windowed) {
    rotate_windows_only(config, spec, family, types);
  } else {
    set_rotations(config, spec, family, types);
  }
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
#include "spec/hf_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "locant/core.h"
#include "spec/config_rules.h"

namespace locant {

LayerTypes read_layer_types(Config& config, const ModelSpec& spec, const LayerPattern& pattern) {
  const auto layers = static_cast<std::size_t>(spec.layers);
  const Keys keys = {"layer_types", "layers_block_type"};
  LayerTypes types = config.words(keys);
  if (!types.empty()) {
    if (types.size() < layers) {
      const std::string_view key = config.present(keys);
      if (!config.tolerant()) config.fail(key, fmt::format("a word for each of the {} layers", layers));
      config.odd(rules::kWrongListLength, key,
                 fmt::format("has {} words for {} layers, the last one is taken for the rest", types.size(),
                             layers));
    }
    // Some configs go on with the layers of a multi-token prediction head.
    types.resize(layers, std::string(types.back()));
    return types;
  }
  types.assign(layers, "full_attention");
  if (pattern.period == 0) return types;
  for (std::int64_t layer = 0; layer < spec.layers; ++layer) {
    if ((layer + 1) % pattern.period != 0) types[static_cast<std::size_t>(layer)] = pattern.other;
  }
  return types;
}

LayerTypes uniform_layers(const ModelSpec& spec, std::string_view type) {
  return LayerTypes(static_cast<std::size_t>(spec.layers), std::string(type));
}

bool attends(std::string_view type) noexcept {
  constexpr std::array<std::string_view, 7> kOthers = {
      "linear_attention", "conv", "mamba", "recurrent", "moe", "mlp", "ssm"};
  return std::find(kOthers.begin(), kOthers.end(), type) == kOthers.end();
}

void set_windows(Config& config, ModelSpec& spec, const LayerTypes& types) {
  const auto window = config.integer({"sliding_window", "sliding_window_size"}, 0);
  const auto chunk = config.integer({"attention_chunk_size"}, 0);
  for (std::size_t layer = 0; layer < types.size(); ++layer) {
    AttentionSpec& attention = spec.attention[layer];
    if (types[layer] == "sliding_attention" && window && *window > 0) {
      attention.kind = AttentionKind::window;
      attention.window = *window;
    } else if (types[layer] == "chunked_attention" && chunk && *chunk > 0) {
      attention.kind = AttentionKind::chunk;
      attention.window = *chunk;
    }
  }
}

void set_positions(Config& config, ModelSpec& spec, const LayerTypes& types,
                   const std::function<std::vector<PositionSpec>(const std::string&)>& of_type) {
  std::map<std::string, std::vector<PositionSpec>> known;
  std::map<std::string, std::int64_t> others;
  spec.positions.layers.clear();
  for (const std::string& type : types) {
    if (!known.contains(type)) known[type] = attends(type) ? of_type(type) : std::vector<PositionSpec>();
    if (!attends(type)) ++others[type];
    const std::size_t layer = spec.positions.layers.size();
    if (layer < spec.attention.size()) spec.attention[layer].attends = attends(type);
    spec.positions.layers.push_back(known[type]);
  }
  for (const auto& [type, count] : others) {
    config.note(fmt::format("{}: {} of {} layers hold {} and no attention", config.path(), count,
                            types.size(), type));
  }
}

RopeSlice whole_head(const ModelSpec& spec) noexcept {
  return {.head_dim = spec.head_dim, .rotating = spec.head_dim};
}

void set_rotations(Config& config, ModelSpec& spec, const HfFamily& family, const LayerTypes& types) {
  set_positions(config, spec, types, [&](const std::string& type) {
    return std::vector{read_rope(config, family.rope, whole_head(spec), type)};
  });
}

void set_local_rotations(Config& config, ModelSpec& spec, const HfFamily& family, const LayerTypes& types,
                         const RopeStyle& local) {
  set_positions(config, spec, types, [&](const std::string& type) {
    return std::vector{
        read_rope(config, type == "sliding_attention" ? local : family.rope, whole_head(spec), type)};
  });
}

void every_layer(ModelSpec& spec, const PositionSpec& position) {
  spec.positions.layers.assign(static_cast<std::size_t>(spec.layers), {position});
}

void no_layer(ModelSpec& spec) {
  spec.positions.layers.assign(static_cast<std::size_t>(spec.layers), {});
}

void scale_embedding(ModelSpec& spec, double scale, std::string key) {
  spec.embedding.scale = scale;
  spec.embedding.scale_key = std::move(key);
}

void scale_embedding_by_root(Config& config, ModelSpec& spec, std::string_view key) {
  if (!config.flag({key}).value_or(false)) return;
  scale_embedding(spec, std::sqrt(static_cast<double>(spec.hidden)), std::string(key));
}

void set_attention_scale(ModelSpec& spec, double scale) {
  for (AttentionSpec& attention : spec.attention) attention.scale = scale;
}

void read_softcaps(Config& config, ModelSpec& spec) {
  spec.head.softcap = config.number({"final_logit_softcapping"}).value_or(0);
  const double attention = config.number({"attn_logit_softcapping"}).value_or(0);
  for (AttentionSpec& layer : spec.attention) layer.softcap = attention;
}

void add_block_temperature(Config& config, ModelSpec& spec, const HfFamily& family) {
  std::optional<Config> block = rope_block(config, family.rope);
  const auto beta = block ? block->number({"llama_4_scaling_beta"}) : std::nullopt;
  if (!beta) return;
  PositionSpec temperature{.mechanism = "attention_temperature", .parameters = {}};
  temperature.set("scale", *beta, block->stated({"llama_4_scaling_beta"}));
  const Keys original = {"original_max_position_embeddings"};
  if (const auto floor = block->number(original)) temperature.set("floor", *floor, block->stated(original));
  temperature.set("shift", std::int64_t{0});
  for (auto& layer : spec.positions.layers) layer.push_back(temperature);
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// What differs from layer to layer: which tokens a layer attends to and how it marks positions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "spec/hf_family.h"

namespace locant {

/// One word per layer, as transformers writes them: "full_attention", "sliding_attention", ...
using LayerTypes = std::vector<std::string>;

/// Every `period`-th layer is full attention, the others are `other`; period 0 = all of them are full.
struct LayerPattern {
  std::int64_t period = 0;
  std::string_view other = "sliding_attention";
};

/// layer_types of the config, else the pattern. SpecError when the list is shorter than the model.
[[nodiscard]] LayerTypes read_layer_types(Config& config, const ModelSpec& spec,
                                          const LayerPattern& pattern = {});

/// The same word for every layer.
[[nodiscard]] LayerTypes uniform_layers(const ModelSpec& spec, std::string_view type);

/// Whether a layer of this type attends at all (linear attention, convolutions and state spaces do not).
[[nodiscard]] bool attends(std::string_view type) noexcept;

/// Kinds and widths: sliding_window for "sliding_attention", attention_chunk_size for "chunked_attention".
void set_windows(Config& config, ModelSpec& spec, const LayerTypes& types);

/// Positions of each layer from its type, asked once per type; layers that do not attend get none, and a
/// note.
void set_positions(Config& config, ModelSpec& spec, const LayerTypes& types,
                   const std::function<std::vector<PositionSpec>(const std::string&)>& of_type);

/// The whole head rotates.
[[nodiscard]] RopeSlice whole_head(const ModelSpec& spec) noexcept;

/// Rotations of all layers that attend, by their type.
void set_rotations(Config& config, ModelSpec& spec, const HfFamily& family, const LayerTypes& types);

/// Rotations by type, layers of "sliding_attention" in the style `local`: a base of their own, no scaling.
void set_local_rotations(Config& config, ModelSpec& spec, const HfFamily& family, const LayerTypes& types,
                         const RopeStyle& local);

/// The same positions in every layer, or none.
void every_layer(ModelSpec& spec, const PositionSpec& position);
void no_layer(ModelSpec& spec);

// Scales, each with the key that says so.
void scale_embedding(ModelSpec& spec, double scale, std::string key);
/// sqrt(hidden) where `key` is true.
void scale_embedding_by_root(Config& config, ModelSpec& spec, std::string_view key);
void set_attention_scale(ModelSpec& spec, double scale);
/// final_logit_softcapping and attn_logit_softcapping.
void read_softcaps(Config& config, ModelSpec& spec);

/// attention_temperature on every layer where the rope block states llama_4_scaling_beta (Ministral 3,
/// Mistral 4).
void add_block_temperature(Config& config, ModelSpec& spec, const HfFamily& family);

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// What single architectures of llama.cpp add to the keys that all share.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "spec/gguf_rope.h"
#include "spec/hf_layers.h"

namespace locant {
namespace {

PositionSpec temperature(std::int64_t shift) {
  PositionSpec scale{.mechanism = "attention_temperature", .parameters = {}};
  scale.set("shift", shift);
  return scale;
}

void add_to_every_layer(ModelSpec& spec, const PositionSpec& position) {
  for (auto& layer : spec.positions.layers) layer.push_back(position);
}

const PositionSpec* first_rotation(const ModelSpec& spec) {
  for (const auto& layer : spec.positions.layers) {
    if (!layer.empty()) return &layer.front();
  }
  return nullptr;
}

double magnitude(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

/// 1/sqrt(width of a head) times the square of the magnitude that YaRN leaves to the scores.
double latent_scale(const ModelSpec& spec) {
  const double plain = 1 / std::sqrt(static_cast<double>(spec.head_dim));
  const PositionSpec* const rope = first_rotation(spec);
  if (rope == nullptr || rope->mechanism != "yarn") return plain;
  const double factor = parameter_or(*rope, "factor", 1);
  const double all = parameter_or(*rope, "mscale_all_dim", 0);
  const double ratio = all == 0
                           ? magnitude(factor, 1)
                           : magnitude(factor, parameter_or(*rope, "mscale", 1)) / magnitude(factor, all);
  const double both = parameter_or(*rope, "attention_factor", ratio) * magnitude(factor, all);
  return both * both * plain;
}

PositionSpec buckets(const GgufKeys& keys, const ModelSpec& spec, std::int64_t rows,
                     std::string_view direction) {
  PositionSpec bias{.mechanism = "t5_buckets", .parameters = {}};
  bias.set("heads", spec.heads);
  bias.set("buckets", rows, keys.full("attention.relative_buckets_count"));
  bias.set("direction", std::string(direction));
  return bias;
}

}  // namespace

// The 13B models have slopes, the 7B ones rotate; the number of layers says which.
void finish_gguf_baichuan(GgufKeys& keys, ModelSpec& spec, const GgufArchitecture&) {
  constexpr std::int64_t kLayersOf13B = 40;
  if (spec.layers != kLayersOf13B) return;
  PositionSpec alibi{.mechanism = "alibi", .parameters = {}};
  alibi.set("heads", spec.heads);
  every_layer(spec, alibi);
  keys.note(fmt::format("{}: {} layers make this a Baichuan-13B, which has slopes and no rotation",
                        keys.path(), spec.layers));
}

// One architecture for DeepSeek-V2 and V3: only the latter gates its experts by a sigmoid.
void finish_gguf_deepseek2(GgufKeys& keys, ModelSpec& spec, const GgufArchitecture& row) {
  constexpr std::int64_t kSigmoid = 2;
  const std::int64_t gate = keys.integer("expert_gating_func", 0).value_or(0);
  if (row.name == "deepseek2" && gate == kSigmoid) spec.family = "deepseek_v3";
  set_attention_scale(spec, latent_scale(spec));
  constexpr std::string_view kScale = "attention.temperature_scale";
  constexpr std::string_view kLength = "attention.temperature_length";
  const double scale = keys.number(kScale).value_or(0);
  const auto length = keys.integer(kLength, 1);
  if (scale == 0) return;
  if (!length) keys.require(kLength);
  PositionSpec growth = temperature(0);
  growth.set("scale", scale, keys.full(kScale));
  growth.set("floor", static_cast<double>(*length), keys.full(kLength));
  add_to_every_layer(spec, growth);
}

// A ratio of 0 = a window alone; any other layer also reads compressed tokens, under another base and YaRN
// without its amplitude.
void finish_gguf_deepseek4(GgufKeys& keys, ModelSpec& spec, const GgufArchitecture& row) {
  constexpr std::string_view kRatios = "attention.compress_ratios";
  constexpr std::string_view kBase = "attention.compress_rope_freq_base";
  keys.require(kRatios);
  const std::vector<std::int64_t> ratios = keys.integers(kRatios, spec.layers);
  const double base = keys.required_number(kBase);
  if (base <= 0) keys.fail(kBase, "a number above 0");
  PositionSpec compressed = read_gguf_rope(keys, row, spec.head_dim, GgufScope::full);
  compressed.set("theta", base, keys.full(kBase));
  if (compressed.mechanism == "yarn") compressed.set("attention_factor", 1.0);
  for (std::size_t layer = 0; layer < spec.positions.layers.size(); ++layer) {
    if (ratios[layer] != 0) spec.positions.layers[layer] = {compressed};
  }
}

// The 27B models divide the scores by the root of embedding_length / head_count.
void finish_gguf_gemma(GgufKeys&, ModelSpec& spec, const GgufArchitecture& row) {
  const std::int64_t layers_of_27b = row.name == "gemma2" ? 46 : 62;
  if (spec.layers != layers_of_27b) return;
  const std::int64_t share = spec.hidden / spec.heads;
  set_attention_scale(spec, 1 / std::sqrt(static_cast<double>(share)));
}

// Layers that see everything have wider heads; the others' count as those of the model.
void finish_gguf_gemma4(GgufKeys& keys, ModelSpec& spec, const GgufArchitecture&) {
  if (const auto local = keys.integer("attention.key_length_swa", 2)) spec.head_dim = *local;
}

// Pythia and its kin say "gelu"; the 20B model, of 44 layers, says "gelu_fast".
void finish_gguf_gptneox(GgufKeys&, ModelSpec& spec, const GgufArchitecture&) {
  constexpr std::int64_t kLayersOf20B = 44;
  spec.mlp.activation = spec.layers == kLayersOf20B ? Activation::gelu_tanh : Activation::gelu_erf;
}

void finish_gguf_grok(GgufKeys& keys, ModelSpec& spec, const GgufArchitecture&) {
  const auto scale = keys.number("attention.output_scale");
  set_attention_scale(spec, scale.value_or(0.08838834764831845));
  constexpr std::string_view kLength = "attention.temperature_length";
  if (const auto length = keys.integer(kLength, 0); length && *length > 0) {
    keys.note({.text = fmt::format("{}: {} scales queries past {} tokens by log2, no mechanism of Locant",
                                   keys.path(), keys.full(kLength), *length),
               .key = keys.full(kLength)});
  }
}

void finish_gguf_jais(GgufKeys&, ModelSpec& spec, const GgufArchitecture&) {
  set_attention_scale(spec, 1 / static_cast<double>(spec.head_dim));
}

// Layers without a rotation see everything and scale their queries by position.
void finish_gguf_llama4(GgufKeys&, ModelSpec& spec, const GgufArchitecture&) {
  PositionSpec growth = temperature(1);
  growth.set("scale", 0.1);
  growth.set("floor", 8192.0);
  for (auto& layer : spec.positions.layers) {
    if (layer.empty()) layer = {growth};
  }
}

// Old files lack the scale; llama.cpp divides by what the model multiplies by.
void finish_gguf_minicpm(GgufKeys& keys, ModelSpec& spec, const GgufArchitecture&) {
  if (keys.has("logit_scale")) return;
  spec.head.scale = 256 / static_cast<double>(spec.hidden);
  keys.note(
      {.text = fmt::format("{}: {} is not stated; llama.cpp then multiplies logits by {}, the model by {}",
                           keys.path(), keys.full("logit_scale"), 1 / spec.head.scale, spec.head.scale),
       .key = keys.full("logit_scale")});
}

void finish_gguf_minicpm3(GgufKeys&, ModelSpec& spec, const GgufArchitecture&) {
  scale_embedding(spec, 12, {});
  spec.head.scale = 256 / static_cast<double>(spec.hidden);
}

void finish_gguf_mistral3(GgufKeys& keys, ModelSpec& spec, const GgufArchitecture&) {
  constexpr std::string_view kScale = "attention.temperature_scale";
  const double scale = keys.number(kScale).value_or(0);
  if (scale == 0) return;
  PositionSpec growth = temperature(0);
  growth.set("scale", scale, keys.full(kScale));
  const bool trained = spec.lengths.trained.has_value();
  const std::int64_t floor = trained ? *spec.lengths.trained : spec.lengths.configured.value_or(1);
  growth.set("floor", static_cast<double>(floor),
             trained ? spec.lengths.trained_basis : spec.lengths.configured_key);
  add_to_every_layer(spec, growth);
}

// OLMo 3 is OLMo 2 with windows.
void finish_gguf_olmo2(GgufKeys&, ModelSpec& spec, const GgufArchitecture&) {
  for (const AttentionSpec& attention : spec.attention) {
    if (attention.kind == AttentionKind::window) spec.family = "olmo3";
  }
}

// Its class means tanh where a config is silent; those of 15B, of 40 layers, say "gelu".
void finish_gguf_starcoder(GgufKeys&, ModelSpec& spec, const GgufArchitecture&) {
  constexpr std::int64_t kLayersOf15B = 40;
  if (spec.layers == kLayersOf15B) spec.mlp.activation = Activation::gelu_erf;
}

// Layers that see everything rotate half of what rope.dimension_count says.
void finish_gguf_step35(GgufKeys& keys, ModelSpec& spec, const GgufArchitecture&) {
  const std::int64_t stated = keys.integer("rope.dimension_count", 2).value_or(spec.head_dim);
  const std::string key = keys.has("rope.dimension_count") ? keys.full("rope.dimension_count") : "";
  for (std::size_t layer = 0; layer < spec.positions.layers.size(); ++layer) {
    auto& positions = spec.positions.layers[layer];
    if (spec.attention[layer].kind != AttentionKind::full || positions.empty()) continue;
    positions.front().set("rotary_dim", stated / 2, key);
    for (Parameter& parameter : positions.front().parameters) {
      auto* const list = std::get_if<std::vector<double>>(&parameter.value);
      if (list != nullptr) list->resize(std::min(list->size(), static_cast<std::size_t>(stated / 4)));
    }
  }
}

// block_count is the encoder's; the decoder is the main stack. Scores are not scaled.
void finish_gguf_t5(GgufKeys& keys, ModelSpec& spec, const GgufArchitecture& row) {
  const std::int64_t rows = keys.required_integer("attention.relative_buckets_count", 1);
  set_attention_scale(spec, 1);
  if (row.name == "t5encoder") {
    for (AttentionSpec& attention : spec.attention) attention.bidirectional = true;
    every_layer(spec, buckets(keys, spec, rows, "bidirectional"));
    return;
  }
  StackSpec encoder;
  encoder.positions.stack = Stack::encoder;
  encoder.positions.layers.assign(static_cast<std::size_t>(spec.layers),
                                  {buckets(keys, spec, rows, "bidirectional")});
  encoder.attention.assign(static_cast<std::size_t>(spec.layers), {.scale = 1, .bidirectional = true});
  spec.layers = keys.integer("decoder_block_count", 1).value_or(spec.layers);
  if (spec.layers > kMostLayers)
    keys.fail("decoder_block_count", fmt::format("a whole number from 1 to {}", kMostLayers));
  spec.attention.assign(static_cast<std::size_t>(spec.layers), {.scale = 1});
  every_layer(spec, buckets(keys, spec, rows, "causal"));
  StackSpec cross;
  cross.positions.stack = Stack::cross;
  cross.positions.layers.assign(static_cast<std::size_t>(spec.layers), {});
  cross.attention.assign(static_cast<std::size_t>(spec.layers), {.scale = 1, .bidirectional = true});
  spec.others = {std::move(encoder), std::move(cross)};
  spec.mlp.gated = keys.tensor("dec.blk.0.ffn_gate.weight") != nullptr;
  spec.mlp.activation = spec.mlp.gated ? Activation::gelu_tanh : Activation::relu;
  spec.lengths = {};
  if (spec.head.tied) spec.head.scale = 1 / std::sqrt(static_cast<double>(spec.hidden));
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// Families that add a row of a learned table (Gehring et al. 2017) or a sinusoid to the token state.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>

#include "locant/core.h"
#include "spec/hf_dense.h"

namespace locant {
namespace {

PositionSpec learned(std::int64_t rows, std::string key, std::int64_t width, std::int64_t offset) {
  PositionSpec table{.mechanism = "learned", .parameters = {}};
  table.set("rows", rows, std::move(key));
  table.set("width", width);
  if (offset != 0) table.set("offset", offset);
  return table;
}

// GPT-2 under another class: one row per position. Rows past the end do not exist.
void finish_table(Config& config, ModelSpec& spec, const HfFamily& family) {
  const std::int64_t rows = config.integer(family.keys->length, 1).value_or(0);
  spec.positions.embedding = {learned(rows, config.stated(family.keys->length), spec.hidden, 0)};
  no_layer(spec);
  config.require("position_embedding_type", "absolute", "this family has a table");
}

void finish_gpt_bigcode(Config& config, ModelSpec& spec, const HfFamily& family) {
  finish_table(config, spec, family);
  if (config.flag({"multi_query"}).value_or(true)) spec.kv_heads = 1;
  if (!config.flag({"scale_attn_weights"}).value_or(true)) set_attention_scale(spec, 1);
  // Of a runner beside the class, and where softmax is computed.
  config.ignore(std::array<std::string_view, 5>{"inference_runner", "max_sequence_length", "pad_key_length",
                                                "scale_attention_softmax_in_fp32", "max_batch_size"});
}

// [[["global", "local"], 12]]: a pattern and how often it is repeated.
LayerTypes neo_types(Config& config) {
  LayerTypes types = config.words({"attention_layers"});
  const Json& patterns = config.value("attention_types");
  config.ignore(std::array<std::string_view, 1>{"attention_types"});
  if (!types.empty() || !patterns.is_array()) return types;
  for (const Json& pattern : patterns) {
    if (!pattern.is_array() || pattern.size() != 2 || !pattern[0].is_array() ||
        !pattern[1].is_number_unsigned()) {
      config.refuse("attention_types", "a list of patterns, each of words and a number");
      return {};
    }
    for (std::uint64_t turn = 0; turn < std::min<std::uint64_t>(pattern[1].get<std::uint64_t>(), 1U << 16U);
         ++turn) {
      for (const Json& word : pattern[0]) types.push_back(word.is_string() ? word.get<std::string>() : "");
    }
  }
  return types;
}

// Scores are not scaled; every second layer sees window_size tokens. The first conversions of GPT-J carry
// this model_type, `rotary` and no table.
void finish_gpt_neo(Config& config, ModelSpec& spec, const HfFamily& family) {
  const LayerTypes types = neo_types(config);
  const std::int64_t window = config.integer({"window_size"}, 1).value_or(256);
  for (std::size_t layer = 0; layer < spec.attention.size(); ++layer) {
    const bool local = types.empty() ? layer % 2 == 1 : layer < types.size() && types[layer] == "local";
    if (!local) continue;
    spec.attention[layer].kind = AttentionKind::window;
    spec.attention[layer].window = window;
  }
  if (config.flag({"rotary"}).value_or(false)) {
    if (!config.tolerant()) config.fail("rotary", "false or absent (this is a GPT-J, model_type gptj)");
    const RopeStyle gptj{.pairing = "interleaved", .width = {"rotary_dim"}};
    every_layer(spec, read_rope(config, gptj, whole_head(spec)));
    config.note(config.path() + ": rotary makes this a GPT-J, gpt_neo itself has a learned table");
    return;
  }
  finish_table(config, spec, family);
  set_attention_scale(spec, 1);
  spec.block.biases = {.out = true};
}

// Two rows of fairseq's padding stand before position 0.
void finish_opt(Config& config, ModelSpec& spec, const HfFamily& family) {
  constexpr std::int64_t kOffset = 2;
  const std::int64_t rows = config.integer(family.keys->length, 1).value_or(0) + kOffset;
  spec.positions.embedding = {learned(rows, config.stated(family.keys->length), spec.hidden, kOffset)};
  no_layer(spec);
  const std::int64_t width = config.integer({"word_embed_proj_dim"}, 1).value_or(spec.hidden);
  if (width != spec.hidden) spec.embedding.factorised_width = width;
  spec.embedding.width = width;
  scale_embedding_by_root(config, spec, "scale_embedding");
  if (family.name == "opt") read_opt_block(config, spec);
}

// Angles of the paper, all sines before all cosines, on embeddings times sqrt(n_embd).
void finish_ctrl(Config& config, ModelSpec& spec, const HfFamily&) {
  PositionSpec sinusoidal{.mechanism = "sinusoidal", .parameters = {}};
  sinusoidal.set("width", spec.hidden);
  sinusoidal.set("dialect", std::string("ctrl"));
  spec.positions.embedding = {sinusoidal};
  no_layer(spec);
  scale_embedding(spec, std::sqrt(static_cast<double>(spec.hidden)), {});
  spec.mlp.activation = Activation::relu;
  spec.head.bias = true;
  config.require("layer_norm_epsilon", 1e-6, "the layers of this family have no other");
}

void finish_biogpt(Config& config, ModelSpec& spec, const HfFamily& family) {
  finish_opt(config, spec, family);
}

HfFamily causal(std::string_view name, decltype(HfFamily::finish) finish) {
  return {.name = name,
          .norm = NormKind::layer,
          .gated = false,
          .attention_bias = Biases::always,
          .mlp_bias = Biases::always,
          .finish = finish};
}

HfFamily captioner() {
  HfFamily family = causal("git", finish_table);
  family.normed_embedding = true;
  return family;
}

const std::array kFamilies = {
    causal("biogpt", finish_biogpt),
    runs(causal("ctrl", finish_ctrl)),
    captioner(),
    runs(causal("gpt_bigcode", finish_gpt_bigcode)),
    runs(causal("gpt_neo", finish_gpt_neo)),
    runs(causal("opt", finish_opt)),
};

}  // namespace

std::span<const HfFamily> absolute_families() noexcept {
  return kFamilies;
}

}  // namespace locant

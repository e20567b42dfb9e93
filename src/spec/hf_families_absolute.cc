// SPDX-License-Identifier: Apache-2.0
// Families that add a row of a learned table (Gehring et al. 2017) or a sinusoid to the token state.
#include <array>
#include <cmath>
#include <utility>

#include "locant/core.h"
#include "spec/hf_layers.h"

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
}

// Scores are not scaled; every second layer sees window_size tokens. The first conversions of GPT-J carry
// this model_type, `rotary` and no table.
void finish_gpt_neo(Config& config, ModelSpec& spec, const HfFamily& family) {
  const LayerTypes types = config.words({"attention_layers"});
  const std::int64_t window = config.integer({"window_size"}, 1).value_or(256);
  for (std::size_t layer = 0; layer < spec.attention.size(); ++layer) {
    const bool local = types.empty() ? layer % 2 == 1 : layer < types.size() && types[layer] == "local";
    if (!local) continue;
    spec.attention[layer].kind = AttentionKind::window;
    spec.attention[layer].window = window;
  }
  config.ignore(std::array<std::string_view, 1>{"attention_types"});
  if (config.flag({"rotary"}).value_or(false)) {
    const RopeStyle gptj{.pairing = "interleaved", .width = {"rotary_dim"}};
    every_layer(spec, read_rope(config, gptj, whole_head(spec)));
    config.note(config.path() + ": rotary makes this a GPT-J, gpt_neo itself has a learned table");
    return;
  }
  finish_table(config, spec, family);
  set_attention_scale(spec, 1);
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
}

// Angles of the paper, all sines before all cosines, on embeddings times sqrt(n_embd).
void finish_ctrl(Config&, ModelSpec& spec, const HfFamily&) {
  PositionSpec sinusoidal{.mechanism = "sinusoidal", .parameters = {}};
  sinusoidal.set("width", spec.hidden);
  sinusoidal.set("dialect", std::string("ctrl"));
  spec.positions.embedding = {sinusoidal};
  no_layer(spec);
  scale_embedding(spec, std::sqrt(static_cast<double>(spec.hidden)), {});
  spec.head.bias = true;
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
    causal("biogpt", finish_biogpt),           causal("ctrl", finish_ctrl),       captioner(),
    causal("gpt_bigcode", finish_gpt_bigcode), causal("gpt_neo", finish_gpt_neo), causal("opt", finish_opt),
};

}  // namespace

std::span<const HfFamily> absolute_families() noexcept {
  return kFamilies;
}

}  // namespace locant

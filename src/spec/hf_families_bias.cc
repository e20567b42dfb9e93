// SPDX-License-Identifier: Apache-2.0
// Families that add to the attention scores: ALiBi's slopes (Press et al. 2022) and DeBERTa's disentangled
// terms (He et al. 2021).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "locant/core.h"
#include "spec/hf_dense.h"

namespace locant {
namespace {

PositionSpec slopes(const ModelSpec& spec) {
  PositionSpec alibi{.mechanism = "alibi", .parameters = {}};
  alibi.set("heads", spec.heads);
  return alibi;
}

// alibi turns the rotation off; its slopes are added before the scale.
void finish_falcon(Config& config, ModelSpec& spec, const HfFamily& family) {
  if (config.flag({"alibi"}).value_or(false)) {
    PositionSpec alibi = slopes(spec);
    alibi.set("scale_order", std::string("before_scale"));
    alibi.set("counts_from", std::string("sequence_start"));
    every_layer(spec, alibi);
    config.ignore(std::array<std::string_view, 1>{"rope_theta"});  // the class writes it all the same
  } else {
    every_layer(spec, read_rope(config, family.rope, whole_head(spec)));
  }
  read_falcon_block(config, spec);
  // The class writes the rotation's block beside alibi all the same.
  config.ignore(std::array<std::string_view, 2>{"rope_parameters", "rope_scaling"});
}

// learned_pos_emb is true in published configs that have no such table, because alibi turns it off.
void finish_mpt(Config& config, ModelSpec& spec, const HfFamily& family) {
  std::optional<Config> attention = config.object("attn_config");
  const bool alibi = !attention || attention->flag({"alibi"}).value_or(true);
  const bool rotates = attention && attention->flag({"rope"}).value_or(false);
  const bool learned = config.flag({"learned_pos_emb"}).value_or(true);
  if (attention) {
    if (const auto scale = attention->number({"softmax_scale"})) set_attention_scale(spec, *scale);
  }
  no_layer(spec);
  if (alibi) {
    PositionSpec bias = slopes(spec);
    bias.set("counts_from", std::string("sequence_end"));
    if (attention) {
      if (const auto most = attention->number({"alibi_bias_max"})) {
        bias.set("bias_max", *most, attention->stated({"alibi_bias_max"}));
      }
    }
    every_layer(spec, bias);
  } else if (rotates) {
    PositionSpec rope = read_rope(config, family.rope, whole_head(spec));
    if (const auto theta = attention->number({"rope_theta"}))
      rope.set("theta", *theta, attention->stated({"rope_theta"}));
    every_layer(spec, rope);
  } else if (learned) {
    PositionSpec table{.mechanism = "learned", .parameters = {}};
    table.set("rows", config.integer({"max_seq_len"}, 1).value_or(0), config.stated({"max_seq_len"}));
    table.set("width", spec.hidden);
    spec.positions.embedding = {table};
  }
  const auto ratio = config.integer({"expansion_ratio"}, 1);
  if (ratio) spec.mlp.width = *ratio * spec.hidden;
  read_mpt_block(config, attention, spec);
}

// The 13B models have slopes, the 7B ones rotate; no key says which.
void finish_baichuan(Config& config, ModelSpec& spec, const HfFamily& family) {
  constexpr std::int64_t kLayersOf13B = 40;
  spec.lengths.configured = config.integer({"max_position_embeddings", "model_max_length"}, 1);
  if (spec.layers == kLayersOf13B) {
    every_layer(spec, slopes(spec));
    config.note(fmt::format("{}: {} layers make this a Baichuan-13B, which has slopes and no rotation",
                            config.path(), spec.layers));
  } else {
    every_layer(spec, read_rope(config, family.rope, whole_head(spec)));
  }
}

// pos_att_type is a list, or words joined by "|".
std::vector<std::string> position_terms(Config& config) {
  const Keys key = {"pos_att_type"};
  const std::string_view stated = config.present(key);
  std::vector<std::string> terms;
  if (!stated.empty() && config.value(stated).is_string()) {
    const std::string text = config.word(key).value_or("");
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find('|', begin), text.size());
      if (end > begin) terms.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  } else {
    terms = config.words(key);
  }
  for (const std::string& term : terms) {
    if (term != "c2p" && term != "p2c") config.refuse("pos_att_type", "c2p, p2c or both");
  }
  return terms;
}

PositionSpec disentangled(Config& config, const ModelSpec& spec, bool bucketed) {
  const Keys length = {"max_position_embeddings"};
  std::int64_t most = config.integer({"max_relative_positions"}, -1).value_or(-1);
  std::string key = config.stated({"max_relative_positions"});
  if (most < 1) {
    most = config.integer(length, 1).value_or(512);
    key = config.stated(length);
  }
  PositionSpec relative{.mechanism = "deberta", .parameters = {}};
  relative.set("heads", spec.heads);
  relative.set("max_relative_positions", most, key);
  const std::int64_t buckets = config.integer({"position_buckets"}, -1).value_or(-1);
  if (bucketed && buckets > 0) relative.set("position_buckets", buckets, config.stated({"position_buckets"}));
  if (bucketed && config.flag({"share_att_key"}).value_or(false)) {
    relative.set("projections", std::string("shared"), config.stated({"share_att_key"}));
  }
  return relative;
}

void finish_deberta(Config& config, ModelSpec& spec, const HfFamily& family) {
  const std::int64_t width = config.integer({"embedding_size"}, 1).value_or(spec.hidden);
  if (width != spec.hidden) spec.embedding.factorised_width = width;
  spec.embedding.width = width;
  if (config.flag({"position_biased_input"}).value_or(true)) {
    PositionSpec table{.mechanism = "learned", .parameters = {}};
    table.set("rows", config.integer({"max_position_embeddings"}, 1).value_or(0),
              config.stated({"max_position_embeddings"}));
    table.set("width", width);
    spec.positions.embedding = {table};
  }
  spec.embedding.token_types = config.integer({"type_vocab_size"}, 0).value_or(0);
  if (spec.embedding.token_types > 0) {
    PositionSpec types{.mechanism = "token_types", .parameters = {}};
    types.set("rows", spec.embedding.token_types, config.stated({"type_vocab_size"}));
    types.set("width", width);
    spec.positions.embedding.push_back(types);
  }
  no_layer(spec);
  spec.head.bias = true;
  const std::vector<std::string> terms = position_terms(config);
  if (!config.flag({"relative_attention"}).value_or(false)) return;
  const bool c2p = std::find(terms.begin(), terms.end(), "c2p") != terms.end();
  const bool p2c = std::find(terms.begin(), terms.end(), "p2c") != terms.end();
  set_attention_scale(
      spec, 1 / std::sqrt(static_cast<double>(spec.head_dim * (1 + (c2p ? 1 : 0) + (p2c ? 1 : 0)))));
  if (!c2p && !p2c) return;
  PositionSpec relative = disentangled(config, spec, family.name == "deberta-v2");
  relative.set("pos_att_type",
               std::string(c2p && p2c ? "c2p|p2c"
                           : c2p      ? "c2p"
                                      : "p2c"),
               config.stated({"pos_att_type"}));
  every_layer(spec, relative);
  (void)config.word({"norm_rel_ebd"});
}

// Relative sinusoids of Transformer-XL inside the scores.
void finish_xlnet(Config& config, ModelSpec& spec, const HfFamily&) {
  const std::string type = config.word({"attn_type"}).value_or("bi");
  for (AttentionSpec& attention : spec.attention) attention.bidirectional = type == "bi";
  spec.head.bias = true;
  PositionSpec relative{.mechanism = "xlnet", .parameters = {}};
  relative.set("heads", spec.heads);
  relative.set("width", spec.hidden);
  const Keys clamp = {"clamp_len"};
  if (const auto most = config.integer(clamp, -1); most && *most > 0) {
    relative.set("clamp", *most, config.stated(clamp));
  }
  relative.set("direction", std::string(type == "bi" ? "bidirectional" : "causal"),
               config.stated({"attn_type"}));
  every_layer(spec, relative);
}

HfFamily deberta(std::string_view name) {
  return {.name = name,
          .norm = NormKind::layer,
          .gated = false,
          .normed_embedding = true,
          .bidirectional = true,
          .attention_bias = Biases::always,
          .mlp_bias = Biases::always,
          .finish = finish_deberta};
}

const std::array kFamilies = {
    HfFamily{.name = "baichuan", .finish = finish_baichuan},
    deberta("deberta"),
    deberta("deberta-v2"),
    runs({.name = "falcon", .norm = NormKind::layer, .gated = false, .finish = finish_falcon}),
    runs({.name = "mpt",
          .norm = NormKind::layer,
          .gated = false,
          .attention_bias = Biases::never,
          .mlp_bias = Biases::never,
          .finish = finish_mpt}),
    HfFamily{.name = "xlnet",
             .norm = NormKind::layer,
             .gated = false,
             .attention_bias = Biases::never,
             .mlp_bias = Biases::always,
             .finish = finish_xlnet},
};

}  // namespace

std::span<const HfFamily> bias_families() noexcept {
  return kFamilies;
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// Encoders that add rows of learned tables to the token state (Devlin et al. 2019): hidden states, and logits
// of a masked-LM head where a checkpoint has one.
#include <array>
#include <utility>

#include "locant/core.h"
#include "spec/hf_layers.h"

namespace locant {
namespace {

using namespace std::string_view_literals;

PositionSpec learned(std::int64_t rows, std::string key, std::int64_t width, std::int64_t offset) {
  PositionSpec table{.mechanism = "learned", .parameters = {}};
  table.set("rows", rows, std::move(key));
  table.set("width", width);
  if (offset != 0) table.set("offset", offset);
  return table;
}

void add_token_types(Config& config, ModelSpec& spec, std::int64_t width) {
  spec.embedding.token_types = config.integer({"type_vocab_size"}, 0).value_or(0);
  if (spec.embedding.token_types == 0) return;
  PositionSpec types{.mechanism = "token_types", .parameters = {}};
  types.set("rows", spec.embedding.token_types, config.stated({"type_vocab_size"}));
  types.set("width", width);
  spec.positions.embedding.push_back(types);
}

// Tables of `width` columns, a projection to the hidden size behind them.
std::int64_t factorise(Config& config, ModelSpec& spec) {
  const std::int64_t width = config.integer({"embedding_size"}, 1).value_or(spec.hidden);
  if (width != spec.hidden) spec.embedding.factorised_width = width;
  spec.embedding.width = width;
  return width;
}

// A dense layer, the activation and a norm stand before the table, which serves as head.
void masked_head(Config& config, ModelSpec& spec, Activation activation) {
  spec.head.bias = true;
  spec.head.masked = true;
  spec.head.transform = activation;
  if (!config.flag({"is_decoder"}).value_or(false)) return;
  for (AttentionSpec& attention : spec.attention) attention.bidirectional = false;
}

// JinaBert (alibi) keeps BERT's model_type.
void finish_bert(Config& config, ModelSpec& spec, const HfFamily& family) {
  const std::int64_t width = factorise(config, spec);
  const std::string type = config.word({"position_embedding_type"}).value_or("absolute");
  constexpr std::string_view kWhy = "transformers 5 computes no other for this family";
  no_layer(spec);
  if (!config.tolerant()) config.require("position_embedding_type", "absolute", kWhy);
  if (type == "alibi") {
    PositionSpec alibi{.mechanism = "alibi", .parameters = {}};
    alibi.set("heads", spec.heads);
    every_layer(spec, alibi);
  } else if (type == "rope" || type == "rotary") {
    every_layer(spec, read_rope(config, family.rope, whole_head(spec)));
  } else {
    const std::int64_t rows = config.integer(family.keys->length, 1).value_or(0);
    spec.positions.embedding = {learned(rows, config.stated(family.keys->length), width, 0)};
    config.require("position_embedding_type", "absolute", kWhy);
  }
  add_token_types(config, spec, width);
  masked_head(config, spec, spec.mlp.activation);
}

// Layers of a group share weights; groups follow each other.
void finish_albert(Config& config, ModelSpec& spec, const HfFamily& family) {
  finish_bert(config, spec, family);
  const std::int64_t sets = config.integer({"num_hidden_groups"}, 1).value_or(1);
  spec.block.weight_sets = sets;
  if (config.tolerant()) return;
  if (sets > spec.layers || spec.layers % sets != 0) {
    config.fail("num_hidden_groups", "a divisor of num_hidden_layers");
  }
  config.require("inner_group_num", 1, "a group is one layer");
}

void finish_electra(Config& config, ModelSpec& spec, const HfFamily& family) {
  finish_bert(config, spec, family);
  spec.head.transform = Activation::gelu_erf;
}

// The table counts from pad_token_id + 1 and its length counts those rows too.
void finish_roberta(Config& config, ModelSpec& spec, const HfFamily& family) {
  const std::int64_t rows = config.integer(family.keys->length, 1).value_or(0);
  const std::int64_t offset = spec.embedding.padding_id.value_or(0) + 1;
  if (offset >= rows) config.fail("pad_token_id", "an id below the rows of the position table");
  spec.positions.embedding = {learned(rows, config.stated(family.keys->length), spec.hidden, offset)};
  no_layer(spec);
  add_token_types(config, spec, spec.hidden);
  config.require("position_embedding_type", "absolute", "transformers 5 computes no other for this family");
  masked_head(config, spec, Activation::gelu_erf);
}

void finish_distilbert(Config& config, ModelSpec& spec, const HfFamily& family) {
  const std::int64_t rows = config.integer(family.keys->length, 1).value_or(0);
  spec.positions.embedding = {learned(rows, config.stated(family.keys->length), spec.hidden, 0)};
  no_layer(spec);
  config.require("position_embedding_type", "absolute", "this family has a table");
  spec.norm.eps = 1e-12;  // no key says so
  masked_head(config, spec, spec.mlp.activation);
}

// Sorted. Dropouts, starting values, heads of classifiers and summaries.
constexpr std::array kBertIgnored = {"attention_probs_dropout_prob"sv,
                                     "classifier_dropout"sv,
                                     "classifier_dropout_prob"sv,
                                     "directionality"sv,
                                     "down_scale_factor"sv,
                                     "gap_size"sv,
                                     "hidden_dropout_prob"sv,
                                     "net_structure_type"sv,
                                     "num_memory_blocks"sv,
                                     "output_past"sv,
                                     "pooler_fc_size"sv,
                                     "pooler_num_attention_heads"sv,
                                     "pooler_num_fc_layers"sv,
                                     "pooler_size_per_head"sv,
                                     "pooler_type"sv,
                                     "summary_activation"sv,
                                     "summary_last_dropout"sv,
                                     "summary_type"sv,
                                     "summary_use_proj"sv};
constexpr std::array kDistilbertIgnored = {"attention_dropout"sv, "dropout"sv, "qa_dropout"sv,
                                           "seq_classif_dropout"sv, "sinusoidal_pos_embds"sv};

const HfKeys kBertKeys = {.vocab = {"vocab_size"},
                          .hidden = {"hidden_size"},
                          .layers = {"num_hidden_layers"},
                          .heads = {"num_attention_heads"},
                          .kv_heads = {},
                          .head_dim = {},
                          .mlp_width = {"intermediate_size"},
                          .activation = {"hidden_act"},
                          .norm_eps = {"layer_norm_eps"},
                          .length = {"max_position_embeddings"}};
const HfKeys kDistilbertKeys = {.vocab = {"vocab_size"},
                                .hidden = {"dim", "hidden_size"},
                                .layers = {"n_layers", "num_hidden_layers"},
                                .heads = {"n_heads", "num_attention_heads"},
                                .kv_heads = {},
                                .head_dim = {},
                                .mlp_width = {"hidden_dim"},
                                .activation = {"activation"},
                                .norm_eps = {},
                                .length = {"max_position_embeddings"}};

HfFamily encoder(std::string_view name, decltype(HfFamily::finish) finish) {
  return {.name = name,
          .norm = NormKind::layer,
          .gated = false,
          .normed_embedding = true,
          .bidirectional = true,
          .attention_bias = Biases::always,
          .mlp_bias = Biases::always,
          .finish = finish};
}

HfFamily running(std::string_view name, decltype(HfFamily::finish) finish, const HfKeys& keys = kBertKeys,
                 std::span<const std::string_view> ignored = kBertIgnored) {
  HfFamily family = encoder(name, finish);
  family.keys = &keys;
  family.mlp_factor = 0;
  family.runs = true;
  family.ignored = ignored;
  return family;
}

const std::array kFamilies = {
    running("albert", finish_albert),
    running("bert", finish_bert),
    running("camembert", finish_roberta),
    encoder("clap_text_model", finish_roberta),
    running("distilbert", finish_distilbert, kDistilbertKeys, kDistilbertIgnored),
    running("electra", finish_electra),
    encoder("megatron-bert", finish_bert),
    running("roberta", finish_roberta),
    running("xlm-roberta", finish_roberta),
};

}  // namespace

std::span<const HfFamily> encoder_families() noexcept {
  return kFamilies;
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// Encoder-decoder families: the decoder is the main stack, its encoder and its cross-attention stand beside
// it.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

#include "locant/core.h"
#include "spec/hf_layers.h"

namespace locant {
namespace {

using namespace std::string_view_literals;

struct Side {
  std::int64_t layers = 0;
  std::int64_t heads = 0;
};

StackSpec stack_of(Stack stack, const ModelSpec& spec, std::int64_t layers) {
  StackSpec beside;
  beside.positions.stack = stack;
  beside.positions.layers.assign(static_cast<std::size_t>(layers), {});
  AttentionSpec attention;
  attention.scale = spec.attention.empty() ? 1 : spec.attention.front().scale;
  attention.bidirectional = true;
  beside.attention.assign(static_cast<std::size_t>(layers), attention);
  return beside;
}

// BART's class: as many keys for each side.
Side read_side(Config& config, std::string_view layers, std::string_view heads) {
  return {.layers = config.integer({layers}, 1).value_or(1), .heads = config.integer({heads}, 1).value_or(1)};
}

void read_start(Config& config, ModelSpec& spec) {
  const std::vector<std::int64_t> start = config.ids({"decoder_start_token_id"});
  if (!start.empty()) spec.decoder_start = start.front();
}

// The decoder's sizes become the model's; what stands in num_hidden_layers speaks of the encoder.
StackSpec& open_stacks(Config& config, ModelSpec& spec) {
  const Side decoder = read_side(config, "decoder_layers", "decoder_attention_heads");
  const Side encoder = read_side(config, "encoder_layers", "encoder_attention_heads");
  if (decoder.layers > kMostLayers) config.fail("decoder_layers", "at most 65536");
  if (encoder.layers > kMostLayers) config.fail("encoder_layers", "at most 65536");
  if (decoder.heads > kMostHeads)
    config.fail("decoder_attention_heads", fmt::format("at most {}", kMostHeads));
  if (encoder.heads > kMostHeads)
    config.fail("encoder_attention_heads", fmt::format("at most {}", kMostHeads));
  if (spec.hidden % decoder.heads != 0) config.fail("decoder_attention_heads", "a divisor of the width");
  if (spec.hidden % encoder.heads != 0) config.fail("encoder_attention_heads", "a divisor of the width");
  if (!config.tolerant() && encoder.heads != decoder.heads) {
    config.fail("encoder_attention_heads",
                fmt::format("the decoder's {}, one width of a head holds for both sides", decoder.heads));
  }
  spec.layers = decoder.layers;
  spec.heads = decoder.heads;
  spec.kv_heads = decoder.heads;
  spec.head_dim = spec.hidden / decoder.heads;
  spec.mlp.width = config.integer({"decoder_ffn_dim"}, 1).value_or(spec.mlp.width);
  spec.attention.assign(static_cast<std::size_t>(spec.layers),
                        {.scale = 1 / std::sqrt(static_cast<double>(spec.head_dim))});
  no_layer(spec);
  spec.others = {stack_of(Stack::encoder, spec, encoder.layers),
                 stack_of(Stack::cross, spec, decoder.layers)};
  StackSpec& beside = spec.others.front();
  for (AttentionSpec& attention : beside.attention)
    attention.scale = 1 / std::sqrt(static_cast<double>(spec.hidden / encoder.heads));
  beside.heads = encoder.heads;
  beside.mlp_width = config.integer({"encoder_ffn_dim"}, 1).value_or(spec.mlp.width);
  read_start(config, spec);
  scale_embedding_by_root(config, spec, "scale_embedding");
  return spec.others.front();
}

PositionSpec learned(std::int64_t rows, std::string key, std::int64_t width, std::int64_t offset) {
  PositionSpec table{.mechanism = "learned", .parameters = {}};
  table.set("rows", rows, std::move(key));
  table.set("width", width);
  if (offset != 0) table.set("offset", offset);
  return table;
}

PositionSpec sinusoidal(std::string_view dialect, std::int64_t width) {
  PositionSpec rows{.mechanism = "sinusoidal", .parameters = {}};
  rows.set("width", width);
  rows.set("dialect", std::string(dialect));
  return rows;
}

// Keys of old configs, which choose nothing any more: a class has its norms where it has them.
void require_norms(Config& config, bool before, bool embedding) {
  config.require("normalize_before", before, "where this family norms is fixed");
  config.require("add_final_layer_norm", before, "where this family norms is fixed");
  config.require("normalize_embedding", embedding, "where this family norms is fixed");
}

// Two rows of fairseq's padding stand before position 0, on both sides.
void finish_bart(Config& config, ModelSpec& spec, const HfFamily& family) {
  constexpr std::int64_t kOffset = 2;
  StackSpec& encoder = open_stacks(config, spec);
  const std::int64_t rows = config.integer(family.keys->length, 1).value_or(0) + kOffset;
  const PositionSpec table = learned(rows, config.stated(family.keys->length), spec.hidden, kOffset);
  spec.positions.embedding = {table};
  encoder.positions.embedding = {table};
  spec.embedding.normed = true;
  spec.head.bias = true;
  config.require("static_position_embeddings", false, "the table of this family is learned");
  if (config.tolerant()) return;
  const bool before = family.name == "mbart";
  require_norms(config, before, true);
  config.require("add_bias_logits", false, "final_logits_bias is added whatever a key says");
}

// Tables that numpy builds in f64.
void finish_marian(Config& config, ModelSpec& spec, const HfFamily&) {
  StackSpec& encoder = open_stacks(config, spec);
  PositionSpec rows = sinusoidal("marian", spec.hidden);
  rows.set("arithmetic", std::string("f64"));
  spec.positions.embedding = {rows};
  encoder.positions.embedding = {rows};
  spec.head.bias = true;
  config.require("static_position_embeddings", true, "the table of this family is a sinusoid");
  if (config.tolerant()) return;
  require_norms(config, false, false);
  config.require("add_bias_logits", false, "final_logits_bias is added whatever a key says");
  config.require("decoder_vocab_size", spec.vocab, "encoder and decoder share their table");
  config.require("share_encoder_decoder_embeddings", true, "encoder and decoder share their table");
}

void finish_m2m_100(Config& config, ModelSpec& spec, const HfFamily&) {
  StackSpec& encoder = open_stacks(config, spec);
  PositionSpec rows = sinusoidal("halves", spec.hidden);
  rows.set("stored", std::int64_t{1});
  // the row behind padding's own is position 0's
  rows.set("offset", spec.embedding.padding_id.value_or(1) + 1, config.stated({"pad_token_id"}));
  if (spec.embedding.padding_id) {
    rows.set("zero_row", *spec.embedding.padding_id, config.stated({"pad_token_id"}));
  }
  spec.positions.embedding = {rows};
  encoder.positions.embedding = {rows};
}

// The encoder's table is a sinusoid that checkpoints carry as a weight.
void finish_whisper(Config& config, ModelSpec& spec, const HfFamily&) {
  StackSpec& encoder = open_stacks(config, spec);
  const Keys target = {"max_target_positions"};
  const std::int64_t rows = config.integer(target, 1).value_or(448);
  spec.positions.embedding = {learned(rows, config.stated(target), spec.hidden, 0)};
  PositionSpec rows_of_encoder = sinusoidal("halves", spec.hidden);
  rows_of_encoder.set("stored", std::int64_t{1});
  encoder.positions.embedding = {rows_of_encoder};
  spec.lengths.configured = rows;
  spec.lengths.configured_key = config.stated(target);
  (void)config.integer({"max_source_positions"}, 1);
}

PositionSpec buckets(Config& config, const ModelSpec& spec, std::string_view direction) {
  PositionSpec bias{.mechanism = "t5_buckets", .parameters = {}};
  bias.set("heads", spec.heads);
  const Keys count = {"relative_attention_num_buckets"};
  const Keys most = {"relative_attention_max_distance"};
  if (const auto stated = config.integer(count, 1)) bias.set("buckets", *stated, config.stated(count));
  if (const auto stated = config.integer(most, 1)) bias.set("max_distance", *stated, config.stated(most));
  bias.set("direction", std::string(direction));
  return bias;
}

// feed_forward_proj: "relu", "gated-gelu", ...; "gated-gelu" means the tanh form.
void read_feed_forward(Config& config, ModelSpec& spec, std::string_view otherwise) {
  const std::string word = config.word({"feed_forward_proj"}).value_or(std::string(otherwise));
  spec.mlp.gated = word.starts_with("gated-");
  const std::string act = spec.mlp.gated ? word.substr(6) : word;
  if (act == "relu") {
    spec.mlp.activation = Activation::relu;
  } else if (act == "silu" || act == "swish") {
    spec.mlp.activation = Activation::silu;
  } else if (act == "gelu" || act == "gelu_new") {
    spec.mlp.activation = spec.mlp.gated || act == "gelu_new" ? Activation::gelu_tanh : Activation::gelu_erf;
  } else {
    config.refuse("feed_forward_proj", "relu, gelu or silu, with or without gated-");
  }
  (void)config.present({"dense_act_fn"});
  (void)config.present({"is_gated_act"});
}

// Scores are not scaled, cross-attention has no bias. A stated tie_word_embeddings of false means a head of
// its own that is not scaled (T5 1.1); transformers reads only the second half of that.
void finish_t5(Config& config, ModelSpec& spec, const HfFamily& family) {
  const std::int64_t encoder_layers = spec.layers;
  spec.layers = config.integer({"num_decoder_layers"}, 1).value_or(encoder_layers);
  if (spec.layers > kMostLayers) config.fail("num_decoder_layers", "at most 65536");
  spec.head_dim = config.integer({"d_kv"}, 1).value_or(spec.head_dim);
  if (spec.head_dim > kWidestHead) config.fail("d_kv", fmt::format("at most {}", kWidestHead));
  spec.attention.assign(static_cast<std::size_t>(spec.layers), {.scale = 1});
  every_layer(spec, buckets(config, spec, "causal"));
  StackSpec encoder = stack_of(Stack::encoder, spec, encoder_layers);
  encoder.positions.layers.assign(static_cast<std::size_t>(encoder_layers),
                                  {buckets(config, spec, "bidirectional")});
  spec.others = {std::move(encoder), stack_of(Stack::cross, spec, spec.layers)};
  const bool stated_untied = !config.flag({"tie_word_embeddings"}).value_or(true);
  const bool scales = config.flag({"scale_decoder_outputs"}).value_or(family.name != "mt5" && !stated_untied);
  if (scales && spec.hidden > 0) spec.head.scale = 1 / std::sqrt(static_cast<double>(spec.hidden));
  spec.head.tied_regardless = true;
  read_start(config, spec);
  // T5 begins with its padding where no key says so.
  if (!spec.decoder_start) spec.decoder_start = spec.embedding.padding_id;
  read_feed_forward(config, spec, family.name == "t5" ? "relu" : "gated-gelu");
  // n_positions is what T5 was trained at and no limit.
  spec.lengths.configured.reset();
  spec.lengths.configured_key.clear();
}

// Sorted. Dropouts, starting values, heads of classifiers, rules of generation.
constexpr std::array kBartIgnored = {
    "activation_dropout"sv, "attention_dropout"sv,       "classif_dropout"sv,
    "classifier_dropout"sv, "decoder_layerdrop"sv,       "dropout"sv,
    "encoder_layerdrop"sv,  "extra_pos_embeddings"sv,    "force_bos_token_to_be_generated"sv,
    "init_std"sv,           "max_position_embeddings"sv, "output_past"sv,
    "save_step"sv};
constexpr std::array kT5Ignored = {"classifier_dropout"sv, "dropout_rate"sv, "initializer_factor"sv,
                                   "n_positions"sv, "output_past"sv};

const HfKeys kBartKeys = {.vocab = {"vocab_size"},
                          .hidden = {"d_model", "hidden_size"},
                          .layers = {"encoder_layers", "num_hidden_layers"},
                          .heads = {"encoder_attention_heads", "num_attention_heads"},
                          .kv_heads = {},
                          .head_dim = {},
                          .mlp_width = {"encoder_ffn_dim"},
                          .activation = {"activation_function"},
                          .norm_eps = {},
                          .length = {"max_position_embeddings"}};
const HfKeys kT5Keys = {.vocab = {"vocab_size"},
                        .hidden = {"d_model", "hidden_size"},
                        .layers = {"num_layers", "num_hidden_layers"},
                        .heads = {"num_heads", "num_attention_heads"},
                        .kv_heads = {},
                        .head_dim = {"d_kv", "head_dim"},
                        .mlp_width = {"d_ff"},
                        .activation = {},
                        .norm_eps = {"layer_norm_epsilon"},
                        .length = {"n_positions"}};

HfFamily both_sides(std::string_view name, decltype(HfFamily::finish) finish) {
  return {.name = name,
          .norm = NormKind::layer,
          .gated = false,
          .attention_bias = Biases::always,
          .mlp_bias = Biases::always,
          .finish = finish,
          .encoder_decoder = true};
}

HfFamily running(std::string_view name, decltype(HfFamily::finish) finish) {
  HfFamily family = both_sides(name, finish);
  family.keys = &kBartKeys;
  family.mlp_factor = 0;
  family.runs = true;
  family.ignored = kBartIgnored;
  return family;
}

HfFamily buckets_family(std::string_view name) {
  return {.name = name,
          .keys = &kT5Keys,
          .mlp_factor = 0,
          .gated = false,
          .attention_bias = Biases::never,
          .mlp_bias = Biases::never,
          .finish = finish_t5,
          .runs = name != "umt5",  // which has a relative table in each layer
          .encoder_decoder = true,
          .ignored = kT5Ignored};
}

const std::array kFamilies = {
    running("bart", finish_bart),
    running("m2m_100", finish_m2m_100),
    running("marian", finish_marian),
    running("mbart", finish_bart),
    buckets_family("mt5"),
    both_sides("pegasus", finish_marian),
    buckets_family("t5"),
    buckets_family("umt5"),
    both_sides("whisper", finish_whisper),
};

}  // namespace

std::span<const HfFamily> encoder_decoder_families() noexcept {
  return kFamilies;
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// The families that run computes. Their keys are read strictly: a name that this class does not have is never
// taken for one that it has.
#include <array>
#include <cmath>

#include "spec/hf_layers.h"

namespace locant {
namespace {

using namespace std::string_view_literals;

void finish_llama(Config& config, ModelSpec& spec, const HfFamily& family) {
  every_layer(spec, read_rope(config, family.rope, whole_head(spec)));
  config.require("sliding_window", nullptr, "llama attends to the whole past");
}

void finish_gpt2(Config& config, ModelSpec& spec, const HfFamily& family) {
  PositionSpec learned{.mechanism = "learned", .parameters = {}};
  learned.set("rows", config.required_integer(family.keys->length, 1), config.stated(family.keys->length));
  learned.set("width", spec.hidden);
  spec.positions.embedding = {learned};
  no_layer(spec);
  const bool scaled = config.flag({"scale_attn_weights"}).value_or(true);
  const bool by_layer = config.flag({"scale_attn_by_inverse_layer_idx"}).value_or(false);
  for (std::size_t layer = 0; layer < spec.attention.size(); ++layer) {
    double& scale = spec.attention[layer].scale;
    if (!scaled) scale = 1;
    if (by_layer) scale /= static_cast<double>(layer + 1);
  }
}

void finish_bloom(Config& config, ModelSpec& spec, const HfFamily&) {
  PositionSpec alibi{.mechanism = "alibi", .parameters = {}};
  alibi.set("heads", spec.heads);
  alibi.set("counts_from", std::string("sequence_start"));
  every_layer(spec, alibi);
  if (config.flag({"apply_residual_connection_post_layernorm"}).value_or(false)) {
    spec.residual = Residual::from_norm;
  }
}

void finish_xglm(Config& config, ModelSpec& spec, const HfFamily&) {
  PositionSpec sinusoidal{.mechanism = "sinusoidal", .parameters = {}};
  sinusoidal.set("width", spec.hidden);
  sinusoidal.set("dialect", std::string("halves"));
  sinusoidal.set("offset", std::int64_t{2});
  if (spec.embedding.padding_id) sinusoidal.set("zero_row", *spec.embedding.padding_id, "pad_token_id");
  spec.positions.embedding = {sinusoidal};
  no_layer(spec);
  scale_embedding_by_root(config, spec, "scale_embedding");
}

// Sorted. Dropouts, initialisers and training switches change no forward pass in evaluation mode.
constexpr std::array kBloomIgnored = {"attention_dropout"sv,     "attention_softmax_in_fp32"sv,
                                      "bias_dropout_fusion"sv,   "hidden_dropout"sv,
                                      "masked_softmax_fusion"sv, "n_inner"sv,
                                      "offset_alibi"sv,          "pretraining_tp"sv,
                                      "skip_bias_add"sv,         "skip_bias_add_qkv"sv,
                                      "slow_but_exact"sv};
constexpr std::array kGpt2Ignored = {"attn_pdrop"sv,
                                     "embd_pdrop"sv,
                                     "n_ctx"sv,
                                     "reorder_and_upcast_attn"sv,
                                     "resid_pdrop"sv,
                                     "summary_activation"sv,
                                     "summary_first_dropout"sv,
                                     "summary_proj_to_labels"sv,
                                     "summary_type"sv,
                                     "summary_use_proj"sv};
constexpr std::array kLlamaIgnored = {"attention_dropout"sv, "pretraining_tp"sv};
constexpr std::array kXglmIgnored = {
    "activation_dropout"sv, "attention_dropout"sv, "decoder_start_token_id"sv, "dropout"sv,
    "init_std"sv,           "layerdrop"sv};

const HfKeys kBloomKeys = {.vocab = {"vocab_size"},
                           .hidden = {"hidden_size", "n_embed"},
                           .layers = {"n_layer", "num_hidden_layers"},
                           .heads = {"n_head", "num_attention_heads"},
                           .kv_heads = {},
                           .head_dim = {},
                           .mlp_width = {},
                           .activation = {},
                           .norm_eps = {"layer_norm_epsilon"},
                           .length = {"seq_length"}};
const HfKeys kGpt2Keys = {.vocab = {"vocab_size"},
                          .hidden = {"n_embd", "hidden_size"},
                          .layers = {"n_layer", "num_hidden_layers"},
                          .heads = {"n_head", "num_attention_heads"},
                          .kv_heads = {},
                          .head_dim = {},
                          .mlp_width = {"n_inner"},
                          .activation = {"activation_function"},
                          .norm_eps = {"layer_norm_epsilon"},
                          .length = {"n_positions", "max_position_embeddings"}};
const HfKeys kLlamaKeys = {.vocab = {"vocab_size"},
                           .hidden = {"hidden_size"},
                           .layers = {"num_hidden_layers"},
                           .heads = {"num_attention_heads"},
                           .kv_heads = {"num_key_value_heads"},
                           .head_dim = {"head_dim"},
                           .mlp_width = {"intermediate_size"},
                           .activation = {"hidden_act"},
                           .norm_eps = {"rms_norm_eps"},
                           .length = {"max_position_embeddings"}};
const HfKeys kXglmKeys = {.vocab = {"vocab_size"},
                          .hidden = {"d_model", "hidden_size"},
                          .layers = {"num_layers", "num_hidden_layers"},
                          .heads = {"attention_heads", "num_attention_heads"},
                          .kv_heads = {},
                          .head_dim = {},
                          .mlp_width = {"ffn_dim"},
                          .activation = {"activation_function"},
                          .norm_eps = {},
                          .length = {"max_position_embeddings"}};

const std::array kFamilies = {
    HfFamily{.name = "bloom",
             .keys = &kBloomKeys,
             .norm = NormKind::layer,
             .gated = false,
             .normed_embedding = true,
             .attention_bias = Biases::always,
             .mlp_bias = Biases::always,
             .finish = finish_bloom,
             .runs = true,
             .ignored = kBloomIgnored},
    HfFamily{.name = "gpt2",
             .keys = &kGpt2Keys,
             .norm = NormKind::layer,
             .gated = false,
             .attention_bias = Biases::always,
             .mlp_bias = Biases::always,
             .finish = finish_gpt2,
             .runs = true,
             .ignored = kGpt2Ignored},
    HfFamily{.name = "llama",
             .keys = &kLlamaKeys,
             .mlp_factor = 0,
             .finish = finish_llama,
             .runs = true,
             .ignored = kLlamaIgnored},
    HfFamily{.name = "xglm",
             .keys = &kXglmKeys,
             .mlp_factor = 0,
             .norm = NormKind::layer,
             .gated = false,
             .attention_bias = Biases::always,
             .mlp_bias = Biases::always,
             .finish = finish_xglm,
             .runs = true,
             .ignored = kXglmIgnored},
};

}  // namespace

std::span<const HfFamily> run_families() noexcept {
  return kFamilies;
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// The families of transformers that Locant reads. Defaults are those of the configuration classes of
// transformers 5.24 (models/<family>/configuration_<family>.py). A new family is one row.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "locant/core.h"
#include "spec/hf_family.h"

namespace locant {
namespace {

using namespace std::string_view_literals;

void every_layer(ModelSpec& spec, const PositionSpec& position) {
  spec.positions.layers.assign(static_cast<std::size_t>(spec.layers), {position});
}

void no_layer(ModelSpec& spec) {
  spec.positions.layers.assign(static_cast<std::size_t>(spec.layers), {});
}

// The rope block of transformers v5 (`rope_parameters`) or v4 (`rope_scaling` beside `rope_theta`); a legacy
// rope_scaling replaces rope_parameters, as RotaryEmbeddingConfigMixin does.
PositionSpec read_rope(Config& config, const ModelSpec& spec) {
  PositionSpec rope{.mechanism = "rope", .parameters = {}};
  rope.set("head_dim", spec.head_dim);
  rope.set("pairing", std::string("half"));
  double theta = 10000;
  std::string theta_key;
  if (const auto stated = config.number({"rope_theta"})) {
    theta = *stated;
    theta_key = "rope_theta";
  }
  auto scaling = config.object("rope_scaling");
  auto parameters = config.object("rope_parameters");
  auto& block = scaling && !scaling->unread().empty() ? scaling : parameters;  // {} counts as absent
  if (block) {
    const auto type = block->word({"rope_type", "type"});
    if (type && *type != "default") {
      block->fail(block->present({"rope_type", "type"}),
                  "\"default\", the one schedule this version computes");
    }
    if (const auto stated = block->number({"rope_theta"})) {
      theta = *stated;
      theta_key = block->full_key("rope_theta");
    }
    const std::vector<std::string> unread = block->unread();
    if (!unread.empty()) {
      throw SpecError(fmt::format("{}: {} would change the rotation and is not understood, got {}",
                                  config.path(), block->full_key(unread.front()),
                                  block->value(unread.front()).dump()));
    }
  }
  rope.set("theta", theta, theta_key);
  return rope;
}

void finish_llama(Config& config, ModelSpec& spec) {
  every_layer(spec, read_rope(config, spec));
  config.require("sliding_window", nullptr, "llama attends to the whole past");
  // The plain schedule of transformers ignores it for llama while every scaled one honours it.
  config.require("partial_rotary_factor", 1.0, "readers disagree on a partial rotation of llama");
}

void finish_gpt2(Config& config, ModelSpec& spec) {
  PositionSpec learned{.mechanism = "learned", .parameters = {}};
  learned.set("rows", config.required_integer({"n_positions", "max_position_embeddings"}, 1),
              std::string(config.present({"n_positions", "max_position_embeddings"})));
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

void finish_bloom(Config& config, ModelSpec& spec) {
  PositionSpec alibi{.mechanism = "alibi", .parameters = {}};
  alibi.set("heads", spec.heads);
  every_layer(spec, alibi);
  if (config.flag({"apply_residual_connection_post_layernorm"}).value_or(false)) {
    spec.residual = Residual::from_norm;
  }
}

void finish_xglm(Config& config, ModelSpec& spec) {
  PositionSpec sinusoidal{.mechanism = "sinusoidal", .parameters = {}};
  sinusoidal.set("width", spec.hidden);
  sinusoidal.set("dialect", std::string("halves"));
  sinusoidal.set("offset", std::int64_t{2});
  if (spec.embedding.padding_id) sinusoidal.set("zero_row", *spec.embedding.padding_id, "pad_token_id");
  spec.positions.embedding = {sinusoidal};
  no_layer(spec);
  if (config.flag({"scale_embedding"}).value_or(true)) {
    spec.embedding.scale = std::sqrt(static_cast<double>(spec.hidden));
    spec.embedding.scale_key = "scale_embedding";
  }
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

const std::array kFamilies = {
    HfFamily{.name = "bloom",
             .hidden = {"hidden_size", "n_embed"},
             .layers = {"n_layer", "num_hidden_layers"},
             .heads = {"n_head", "num_attention_heads"},
             .kv_heads = {},
             .head_dim = {},
             .mlp_width = {},
             .activation = {},
             .norm_eps = {"layer_norm_epsilon"},
             .length = {"seq_length"},
             .default_activation = "gelu_new",
             .normed_embedding = true,
             .default_bos = 1,
             .default_eos = 2,
             .default_pad = {},
             .ignored = kBloomIgnored,
             .finish = finish_bloom},
    HfFamily{.name = "gpt2",
             .hidden = {"n_embd", "hidden_size"},
             .layers = {"n_layer", "num_hidden_layers"},
             .heads = {"n_head", "num_attention_heads"},
             .kv_heads = {},
             .head_dim = {},
             .mlp_width = {"n_inner"},
             .activation = {"activation_function"},
             .norm_eps = {"layer_norm_epsilon"},
             .length = {"n_positions", "max_position_embeddings"},
             .default_activation = "gelu_new",
             .default_bos = 50256,
             .default_eos = 50256,
             .default_pad = {},
             .ignored = kGpt2Ignored,
             .finish = finish_gpt2},
    HfFamily{.name = "llama",
             .hidden = {"hidden_size"},
             .layers = {"num_hidden_layers"},
             .heads = {"num_attention_heads"},
             .kv_heads = {"num_key_value_heads"},
             .head_dim = {"head_dim"},
             .mlp_width = {"intermediate_size"},
             .activation = {"hidden_act"},
             .norm_eps = {"rms_norm_eps"},
             .length = {"max_position_embeddings"},
             .mlp_factor = 0,
             .default_activation = "silu",
             .norm = NormKind::rms,
             .default_norm_eps = 1e-6,
             .gated = true,
             .default_tied = false,
             .attention_bias = Biases::by_key,
             .mlp_bias = Biases::by_key,
             .default_bos = 1,
             .default_eos = 2,
             .default_pad = {},
             .ignored = kLlamaIgnored,
             .finish = finish_llama},
    HfFamily{.name = "xglm",
             .hidden = {"d_model", "hidden_size"},
             .layers = {"num_layers", "num_hidden_layers"},
             .heads = {"attention_heads", "num_attention_heads"},
             .kv_heads = {},
             .head_dim = {},
             .mlp_width = {"ffn_dim"},
             .activation = {"activation_function"},
             .norm_eps = {},
             .length = {"max_position_embeddings"},
             .mlp_factor = 0,
             .default_activation = "gelu",
             .default_bos = 0,
             .default_eos = 2,
             .default_pad = 1,
             .ignored = kXglmIgnored,
             .finish = finish_xglm},
};

}  // namespace

std::span<const HfFamily> hf_families() noexcept {
  return kFamilies;
}

std::vector<std::string_view> families() {
  std::vector<std::string_view> names;
  for (const HfFamily& family : kFamilies) names.push_back(family.name);
  return names;
}

}  // namespace locant

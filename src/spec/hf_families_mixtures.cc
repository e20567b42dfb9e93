// SPDX-License-Identifier: Apache-2.0
// Decoders whose mlp is a mixture of experts (Shazeer et al. 2017) under rotations of whole heads. Those with
// latent attention stand in hf_families_latent.cc, Llama 4 in hf_families_layered.cc.
#include <algorithm>
#include <array>
#include <cmath>

#include "locant/core.h"
#include "spec/hf_experts.h"
#include "spec/hf_granite.h"
#include "spec/hf_layers.h"

namespace locant {
namespace {

using namespace std::string_view_literals;

void rotate_every_layer(Config& config, ModelSpec& spec, const HfFamily& family) {
  set_rotations(config, spec, family, uniform_layers(spec, "full_attention"));
}

void window_every_layer(Config& config, ModelSpec& spec) {
  const bool windowed = config.integer({"sliding_window"}, 0).value_or(0) > 0;
  set_windows(config, spec, uniform_layers(spec, windowed ? "sliding_attention" : "full_attention"));
}

void finish_mixtral(Config& config, ModelSpec& spec, const HfFamily& family) {
  window_every_layer(config, spec);
  rotate_every_layer(config, spec, family);
  read_experts(config, spec, {.count_otherwise = 8, .chosen_otherwise = 2});
  spec.experts.normalised = true;
}

void finish_gpt_oss(Config& config, ModelSpec& spec, const HfFamily& family) {
  const LayerTypes types = read_layer_types(config, spec, {.period = 2});
  set_windows(config, spec, types);
  set_rotations(config, spec, family, types);
  for (AttentionSpec& attention : spec.attention) attention.sinks = true;
  read_experts(config, spec, {.count_otherwise = 128, .chosen_otherwise = 4});
  spec.experts.router = RouterScore::softmax_chosen;
  spec.experts.bias = true;
  spec.experts.router_bias = true;
  spec.mlp.activation = Activation::clamped_swiglu;  // whatever hidden_act says
  spec.mlp.limit = config.number({"swiglu_limit"}).value_or(7);
  if (!(spec.mlp.limit > 0)) config.fail("swiglu_limit", "a number above 0");
  config.require("swiglu_alpha", 1.702, "the gate of this family has that slope");
}

// mlp_only_layers and every decoder_sparse_step-th layer.
void keep_sparse_layers(Config& config, ModelSpec& spec) {
  const std::int64_t step = config.integer({"decoder_sparse_step"}, 1).value_or(1);
  const std::vector<double> dense = config.numbers({"mlp_only_layers"});
  keep_experts_where(spec, [&](std::int64_t layer) {
    const bool named = std::find(dense.begin(), dense.end(), static_cast<double>(layer)) != dense.end();
    return !named && (layer + 1) % step == 0;
  });
}

// sliding_window counts only beside use_sliding_window, in every second of the first max_window_layers.
LayerTypes qwen2_moe_types(Config& config, const ModelSpec& spec) {
  const bool windowed = config.flag({"use_sliding_window"}).value_or(false);
  const std::int64_t most = config.integer({"max_window_layers"}, 0).value_or(28);
  LayerTypes types = read_layer_types(config, spec);
  if (config.has("layer_types") || !windowed) return types;
  for (std::int64_t layer = 0; layer < std::min(spec.layers, most); layer += 2) {
    types[static_cast<std::size_t>(layer)] = "sliding_attention";
  }
  return types;
}

void finish_qwen2_moe(Config& config, ModelSpec& spec, const HfFamily& family) {
  const LayerTypes types = qwen2_moe_types(config, spec);
  set_windows(config, spec, types);
  set_rotations(config, spec, family, types);
  const bool biased = config.flag({"qkv_bias"}).value_or(true);
  spec.block.biases = {.q = biased, .k = biased, .v = biased};
  read_experts(config, spec,
               {.count_otherwise = 60,
                .chosen_otherwise = 4,
                .width = {"moe_intermediate_size"},
                .width_otherwise = 1408});
  spec.experts.normalised = config.flag({"norm_topk_prob"}).value_or(false);
  spec.experts.shared_width = config.integer({"shared_expert_intermediate_size"}, 1).value_or(5632);
  spec.experts.shared_gate = true;
  keep_sparse_layers(config, spec);
}

void finish_qwen3_moe(Config& config, ModelSpec& spec, const HfFamily& family) {
  rotate_every_layer(config, spec, family);
  if (config.flag({"use_sliding_window"}).value_or(false)) {
    set_windows(config, spec, uniform_layers(spec, "sliding_attention"));
  } else {
    (void)config.present({"sliding_window"});
  }
  config.ignore(std::array{"max_window_layers"sv});
  spec.block.qk_norm.norm.eps = spec.norm.eps;
  read_experts(config, spec,
               {.count_otherwise = 128,
                .chosen_otherwise = 8,
                .width = {"moe_intermediate_size"},
                .width_otherwise = 768});
  spec.experts.normalised = config.flag({"norm_topk_prob"}).value_or(false);
  keep_sparse_layers(config, spec);
}

// Queries and keys are normed over all heads, then held.
void finish_olmoe(Config& config, ModelSpec& spec, const HfFamily& family) {
  rotate_every_layer(config, spec, family);
  spec.block.qk_norm.norm.eps = spec.norm.eps;
  spec.block.clip_qkv = config.number({"clip_qkv"}).value_or(0);
  read_experts(config, spec, {.count_otherwise = 64, .chosen_otherwise = 8});
  spec.experts.normalised = config.flag({"norm_topk_prob"}).value_or(false);
}

void finish_granitemoe(Config& config, ModelSpec& spec, const HfFamily& family) {
  finish_granite(config, spec, family);
  read_experts(config, spec, {.count = {"num_local_experts"}, .count_otherwise = 8, .chosen_otherwise = 2});
  spec.experts.router = RouterScore::softmax_chosen;
}

void finish_ernie4_5_moe(Config& config, ModelSpec& spec, const HfFamily& family) {
  rotate_every_layer(config, spec, family);
  read_experts(config, spec,
               {.count = {"moe_num_experts", "num_experts"},
                .count_otherwise = 64,
                .chosen = {"moe_k", "num_experts_per_tok"},
                .chosen_otherwise = 6,
                .width = {"moe_intermediate_size"},
                .width_otherwise = 1536});
  spec.experts.correction = true;
  spec.experts.normalised = true;
  read_shared_experts(config, spec, {"moe_num_shared_experts"}, 2);
  const std::int64_t first = config.integer({"moe_layer_start_index"}, 0).value_or(1);
  const std::int64_t end = config.integer({"moe_layer_end_index"}, -1).value_or(-1);
  const std::int64_t last = end == -1 ? spec.layers - 1 : end;
  const std::int64_t step = config.integer({"moe_layer_interval"}, 1).value_or(1);
  keep_experts_where(
      spec, [&](std::int64_t layer) { return (layer + 1) % step == 0 && layer >= first && layer <= last; });
  if (config.tolerant()) return;
  config.require("use_bias", false, "biases of this family's layers are not read");
  config.require("moe_gate", "topk", "the largest scores choose the experts");
}

void finish_glm4_moe(Config& config, ModelSpec& spec, const HfFamily& family) {
  rotate_every_layer(config, spec, family);
  spec.block.biases.out = false;  // attention_bias speaks of q, k and v
  if (config.flag({"use_qk_norm"}).value_or(false)) {
    spec.block.qk_norm = {.kind = QkNorm::head, .norm = {.kind = NormKind::rms, .eps = spec.norm.eps}};
  }
  read_sigmoid_experts(config, spec,
                       {.count = {"n_routed_experts", "num_local_experts"},
                        .count_otherwise = 128,
                        .chosen_otherwise = 8,
                        .width = {"moe_intermediate_size"},
                        .width_otherwise = 1408});
  spec.experts.scale = config.number({"routed_scaling_factor"}).value_or(1);
  read_shared_experts(config, spec, {"n_shared_experts"}, 1);
  keep_experts_behind_dense_layers(config, spec, 1);
}

// Sorted. Losses of training, noise on a router in training, layers that guess ahead.
constexpr std::array kIgnored = {"attention_dropout"sv,        "num_mtp_layers"sv,
                                 "num_nextn_predict_layers"sv, "output_router_logits"sv,
                                 "router_aux_loss_coef"sv,     "router_jitter_noise"sv};
constexpr std::array kErnieIgnored = {"moe_capacity"sv, "moe_norm_min"sv, "moe_use_aux_free"sv,
                                      "output_router_logits"sv, "router_aux_loss_coef"sv};
// Left by OpenAI's own configs.
constexpr std::array kGptOssIgnored = {"attention_dropout"sv, "experts_per_token"sv,
                                       "initial_context_length"sv, "output_router_logits"sv,
                                       "router_aux_loss_coef"sv};

const HfKeys kKeys = {.vocab = {"vocab_size"},
                      .hidden = {"hidden_size"},
                      .layers = {"num_hidden_layers"},
                      .heads = {"num_attention_heads"},
                      .kv_heads = {"num_key_value_heads"},
                      .head_dim = {"head_dim"},
                      .mlp_width = {"intermediate_size"},
                      .activation = {"hidden_act"},
                      .norm_eps = {"rms_norm_eps"},
                      .length = {"max_position_embeddings"}};

const RopeStyle kHalf{};
const RopeStyle kInterleaved{.pairing = "interleaved"};
const RopeStyle kPartial{.partial = true};

struct Options {
  Biases attention_bias = Biases::never;
  RopeStyle rope = kHalf;
  std::span<const std::string_view> ignored = kIgnored;
};

HfFamily mixture(std::string_view name, decltype(HfFamily::finish) finish, const Options& options = {}) {
  return {.name = name,
          .keys = &kKeys,
          .mlp_factor = 0,
          .attention_bias = options.attention_bias,
          .mlp_bias = Biases::never,
          .rope = options.rope,
          .finish = finish,
          .runs = true,
          .ignored = options.ignored};
}

const std::array kFamilies = {
    mixture("ernie4_5_moe", finish_ernie4_5_moe, {.rope = kInterleaved, .ignored = kErnieIgnored}),
    mixture("glm4_moe", finish_glm4_moe, {.attention_bias = Biases::by_key, .rope = kPartial}),
    mixture("gpt_oss", finish_gpt_oss, {.attention_bias = Biases::by_key, .ignored = kGptOssIgnored}),
    mixture("granitemoe", finish_granitemoe, {.attention_bias = Biases::by_key}),
    mixture("mixtral", finish_mixtral),
    mixture("olmoe", finish_olmoe, {.attention_bias = Biases::by_key}),
    mixture("qwen2_moe", finish_qwen2_moe),
    mixture("qwen3_moe", finish_qwen3_moe, {.attention_bias = Biases::by_key}),
};

}  // namespace

std::span<const HfFamily> mixture_families() noexcept {
  return kFamilies;
}

}  // namespace locant

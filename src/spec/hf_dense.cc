// SPDX-License-Identifier: Apache-2.0
#include "spec/hf_dense.h"

#include <array>

#include "spec/config_rules.h"

namespace locant {
namespace {

using namespace std::string_view_literals;

// Sorted.
constexpr std::array kIgnored = {"activation_dropout"sv,
                                 "attention_dropout"sv,
                                 "attention_softmax_in_fp32"sv,
                                 "attn_pdrop"sv,
                                 "cache_implementation"sv,
                                 "classifier_dropout"sv,
                                 "dropout"sv,
                                 "emb_pdrop"sv,
                                 "embd_pdrop"sv,
                                 "embed_dropout"sv,
                                 "embedding_dropout"sv,
                                 "hidden_dropout"sv,
                                 "init_config"sv,
                                 "init_device"sv,
                                 "init_std"sv,
                                 "layerdrop"sv,
                                 "n_ctx"sv,
                                 "pretraining_tp"sv,
                                 "resid_dropout"sv,
                                 "resid_pdrop"sv,
                                 "residual_dropout"sv,
                                 "summary_activation"sv,
                                 "summary_first_dropout"sv,
                                 "summary_proj_to_labels"sv,
                                 "summary_type"sv,
                                 "summary_use_proj"sv};

void rotate(Config& config, ModelSpec& spec, const HfFamily& family) {
  set_rotations(config, spec, family, uniform_layers(spec, "full_attention"));
}

HfKeys acting(const Keys& activation) {
  HfKeys keys = shared_keys();
  keys.activation = activation;
  return keys;
}

// One layer norm for all heads, with gain and bias.
QkNormSpec head_layer_norm() {
  return {.kind = QkNorm::head, .norm = {.kind = NormKind::layer}};
}

}  // namespace

std::span<const std::string_view> dense_ignored() noexcept {
  return kIgnored;
}

const HfKeys& hidden_act_keys() noexcept {
  static const HfKeys kKeys = acting(Keys{"hidden_act"});
  return kKeys;
}

const HfKeys& hidden_activation_keys() noexcept {
  static const HfKeys kKeys = acting(Keys{"hidden_activation"});
  return kKeys;
}

HfFamily runs(HfFamily family) {
  family.runs = true;
  family.ignored = kIgnored;
  return family;
}

HfFamily runs_biased(HfFamily family) {
  family.attention_bias = Biases::always;
  family.mlp_bias = Biases::always;
  return runs(family);
}

void offset_gains(ModelSpec& spec) {
  spec.norm.gain_offset = 1;
  spec.block.qk_norm.norm.gain_offset = 1;
}

void unbias_output(ModelSpec& spec) {
  spec.block.biases.out = false;
}

void read_clip(Config& config, ModelSpec& spec) {
  const auto clip = config.number({"clip_qkv"});
  if (!clip) return;
  if (*clip <= 0) config.refuse("clip_qkv", "a number above 0");
  spec.block.clip_qkv = *clip;
}

void read_parallel_residual(Config& config, ModelSpec& spec, Branches when_true, bool by_default) {
  spec.block.branches =
      config.flag({"use_parallel_residual"}).value_or(by_default) ? when_true : Branches::serial;
}

void read_qk_norm(Config& config, ModelSpec& spec, std::string_view key, const QkNormSpec& norm) {
  if (config.flag({key}).value_or(false)) spec.block.qk_norm = norm;
}

void demand_rotary_dim(Config& config) {
  if (config.mentions({"rotary_dim"}) && config.present({"rotary_dim"}).empty())
    config.refuse("rotary_dim", "a whole number (without one the rotation is built for the hidden size)");
}

void finish_codegen(Config& config, ModelSpec& spec, const HfFamily& family) {
  demand_rotary_dim(config);
  constexpr std::int64_t kQuarters = 4;  // of the fused projection
  if (family.name == "codegen" && spec.heads % kQuarters != 0)
    config.refuse(config.present(family.keys->heads),
                  "a multiple of 4, the family's projection has four parts");
  rotate(config, spec, family);
  // Scores are scaled and heads rotate whatever these say.
  config.ignore(std::array{"scale_attn_weights"sv, "rotary"sv, "rotary_dim"sv});
  spec.head.bias = true;
}

void finish_ernie(Config& config, ModelSpec& spec, const HfFamily& family) {
  rotate(config, spec, family);
  const bool biased = config.flag({"use_bias"}).value_or(false);
  if (biased) spec.block.biases = ProjectionBiases::all();
  spec.mlp.bias = biased;
}

void finish_glm(Config& config, ModelSpec& spec, const HfFamily& family) {
  rotate(config, spec, family);
  unbias_output(spec);
}

void finish_helium(Config& config, ModelSpec& spec, const HfFamily& family) {
  rotate(config, spec, family);
  unbias_output(spec);
}

void finish_neox(Config& config, ModelSpec& spec, const HfFamily& family) {
  rotate(config, spec, family);
  read_parallel_residual(config, spec, Branches::parallel, true);
}

void finish_nemotron(Config& config, ModelSpec& spec, const HfFamily& family) {
  rotate(config, spec, family);
  spec.norm.gain_offset = 1;
}

void finish_olmo(Config& config, ModelSpec& spec, const HfFamily& family) {
  rotate(config, spec, family);
  spec.norm.gain = false;
  spec.norm.bias = false;
  read_clip(config, spec);
}

void finish_persimmon(Config& config, ModelSpec& spec, const HfFamily& family) {
  rotate(config, spec, family);
  if (config.flag({"qk_layernorm"}).value_or(true)) spec.block.qk_norm = head_layer_norm();
}

void finish_phi(Config& config, ModelSpec& spec, const HfFamily& family) {
  rotate(config, spec, family);
  read_qk_norm(config, spec, "qk_layernorm", head_layer_norm());
  // Beside the fraction that counts; and the layers have biases whatever a config says.
  config.ignore(std::array{"rotary_dim"sv, "attention_bias"sv});
  spec.head.bias = true;
}

void finish_seed_oss(Config& config, ModelSpec& spec, const HfFamily& family) {
  rotate(config, spec, family);
  spec.block.biases.out = config.flag({"attention_out_bias"}).value_or(false);
}

void finish_stablelm(Config& config, ModelSpec& spec, const HfFamily& family) {
  rotate(config, spec, family);
  const bool biased = config.flag({"use_qkv_bias"}).value_or(false);
  spec.block.biases = {.q = biased, .k = biased, .v = biased};
  read_parallel_residual(config, spec, Branches::shared_norm, false);
  read_qk_norm(config, spec, "qk_layernorm",
               {.kind = QkNorm::own_heads, .norm = {.kind = NormKind::layer, .bias = false}});
}

// The 40B architecture has a norm for each branch or, as the 11B, one; the 7B one shares its norm.
void read_falcon_block(Config& config, ModelSpec& spec) {
  const bool grouped = config.flag({"new_decoder_architecture"}).value_or(false);
  const bool parallel = config.flag({"parallel_attn"}).value_or(true);
  const std::int64_t norms = config.integer({"num_ln_in_parallel_attn"}, 1).value_or(grouped ? 2 : 1);
  if (grouped && !parallel)
    config.refuse("parallel_attn", "true beside new_decoder_architecture (its layers are parallel)");
  if (norms > 2 || (norms == 2 && !grouped))
    config.refuse("num_ln_in_parallel_attn", "1, or 2 beside new_decoder_architecture");
  spec.block.branches = !parallel    ? Branches::serial
                        : norms == 2 ? Branches::parallel
                                     : Branches::shared_norm;
  if (!grouped) spec.kv_heads = config.flag({"multi_query"}).value_or(true) ? 1 : spec.heads;
  const bool biased = config.flag({"bias"}).value_or(false);
  if (biased) spec.block.biases = ProjectionBiases::all();
  spec.mlp.bias = biased;
  // The first configs carry BLOOM's keys; the class reads neither.
  config.ignore(std::array{"apply_residual_connection_post_layernorm"sv, "multi_query"sv});
}

// transformers 5 adds ALiBi of bias_max 8 to every MPT; what another config asks for is not what it computes.
void read_mpt_block(Config& config, std::optional<Config>& attention, ModelSpec& spec) {
  spec.mlp.activation = Activation::gelu_erf;
  spec.norm.bias = false;
  config.require("no_bias", true, "the layers of this family have no biases");
  config.require("logit_scale", nullptr, "transformers 5 does not scale the logits of this family");
  config.require("embedding_fraction", 1.0, "gradients alone read it");
  config.ignore(
      std::array{"norm_type"sv, "verbose"sv, "max_seq_len"sv, "learned_pos_emb"sv, "tokenizer_name"sv});
  if (!attention) return;
  read_clip(*attention, spec);
  attention->require("qk_ln", false, "transformers 5 does not norm queries and keys of this family");
  attention->require("prefix_lm", false, "this family is causal");
  attention->require("attn_type", "multihead_attention", "each head has keys of its own");
  if (attention->tolerant()) return;
  attention->require("alibi", true, "transformers 5 computes no other for this family");
  attention->require("alibi_bias_max", 8, "transformers 5 computes no other for this family");
  attention->require("rope", false, "transformers 5 computes no other for this family");
  attention->require("sliding_window_size", -1, "this family has no window");
}

void read_opt_block(Config& config, ModelSpec& spec) {
  const bool before = config.flag({"do_layer_norm_before"}).value_or(true);
  if (!before) {
    spec.block.attention = {.before = false, .sum = true};
    spec.block.mlp = {.before = false, .sum = true};
  }
  const bool removed = config.flag({"_remove_final_layer_norm"}).value_or(false);
  spec.block.final_norm = before && !removed;
  const bool biased = config.flag({"enable_bias"}).value_or(true);
  spec.block.biases = biased ? ProjectionBiases::all() : ProjectionBiases{};
  spec.mlp.bias = biased;
  const bool affine = config.flag({"layer_norm_elementwise_affine"}).value_or(true);
  spec.norm.gain = affine;
  spec.norm.bias = affine;
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// The tables of all kinds put together. A new family is one row in the table of its kind.
#include <algorithm>
#include <array>

#include "spec/hf_family.h"

namespace locant {
namespace {

std::array<std::span<const HfFamily>, 9> tables() noexcept {
  return {run_families(),     rope_families(),    layered_families(),
          latent_families(),  mixture_families(), absolute_families(),
          encoder_families(), bias_families(),    encoder_decoder_families()};
}

// Outer and inner names of one model, and classes that read alike.
constexpr std::array kAliases = {
    HfAlias{"axk1", "deepseek_v3"},
    HfAlias{"axk2", "deepseek_v3"},
    HfAlias{"clap", "clap_text_model"},
    HfAlias{"cohere2_moe", "cohere2"},
    HfAlias{"deepseek_v32", "deepseek_v3"},
    HfAlias{"exaone4_5", "exaone4"},
    HfAlias{"florence2", "bart"},
    HfAlias{"gemma3", "gemma3_text", true},
    HfAlias{"gemma3n", "gemma3n_text"},
    HfAlias{"gemma4", "gemma4_text"},
    HfAlias{"gemma4_unified_text", "gemma4_text"},
    HfAlias{"glm4_moe_lite", "deepseek_v3"},
    HfAlias{"glm4v", "glm4v_text"},
    HfAlias{"granitemoe_swa", "granite_swa"},
    HfAlias{"granitemoeshared", "granitemoe"},
    HfAlias{"hunyuan", "hunyuan_v1_moe"},
    HfAlias{"kimi_k2", "deepseek_v3"},
    HfAlias{"kimi_k25", "deepseek_v3"},
    HfAlias{"kimi_k3", "kimi_linear"},
    HfAlias{"llama4", "llama4_text"},
    HfAlias{"minimax_m3", "minimax_m3_vl_text"},
    HfAlias{"minimax_m3_vl", "minimax_m3_vl_text"},
    HfAlias{"mistral3", "mistral", true},
    HfAlias{"mllama", "mllama_text_model"},
    HfAlias{"qwen2_5_vl", "qwen2_5_vl_text"},
    HfAlias{"qwen2_vl", "qwen2_vl_text"},
    HfAlias{"qwen3_5", "qwen3_5_text"},
    HfAlias{"qwen3_5_moe", "qwen3_5_moe_text"},
    HfAlias{"qwen3_vl", "qwen3_vl_text"},
    HfAlias{"qwen3_vl_moe", "qwen3_vl_moe_text"},
    HfAlias{"sarvam_mla", "deepseek_v3"},
    HfAlias{"step3p7", "step3p5"},
    HfAlias{"vaultgemma", "gemma2"},
    HfAlias{"xlm-roberta-xl", "xlm-roberta"},
    HfAlias{"youtu", "deepseek_v3"},
};

const HfFamily* find_row(std::string_view name) noexcept {
  for (const std::span<const HfFamily> table : tables()) {
    for (const HfFamily& family : table) {
      if (family.name == name) return &family;
    }
  }
  return nullptr;
}

}  // namespace

std::span<const HfAlias> hf_aliases() noexcept {
  return kAliases;
}

const HfKeys& shared_keys() noexcept {
  static const HfKeys kShared = {
      .vocab = {"vocab_size", "padded_vocab_size", "n_token"},
      .hidden = {"hidden_size", "n_embd", "d_model", "dim", "n_embed"},
      .layers = {"num_hidden_layers", "n_layer", "num_layers", "n_layers"},
      .heads = {"num_attention_heads", "n_head", "num_heads", "n_heads", "attention_heads"},
      .kv_heads = {"num_key_value_heads", "num_kv_heads"},
      .head_dim = {"head_dim", "attention_head_dim", "attention_head_size", "d_head", "dim_head",
                   "kv_channels"},
      .mlp_width = {"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "d_ff", "hidden_dim", "dff",
                    "d_inner"},
      .activation = {"hidden_act", "hidden_activation", "activation_function", "activation", "ff_activation",
                     "mlp_hidden_act"},
      .norm_eps = {"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps",
                   "layernorm_epsilon"},
      .length = {"max_position_embeddings", "n_positions", "max_seq_len"}};
  return kShared;
}

const HfFamily* find_family(std::string_view name) noexcept {
  if (name.empty()) return nullptr;
  if (const HfFamily* const row = find_row(name)) return row;
  for (const HfAlias& alias : kAliases) {
    if (alias.name == name) return find_row(alias.row);
  }
  return nullptr;
}

std::vector<std::string_view> families() {
  std::vector<std::string_view> names;
  for (const std::span<const HfFamily> table : tables()) {
    for (const HfFamily& family : table) names.push_back(family.name);
  }
  for (const HfAlias& alias : kAliases) names.push_back(alias.name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// The rows, named as transformers' save_pretrained writes them.
#include "model/family.h"

#include "locant/model.h"

namespace locant {
namespace {

using namespace std::string_view_literals;

// Causal masks and rotary tables that earlier versions saved beside the weights.
constexpr std::array kGpt2Buffers = {".attn.bias"sv, ".attn.masked_bias"sv};
constexpr std::array kLlamaBuffers = {".rotary_emb.inv_freq"sv};
constexpr std::array kXglmBuffers = {"embed_positions.weights"sv};

constexpr std::array kRows = {
    FamilyWeights{.family = "bloom",
                  .prefixes = {"transformer.", ""},
                  .embedding = "word_embeddings",
                  .positions = "",
                  .embedding_norm = "word_embeddings_layernorm",
                  .final_norm = "ln_f",
                  .head = "lm_head",
                  .layers = "h.",
                  .attention_norm = "input_layernorm",
                  .qkv_layout = QkvLayout::per_head,
                  .qkv = {"self_attention.query_key_value", "", ""},
                  .attention_out = "self_attention.dense",
                  .mlp_norm = "post_attention_layernorm",
                  .gate = "",
                  .up = "mlp.dense_h_to_4h",
                  .down = "mlp.dense_4h_to_h",
                  .linear = LinearLayout::out_in,
                  .not_weights = {}},
    FamilyWeights{.family = "gpt2",
                  .prefixes = {"transformer.", ""},
                  .embedding = "wte",
                  .positions = "wpe",
                  .embedding_norm = "",
                  .final_norm = "ln_f",
                  .head = "lm_head",
                  .layers = "h.",
                  .attention_norm = "ln_1",
                  .qkv_layout = QkvLayout::thirds,
                  .qkv = {"attn.c_attn", "", ""},
                  .attention_out = "attn.c_proj",
                  .mlp_norm = "ln_2",
                  .gate = "",
                  .up = "mlp.c_fc",
                  .down = "mlp.c_proj",
                  .linear = LinearLayout::in_out,
                  .not_weights = kGpt2Buffers},
    FamilyWeights{.family = "llama",
                  .prefixes = {"model.", ""},
                  .embedding = "embed_tokens",
                  .positions = "",
                  .embedding_norm = "",
                  .final_norm = "norm",
                  .head = "lm_head",
                  .layers = "layers.",
                  .attention_norm = "input_layernorm",
                  .qkv_layout = QkvLayout::separate,
                  .qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
                  .attention_out = "self_attn.o_proj",
                  .mlp_norm = "post_attention_layernorm",
                  .gate = "mlp.gate_proj",
                  .up = "mlp.up_proj",
                  .down = "mlp.down_proj",
                  .linear = LinearLayout::out_in,
                  .not_weights = kLlamaBuffers},
    FamilyWeights{.family = "xglm",
                  .prefixes = {"model.", ""},
                  .embedding = "embed_tokens",
                  .positions = "",
                  .embedding_norm = "",
                  .final_norm = "layer_norm",
                  .head = "lm_head",
                  .layers = "layers.",
                  .attention_norm = "self_attn_layer_norm",
                  .qkv_layout = QkvLayout::separate,
                  .qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
                  .attention_out = "self_attn.out_proj",
                  .mlp_norm = "final_layer_norm",
                  .gate = "",
                  .up = "fc1",
                  .down = "fc2",
                  .linear = LinearLayout::out_in,
                  .not_weights = kXglmBuffers},
};

}  // namespace

const FamilyWeights* find_family_weights(std::string_view family) noexcept {
  for (const FamilyWeights& row : kRows) {
    if (row.family == family) return &row;
  }
  return nullptr;
}

std::vector<std::string_view> runnable_families() {
  std::vector<std::string_view> names;
  names.reserve(kRows.size());
  for (const FamilyWeights& row : kRows) names.push_back(row.family);
  return names;
}

}  // namespace locant

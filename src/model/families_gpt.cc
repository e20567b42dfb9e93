// SPDX-License-Identifier: Apache-2.0
// Decoders of GPT-2's line and others that name their weights in their own way.
#include <array>

#include "model/family.h"

namespace locant {
namespace {

using namespace std::string_view_literals;

// Causal masks and rotary tables that earlier versions saved beside the weights.
constexpr std::array kBuffers = {".attn.bias"sv,           ".attn.masked_bias"sv,
                                 ".attn.causal_mask"sv,    ".attn.attention.bias"sv,
                                 ".attention.bias"sv,      ".attn.attention.masked_bias"sv,
                                 ".rotary_emb.inv_freq"sv, ".attention.masked_bias"sv};
constexpr std::array kXglmBuffers = {"embed_positions.weights"sv};

constexpr FamilyWeights kGpt{.family = "gpt2",
                             .prefixes = {"transformer.", ""},
                             .embedding = "wte",
                             .positions = "wpe",
                             .final_norm = "ln_f",
                             .head = "lm_head",
                             .layers = "h.",
                             .attention_norm = "ln_1",
                             .qkv_layout = QkvLayout::thirds,
                             .qkv = {"attn.c_attn", "", ""},
                             .attention_out = "attn.c_proj",
                             .mlp_norm = "ln_2",
                             .up = "mlp.c_fc",
                             .down = "mlp.c_proj",
                             .linear = LinearLayout::in_out,
                             .not_weights = kBuffers};

constexpr FamilyWeights kBloom{.family = "bloom",
                               .prefixes = {"transformer.", ""},
                               .embedding = "word_embeddings",
                               .embedding_norm = "word_embeddings_layernorm",
                               .final_norm = "ln_f",
                               .head = "lm_head",
                               .layers = "h.",
                               .attention_norm = "input_layernorm",
                               .qkv_layout = QkvLayout::per_head,
                               .qkv = {"self_attention.query_key_value", "", ""},
                               .attention_out = "self_attention.dense",
                               .mlp_norm = "post_attention_layernorm",
                               .up = "mlp.dense_h_to_4h",
                               .down = "mlp.dense_4h_to_h",
                               .not_weights = kBuffers};

// Its one kv head or each of its heads: a group either way.
constexpr FamilyWeights gpt_bigcode() {
  FamilyWeights row = kGpt;
  row.family = "gpt_bigcode";
  row.qkv_layout = QkvLayout::groups;
  row.linear = LinearLayout::out_in;
  return row;
}

constexpr FamilyWeights gpt_neo() {
  FamilyWeights row = kGpt;
  row.family = "gpt_neo";
  row.qkv_layout = QkvLayout::separate;
  row.qkv = {"attn.attention.q_proj", "attn.attention.k_proj", "attn.attention.v_proj"};
  row.attention_out = "attn.attention.out_proj";
  row.linear = LinearLayout::out_in;
  return row;
}

constexpr FamilyWeights gptj() {
  FamilyWeights row = gpt_neo();
  row.family = "gptj";
  row.positions = "";
  row.qkv = {"attn.q_proj", "attn.k_proj", "attn.v_proj"};
  row.attention_out = "attn.out_proj";
  row.mlp_norm = "";
  row.up = "mlp.fc_in";
  row.down = "mlp.fc_out";
  return row;
}

constexpr FamilyWeights codegen() {
  FamilyWeights row = gptj();
  row.family = "codegen";
  row.qkv_layout = QkvLayout::quarters;
  row.qkv = {"attn.qkv_proj", "", ""};
  return row;
}

constexpr FamilyWeights falcon() {
  FamilyWeights row = kBloom;
  row.family = "falcon";
  row.embedding_norm = "";
  row.qkv_layout = QkvLayout::groups;
  row.attention_norm = "ln_attn|input_layernorm";
  row.mlp_norm = "ln_mlp|post_attention_layernorm";
  return row;
}

constexpr FamilyWeights gpt_neox() {
  FamilyWeights row = kBloom;
  row.family = "gpt_neox";
  row.prefixes = {"gpt_neox.", ""};
  row.embedding = "embed_in";
  row.embedding_norm = "";
  row.final_norm = "final_layer_norm";
  row.head = "embed_out|lm_head";
  row.layers = "layers.";
  row.qkv = {"attention.query_key_value", "", ""};
  row.attention_out = "attention.dense";
  return row;
}

constexpr FamilyWeights kXglm{.family = "xglm",
                              .prefixes = {"model.", ""},
                              .embedding = "embed_tokens",
                              .final_norm = "layer_norm",
                              .head = "lm_head",
                              .layers = "layers.",
                              .attention_norm = "self_attn_layer_norm",
                              .qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
                              .attention_out = "self_attn.out_proj",
                              .mlp_norm = "final_layer_norm",
                              .up = "fc1",
                              .down = "fc2",
                              .not_weights = kXglmBuffers};

// The norms of a layer stand before its branches or, in the 350M one, behind the sums.
constexpr FamilyWeights opt() {
  FamilyWeights row = kXglm;
  row.family = "opt";
  row.prefixes = {"model.decoder.", "decoder."};
  row.positions = "embed_positions";
  row.embedding_in = "project_in";
  row.embedding_out = "project_out";
  row.final_norm = "final_layer_norm";
  row.attention_sum = row.attention_norm;
  row.mlp_sum = row.mlp_norm;
  return row;
}

constexpr std::array kRows = {
    kBloom,
    codegen(),
    FamilyWeights{.family = "ctrl",
                  .prefixes = {"transformer.", ""},
                  .embedding = "w",
                  .final_norm = "layernorm",
                  .head = "lm_head",
                  .layers = "h.",
                  .attention_norm = "layernorm1",
                  .qkv = {"multi_head_attention.Wq", "multi_head_attention.Wk", "multi_head_attention.Wv"},
                  .attention_out = "multi_head_attention.dense",
                  .mlp_norm = "layernorm2",
                  .up = "ffn.0",
                  .down = "ffn.2"},
    falcon(),
    kGpt,
    gpt_bigcode(),
    gpt_neo(),
    gpt_neox(),
    gptj(),
    FamilyWeights{.family = "mpt",
                  .prefixes = {"transformer.", ""},
                  .embedding = "wte",
                  .final_norm = "norm_f",
                  .head = "lm_head",
                  .layers = "blocks.",
                  .attention_norm = "norm_1",
                  .qkv_layout = QkvLayout::thirds,
                  .qkv = {"attn.Wqkv", "", ""},
                  .attention_out = "attn.out_proj",
                  .mlp_norm = "norm_2",
                  .up = "ffn.up_proj",
                  .down = "ffn.down_proj"},
    opt(),
    kXglm,
};

}  // namespace

std::span<const FamilyWeights> gpt_like_weights() noexcept {
  return kRows;
}

}  // namespace locant

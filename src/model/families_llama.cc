// SPDX-License-Identifier: Apache-2.0
// Decoders named as Llama is: what a family changes of that.
#include <array>

#include "model/family.h"

namespace locant {
namespace {

using namespace std::string_view_literals;

// Rotary tables that earlier versions saved beside the weights.
constexpr std::array kBuffers = {".rotary_emb.inv_freq"sv};
constexpr std::array kTowers = {"vision_tower."sv, "multi_modal_projector."sv, "model.vision_tower."sv,
                                "model.multi_modal_projector."sv};

constexpr FamilyWeights kLlama{.family = "llama",
                               .prefixes = {"model.", ""},
                               .embedding = "embed_tokens",
                               .final_norm = "norm",
                               .head = "lm_head",
                               .layers = "layers.",
                               .attention_norm = "input_layernorm",
                               .qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
                               .attention_out = "self_attn.o_proj",
                               .mlp_norm = "post_attention_layernorm",
                               .gate = "mlp.gate_proj",
                               .up = "mlp.up_proj",
                               .down = "mlp.down_proj",
                               .not_weights = kBuffers};

constexpr FamilyWeights named(FamilyWeights row, std::string_view family) {
  row.family = family;
  return row;
}

constexpr FamilyWeights with_qk_norm(FamilyWeights row, std::string_view q, std::string_view k) {
  row.q_norm = q;
  row.k_norm = k;
  return row;
}

constexpr FamilyWeights with_qk_norm(const FamilyWeights& row) {
  return with_qk_norm(row, "self_attn.q_norm", "self_attn.k_norm");
}

// What a branch gives is normed and what it reads is not.
constexpr FamilyWeights normed_after(FamilyWeights row) {
  row.attention_norm = "";
  row.attention_after = "post_attention_layernorm";
  row.mlp_norm = "";
  row.mlp_after = "post_feedforward_layernorm";
  return row;
}

constexpr FamilyWeights gemma2() {
  FamilyWeights row = normed_after(kLlama);
  row.attention_norm = "input_layernorm";
  row.mlp_norm = "pre_feedforward_layernorm";
  return row;
}

constexpr FamilyWeights fused_gate(FamilyWeights row) {
  row.gate = "";
  row.up = "mlp.gate_up_proj";
  row.gates = GateLayout::gate_first;
  return row;
}

constexpr FamilyWeights glm4() {
  FamilyWeights row = fused_gate(kLlama);
  row.attention_after = "post_self_attn_layernorm";
  row.mlp_after = "post_mlp_layernorm";
  return row;
}

constexpr FamilyWeights phi3() {
  FamilyWeights row = fused_gate(kLlama);
  row.qkv_layout = QkvLayout::thirds;
  row.qkv = {"self_attn.qkv_proj", "", ""};
  return row;
}

constexpr FamilyWeights ungated(FamilyWeights row) {
  row.gate = "";
  return row;
}

constexpr FamilyWeights starcoder2() {
  FamilyWeights row = ungated(kLlama);
  row.up = "mlp.c_fc";
  row.down = "mlp.c_proj";
  return row;
}

constexpr FamilyWeights without_mlp_norm(FamilyWeights row) {
  row.mlp_norm = "";
  return row;
}

constexpr FamilyWeights phi() {
  FamilyWeights row = without_mlp_norm(ungated(kLlama));
  row.final_norm = "final_layernorm";
  row.attention_out = "self_attn.dense";
  row.up = "mlp.fc1";
  row.down = "mlp.fc2";
  return with_qk_norm(row, "self_attn.q_layernorm", "self_attn.k_layernorm");
}

constexpr FamilyWeights persimmon() {
  FamilyWeights row = ungated(kLlama);
  row.final_norm = "final_layernorm";
  row.qkv_layout = QkvLayout::per_head;
  row.qkv = {"self_attn.query_key_value", "", ""};
  row.attention_out = "self_attn.dense";
  row.up = "mlp.dense_h_to_4h";
  row.down = "mlp.dense_4h_to_h";
  return with_qk_norm(row, "self_attn.q_layernorm", "self_attn.k_layernorm");
}

// The text model inside one that sees.
constexpr FamilyWeights inside(FamilyWeights row) {
  row.prefixes = {"language_model.model.", "model.language_model."};
  row.head = "lm_head|language_model.lm_head";
  row.not_ours = kTowers;
  return row;
}

constexpr std::array kRows = {
    ungated(named(kLlama, "arcee")),
    with_qk_norm(without_mlp_norm(named(kLlama, "cohere"))),
    without_mlp_norm(named(kLlama, "cohere2")),
    named(kLlama, "ernie4_5"),
    with_qk_norm(normed_after(named(kLlama, "exaone4"))),
    named(kLlama, "gemma"),
    named(gemma2(), "gemma2"),
    inside(with_qk_norm(named(gemma2(), "gemma3"))),
    with_qk_norm(named(gemma2(), "gemma3_text")),
    fused_gate(named(kLlama, "glm")),
    named(glm4(), "glm4"),
    named(kLlama, "granite"),
    named(kLlama, "helium"),
    with_qk_norm(named(kLlama, "hunyuan_v1_dense"), "self_attn.query_layernorm", "self_attn.key_layernorm"),
    kLlama,
    named(kLlama, "ministral"),
    named(kLlama, "ministral3"),
    named(kLlama, "mistral"),
    inside(named(kLlama, "mistral3")),
    ungated(named(kLlama, "nemotron")),
    named(kLlama, "olmo"),
    with_qk_norm(normed_after(named(kLlama, "olmo2"))),
    with_qk_norm(normed_after(named(kLlama, "olmo3"))),
    named(persimmon(), "persimmon"),
    named(phi(), "phi"),
    named(phi3(), "phi3"),
    named(kLlama, "qwen2"),
    with_qk_norm(named(kLlama, "qwen3")),
    named(kLlama, "seed_oss"),
    named(kLlama, "smollm3"),
    with_qk_norm(named(kLlama, "stablelm"), "self_attn.q_layernorm.norms.{}",
                 "self_attn.k_layernorm.norms.{}"),
    named(starcoder2(), "starcoder2"),
};

}  // namespace

std::span<const FamilyWeights> llama_like_weights() noexcept {
  return kRows;
}

}  // namespace locant

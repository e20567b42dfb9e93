// SPDX-License-Identifier: Apache-2.0
// Rows of mixtures of experts, named as published checkpoints and transformers' save_pretrained have them.
#include <array>

#include "model/family.h"

namespace locant {
namespace {

using namespace std::string_view_literals;

constexpr std::array kBuffers = {".rotary_emb.inv_freq"sv};

constexpr FamilyWeights decoder(std::string_view family) {
  return {.family = family,
          .prefixes = {"model.", ""},
          .embedding = "embed_tokens",
          .final_norm = "norm",
          .head = "lm_head",
          .layers = "layers.",
          .attention_norm = "input_layernorm",
          .qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
          .q_norm = "self_attn.q_norm",
          .k_norm = "self_attn.k_norm",
          .attention_out = "self_attn.o_proj",
          .mlp_norm = "post_attention_layernorm",
          .gate = "mlp.gate_proj",
          .up = "mlp.up_proj",
          .down = "mlp.down_proj",
          .not_weights = kBuffers};
}

// One tensor for each expert and matrix, as most checkpoints have them.
constexpr ExpertNames experts(std::string_view shared = {}) {
  return {.router = "mlp.gate",
          .correction = "mlp.gate.e_score_correction_bias",
          .experts = "mlp.experts.",
          .gate = "gate_proj",
          .up = "up_proj",
          .down = "down_proj",
          .shared = shared,
          .shared_gate_name = "mlp.shared_expert_gate",
          .shared_parts = {"gate_proj", "up_proj", "down_proj"}};
}

constexpr FamilyWeights mixture(std::string_view family, const ExpertNames& names) {
  FamilyWeights row = decoder(family);
  row.experts = names;
  return row;
}

constexpr FamilyWeights latent(std::string_view family) {
  FamilyWeights row = mixture(family, experts("mlp.shared_experts."));
  row.qkv = {};
  row.latent = {.q = "self_attn.q_proj",
                .q_down = "self_attn.q_a_proj",
                .q_norm = "self_attn.q_a_layernorm",
                .q_up = "self_attn.q_b_proj",
                .kv_down = "self_attn.kv_a_proj_with_mqa",
                .kv_norm = "self_attn.kv_a_layernorm",
                .kv_up = "self_attn.kv_b_proj"};
  return row;
}

constexpr FamilyWeights guessing_ahead(FamilyWeights row) {
  row.guesses_ahead = true;
  return row;
}

constexpr FamilyWeights ernie() {
  FamilyWeights row = mixture("ernie4_5_moe", experts("mlp.shared_experts."));
  row.experts.correction = "mlp.moe_statics.e_score_correction_bias";
  return row;
}

constexpr FamilyWeights gpt_oss() {
  FamilyWeights row = mixture("gpt_oss", {.router = "mlp.router",
                                          .experts = "mlp.experts.",
                                          .up = "gate_up_proj",
                                          .down = "down_proj",
                                          .gates = GateLayout::interleaved,
                                          .layout = ExpertLayout::stacked_in_out,
                                          .weight_ending = "",
                                          .bias_ending = "_bias"});
  row.sinks = "self_attn.sinks";
  return row;
}

constexpr FamilyWeights llama4() {
  FamilyWeights row = mixture("llama4_text", {.router = "feed_forward.router",
                                              .experts = "feed_forward.experts.",
                                              .up = "gate_up_proj",
                                              .down = "down_proj",
                                              .gates = GateLayout::gate_first,
                                              .layout = ExpertLayout::stacked_in_out,
                                              .weight_ending = "",
                                              .shared = "feed_forward.shared_expert.",
                                              .shared_parts = {"gate_proj", "up_proj", "down_proj"}});
  row.gate = "feed_forward.gate_proj";
  row.up = "feed_forward.up_proj";
  row.down = "feed_forward.down_proj";
  return row;
}

constexpr std::array kRows = {
    latent("deepseek_v2"),
    guessing_ahead(latent("deepseek_v3")),
    ernie(),
    guessing_ahead(mixture("glm4_moe", experts("mlp.shared_experts."))),
    gpt_oss(),
    mixture("granitemoe", {.router = "block_sparse_moe.router.layer",
                           .experts = "block_sparse_moe.",
                           .up = "input_linear",
                           .down = "output_linear",
                           .gates = GateLayout::gate_first,
                           .layout = ExpertLayout::stacked}),
    llama4(),
    mixture("mixtral", {.router = "block_sparse_moe.gate",
                        .experts = "block_sparse_moe.experts.",
                        .gate = "w1",
                        .up = "w3",
                        .down = "w2"}),
    mixture("olmoe", experts()),
    mixture("qwen2_moe", experts("mlp.shared_expert.")),
    mixture("qwen3_moe", experts()),
};

}  // namespace

std::span<const FamilyWeights> mixture_weights() noexcept {
  return kRows;
}

}  // namespace locant

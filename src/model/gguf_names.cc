// SPDX-License-Identifier: Apache-2.0
// What a file fuses and which norm serves whom is read off its tensors. Names: MODEL_TENSORS and TENSOR_NAMES
// of the gguf package, https://github.com/ggml-org/llama.cpp/blob/master/gguf-py/gguf/constants.py
#include "model/gguf_names.h"

#include <fmt/format.h>

#include <array>
#include <string>

namespace locant {
namespace {

using namespace std::string_view_literals;

// Divisors of a rotation, which the spec has read, and the classifiers on top of encoders.
constexpr std::array kNotWeights = {"rope_freqs.weight"sv, "rope_factors_long.weight"sv,
                                    "rope_factors_short.weight"sv};
constexpr std::array kNotWeightsOfEncoders = {"rope_freqs.weight"sv, "cls.weight"sv,      "cls.bias"sv,
                                              "cls.output.weight"sv, "cls.output.bias"sv, "cls.norm.weight"sv,
                                              "cls.norm.bias"sv};

constexpr ExpertNames kExperts{.router = "ffn_gate_inp",
                               .correction = "exp_probs_b.bias",
                               .experts = "",
                               .gate = "ffn_gate_exps",
                               .up = "ffn_up_exps",
                               .down = "ffn_down_exps",
                               .layout = ExpertLayout::stacked,
                               .shared = "",
                               .shared_gate_name = "ffn_gate_inp_shexp",
                               .shared_parts = {"ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"}};

constexpr LatentNames kLatent{.q = "attn_q",
                              .q_down = "attn_q_a",
                              .q_norm = "attn_q_a_norm",
                              .q_up = "attn_q_b",
                              .kv_down = "attn_kv_a_mqa",
                              .kv_norm = "attn_kv_a_norm",
                              .kv_up = "attn_kv_b",
                              .k_up = "attn_k_b",
                              .v_up = "attn_v_b"};

constexpr FamilyWeights kNames{.family = "gguf",
                               .prefixes = {"", ""},
                               .embedding = "token_embd",
                               .positions = "position_embd",
                               .token_types = "token_types",
                               .embedding_norm = "token_embd_norm",
                               .final_norm = "output_norm",
                               .head = "output",
                               .layers = "blk.",
                               .attention_norm = "attn_norm",
                               .attention_after = "post_attention_norm",
                               .attention_sum = "attn_output_norm",
                               .qkv = {"attn_q", "attn_k", "attn_v"},
                               .q_norm = "attn_q_norm",
                               .k_norm = "attn_k_norm",
                               .attention_out = "attn_output",
                               .sinks = "attn_sinks.weight",
                               .latent = kLatent,
                               .mlp_norm = "ffn_norm",
                               .mlp_after = "post_ffw_norm",
                               .mlp_sum = "layer_output_norm",
                               .gate = "ffn_gate",
                               .up = "ffn_up",
                               .down = "ffn_down",
                               .experts = kExperts,
                               .relative = "attn_rel_b",
                               .not_weights = kNotWeights};

class Tensors {
 public:
  Tensors(const GgufFile& file, std::string_view at, std::int64_t layers)
      : file_(file), at_(at), layers_(layers) {}
  /// The first layer's that has one.
  [[nodiscard]] const GgufTensor* first(std::string_view name) const {
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
      if (const GgufTensor* const found = file_.find(fmt::format("{}{}.{}.weight", at_, layer, name)))
        return found;
    }
    return nullptr;
  }
  [[nodiscard]] bool some(std::string_view name) const { return first(name) != nullptr; }

 private:
  const GgufFile& file_;
  std::string_view at_;
  std::int64_t layers_;
};

void name_stacks(std::string_view architecture, FamilyWeights& names) {
  if (architecture != "t5" && architecture != "t5encoder") return;
  names.attention_out = "attn_o";
  if (architecture == "t5encoder") {
    names.layers = "enc.blk.";
    names.final_norm = "enc.output_norm";
    return;
  }
  names.encoder = "enc.";
  names.decoder = "dec.";
  names.cross = {"cross_attn_q", "cross_attn_k", "cross_attn_v", "cross_attn_o"};
  names.cross_norm = "cross_attn_norm";
}

void name_norms(const Tensors& tensors, const ModelSpec& spec, FamilyWeights& names) {
  // Falcon with a norm for each branch: the plain one is the mlp's.
  if (tensors.some("attn_norm_2") && spec.block.branches == Branches::parallel) {
    names.attention_norm = "attn_norm_2";
    names.mlp_norm = "attn_norm";
    return;
  }
  if (spec.block.mlp.before && !spec.block.attention.after && !tensors.some("ffn_norm"))
    names.mlp_norm = "post_attention_norm";
  if (spec.block.attention.before && tensors.some("attn_output_norm")) {
    names.attention_after = "attn_output_norm";
    names.mlp_after = "layer_output_norm";
  }
}

bool holds_gate_and_up(const GgufTensor* up, const GgufTensor* down) {
  if (up == nullptr || down == nullptr || up->shape.size() < 2 || down->shape.size() != up->shape.size())
    return false;
  return up->shape[up->shape.size() - 2] == 2 * down->shape.back();
}

void name_fused(const Tensors& tensors, FamilyWeights& names) {
  if (tensors.some("attn_qkv")) {
    names.qkv_layout = QkvLayout::thirds;
    names.qkv = {"attn_qkv", "", ""};
  }
  if (!tensors.some("ffn_gate") && holds_gate_and_up(tensors.first("ffn_up"), tensors.first("ffn_down"))) {
    names.gate = "";
    names.gates = GateLayout::gate_first;
  }
  if (tensors.some("ffn_gate_up_exps")) {
    names.experts.gate = "";
    names.experts.up = "ffn_gate_up_exps";
    names.experts.gates = GateLayout::gate_first;
  }
  if (tensors.some("attn_k_b")) names.latent.kv_up = "";
}

}  // namespace

FamilyWeights gguf_names(const GgufFile& file, const ModelSpec& spec) {
  FamilyWeights names = kNames;
  names.family = spec.family;
  name_stacks(file.value("general.architecture").as_string(), names);
  const std::string at = std::string(names.decoder) + std::string(names.layers);
  const Tensors tensors(file, at, spec.layers);
  name_norms(tensors, spec, names);
  name_fused(tensors, names);
  if (spec.head.masked) names.not_weights = kNotWeightsOfEncoders;
  return names;
}

}  // namespace locant

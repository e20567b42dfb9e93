// SPDX-License-Identifier: Apache-2.0
// Rows of decoders beside encoders. Copies of the shared table under other names, and sinusoids that a class
// computes anew, are passed over.
#include <array>

#include "model/family.h"

namespace locant {
namespace {

using namespace std::string_view_literals;

constexpr std::array kCopies = {"encoder.embed_tokens.weight"sv, "decoder.embed_tokens.weight"sv};
constexpr std::array kCopiesAndSinusoids = {"encoder.embed_tokens.weight"sv, "decoder.embed_tokens.weight"sv,
                                            "embed_positions.weight"sv, "embed_positions.weights"sv};

constexpr FamilyWeights bart(std::string_view family) {
  return {
      .family = family,
      .prefixes = {"model.", ""},
      .embedding = "shared",
      .positions = "embed_positions",
      .embedding_norm = "layernorm_embedding",
      .final_norm = "layer_norm",
      .head = "lm_head",
      .head_bias = "final_logits_bias",
      .layers = "layers.",
      .attention_norm = "self_attn_layer_norm",
      .attention_sum = "self_attn_layer_norm",
      .qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
      .attention_out = "self_attn.out_proj",
      .mlp_norm = "final_layer_norm",
      .mlp_sum = "final_layer_norm",
      .up = "fc1",
      .down = "fc2",
      .encoder = "encoder.",
      .decoder = "decoder.",
      .cross = {"encoder_attn.q_proj", "encoder_attn.k_proj", "encoder_attn.v_proj", "encoder_attn.out_proj"},
      .cross_norm = "encoder_attn_layer_norm",
      .not_weights = kCopies};
}

constexpr FamilyWeights sinusoidal(std::string_view family) {
  FamilyWeights row = bart(family);
  row.positions = "";
  row.not_weights = kCopiesAndSinusoids;
  return row;
}

constexpr FamilyWeights t5(std::string_view family) {
  return {.family = family,
          .prefixes = {"", ""},
          .embedding = "shared",
          .final_norm = "final_layer_norm",
          .head = "lm_head",
          .layers = "block.",
          .attention_norm = "layer.0.layer_norm",
          .qkv = {"layer.0.SelfAttention.q", "layer.0.SelfAttention.k", "layer.0.SelfAttention.v"},
          .attention_out = "layer.0.SelfAttention.o",
          .mlp_norm = "layer.2.layer_norm",
          .gate = "layer.2.DenseReluDense.wi_0",
          .up = "layer.2.DenseReluDense.wi_1|layer.2.DenseReluDense.wi",
          .down = "layer.2.DenseReluDense.wo",
          .relative = "layer.0.SelfAttention.relative_attention_bias",
          .encoder = "encoder.",
          .decoder = "decoder.",
          .cross = {"layer.1.EncDecAttention.q", "layer.1.EncDecAttention.k", "layer.1.EncDecAttention.v",
                    "layer.1.EncDecAttention.o"},
          .cross_norm = "layer.1.layer_norm",
          .encoder_mlp_norm = "layer.1.layer_norm",
          .encoder_gate = "layer.1.DenseReluDense.wi_0",
          .encoder_up = "layer.1.DenseReluDense.wi_1|layer.1.DenseReluDense.wi",
          .encoder_down = "layer.1.DenseReluDense.wo",
          .not_weights = kCopies};
}

constexpr std::array kRows = {
    bart("bart"), sinusoidal("m2m_100"), sinusoidal("marian"), bart("mbart"), t5("mt5"), t5("t5")};

}  // namespace

std::span<const FamilyWeights> encoder_decoder_weights() noexcept {
  return kRows;
}

}  // namespace locant

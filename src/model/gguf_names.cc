// SPDX-License-Identifier: Apache-2.0
#include "model/gguf_names.h"

#include <array>

namespace locant {
namespace {

using namespace std::string_view_literals;

// Divisors of a rotation, which the spec has read.
constexpr std::array kNotWeights = {"rope_freqs.weight"sv, "rope_factors_long.weight"sv,
                                    "rope_factors_short.weight"sv};

}  // namespace

FamilyWeights gguf_names(const GgufFile& file, const ModelSpec& spec) {
  FamilyWeights names{.family = spec.family,
                      .prefixes = {"", ""},
                      .embedding = "token_embd",
                      .positions = "position_embd",
                      .token_types = "token_types",
                      .embedding_norm = "token_embd_norm",
                      .final_norm = "output_norm",
                      .head = "output",
                      .layers = "blk.",
                      .attention_norm = "attn_norm",
                      .qkv = {"attn_q", "attn_k", "attn_v"},
                      .attention_out = "attn_output",
                      .mlp_norm = "ffn_norm",
                      .gate = "ffn_gate",
                      .up = "ffn_up",
                      .down = "ffn_down",
                      .not_weights = kNotWeights};
  if (file.find("blk.0.attn_qkv.weight") != nullptr) {
    names.qkv_layout = QkvLayout::thirds;
    names.qkv = {"attn_qkv", "", ""};
  }
  return names;
}

}  // namespace locant

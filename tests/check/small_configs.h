// SPDX-License-Identifier: Apache-2.0
// Configs of small models that several tests of the checker put faults into.
#pragma once

#include <nlohmann/json.hpp>

namespace locant::tests {

inline nlohmann::json partial() {
  return {{"model_type", "gpt_neox"},       {"vocab_size", 97},         {"hidden_size", 48},
          {"num_hidden_layers", 2},         {"num_attention_heads", 3}, {"intermediate_size", 24},
          {"max_position_embeddings", 512}, {"rotary_pct", 0.5},        {"rotary_emb_base", 20000},
          {"tie_word_embeddings", false}};
}

inline nlohmann::json bloom() {
  return {{"model_type", "bloom"}, {"vocab_size", 97}, {"hidden_size", 48}, {"n_layer", 2}, {"n_head", 6}};
}

inline nlohmann::json opt() {
  return {{"model_type", "opt"},
          {"vocab_size", 97},
          {"hidden_size", 40},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"ffn_dim", 24},
          {"max_position_embeddings", 64},
          {"word_embed_proj_dim", 40},
          {"do_layer_norm_before", true},
          {"pad_token_id", 1}};
}

}  // namespace locant::tests

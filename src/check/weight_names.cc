// SPDX-License-Identifier: Apache-2.0
// Names of transformers' modules beside those of GGUF, as of its converter (gguf-py/gguf/tensor_mapping.py).
#include "check/weight_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace locant::check_room {
namespace {

using namespace std::string_view_literals;
using Row = std::pair<std::string_view, std::string_view>;

// Of a layer. post_attention_layernorm is decided by what stands beside it.
constexpr std::array kLayer = {
    // llama and the many that follow it
    Row{"input_layernorm", "attn_norm"},
    Row{"self_attn.q_proj", "attn_q"},
    Row{"self_attn.k_proj", "attn_k"},
    Row{"self_attn.v_proj", "attn_v"},
    Row{"self_attn.qkv_proj", "attn_qkv"},
    Row{"self_attn.W_pack", "attn_qkv"},
    Row{"self_attn.o_proj", "attn_output"},
    Row{"self_attn.out_proj", "attn_output"},
    Row{"self_attn.dense", "attn_output"},
    Row{"self_attn.q_norm", "attn_q_norm"},
    Row{"self_attn.k_norm", "attn_k_norm"},
    Row{"self_attn.q_layernorm", "attn_q_norm"},
    Row{"self_attn.k_layernorm", "attn_k_norm"},
    Row{"self_attn.query_layernorm", "attn_q_norm"},
    Row{"self_attn.key_layernorm", "attn_k_norm"},
    Row{"self_attn.sinks", "attn_sinks"},
    Row{"pre_feedforward_layernorm", "ffn_norm"},
    Row{"post_feedforward_layernorm", "post_ffw_norm"},
    Row{"post_self_attn_layernorm", "post_attention_norm"},
    Row{"post_mlp_layernorm", "post_ffw_norm"},
    Row{"mlp.gate_proj", "ffn_gate"},
    Row{"mlp.up_proj", "ffn_up"},
    Row{"mlp.down_proj", "ffn_down"},
    Row{"mlp.gate_up_proj", "ffn_up"},
    Row{"mlp.fc1", "ffn_up"},
    Row{"mlp.fc2", "ffn_down"},
    Row{"mlp.gate", "ffn_gate_inp"},
    Row{"block_sparse_moe.gate", "ffn_gate_inp"},
    // latent attention
    Row{"self_attn.q_a_proj", "attn_q_a"},
    Row{"self_attn.q_a_layernorm", "attn_q_a_norm"},
    Row{"self_attn.q_b_proj", "attn_q_b"},
    Row{"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
    Row{"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
    // gpt2, starcoder
    Row{"ln_1", "attn_norm"},
    Row{"ln_2", "ffn_norm"},
    Row{"attn.c_attn", "attn_qkv"},
    Row{"attn.c_proj", "attn_output"},
    Row{"mlp.c_fc", "ffn_up"},
    Row{"mlp.c_proj", "ffn_down"},
    // gptj
    Row{"attn.q_proj", "attn_q"},
    Row{"attn.k_proj", "attn_k"},
    Row{"attn.v_proj", "attn_v"},
    Row{"mlp.fc_in", "ffn_up"},
    Row{"mlp.fc_out", "ffn_down"},
    // mpt
    Row{"norm_1", "attn_norm"},
    Row{"norm_2", "ffn_norm"},
    Row{"attn.Wqkv", "attn_qkv"},
    Row{"attn.out_proj", "attn_output"},
    Row{"ffn.up_proj", "ffn_up"},
    Row{"ffn.down_proj", "ffn_down"},
    // bloom, falcon, gpt_neox
    Row{"self_attention.query_key_value", "attn_qkv"},
    Row{"self_attention.dense", "attn_output"},
    Row{"attention.query_key_value", "attn_qkv"},
    Row{"attention.dense", "attn_output"},
    Row{"mlp.dense_h_to_4h", "ffn_up"},
    Row{"mlp.dense_4h_to_h", "ffn_down"},
    Row{"ln_mlp", "attn_norm"},
    Row{"ln_attn", "attn_norm_2"},
    // opt, xglm
    Row{"self_attn_layer_norm", "attn_norm"},
    Row{"final_layer_norm", "ffn_norm"},
    Row{"fc1", "ffn_up"},
    Row{"fc2", "ffn_down"},
    // bert
    Row{"attention.self.query", "attn_q"},
    Row{"attention.self.key", "attn_k"},
    Row{"attention.self.value", "attn_v"},
    Row{"attention.output.dense", "attn_output"},
    Row{"attention.output.LayerNorm", "attn_output_norm"},
    Row{"intermediate.dense", "ffn_up"},
    Row{"output.dense", "ffn_down"},
    Row{"output.LayerNorm", "layer_output_norm"},
    // Meta's own names, and internlm2
    Row{"attention_norm", "attn_norm"},
    Row{"ffn_norm", "ffn_norm"},
    Row{"attention.wq", "attn_q"},
    Row{"attention.wk", "attn_k"},
    Row{"attention.wv", "attn_v"},
    Row{"attention.wo", "attn_output"},
    Row{"attention.wqkv", "attn_qkv"},
    Row{"feed_forward.w1", "ffn_gate"},
    Row{"feed_forward.w2", "ffn_down"},
    Row{"feed_forward.w3", "ffn_up"},
};

constexpr std::array kOutside = {
    Row{"embed_tokens", "token_embd"},
    Row{"wte", "token_embd"},
    Row{"word_embeddings", "token_embd"},
    Row{"embed_in", "token_embd"},
    Row{"tok_embeddings", "token_embd"},
    Row{"embeddings.word_embeddings", "token_embd"},
    Row{"wpe", "position_embd"},
    Row{"embed_positions", "position_embd"},
    Row{"embeddings.position_embeddings", "position_embd"},
    Row{"embeddings.token_type_embeddings", "token_types"},
    Row{"embeddings.LayerNorm", "token_embd_norm"},
    Row{"word_embeddings_layernorm", "token_embd_norm"},
    Row{"norm", "output_norm"},
    Row{"ln_f", "output_norm"},
    Row{"norm_f", "output_norm"},
    Row{"final_layernorm", "output_norm"},
    Row{"final_layer_norm", "output_norm"},
    Row{"layer_norm", "output_norm"},
    Row{"lm_head", "output"},
    Row{"embed_out", "output"},
    Row{"output", "output"},
};

// What stands before these names and before the layers; vision towers and second stacks stand elsewhere.
constexpr std::array kPrefixes = {
    "model.language_model."sv,
    "language_model.model."sv,
    "model.decoder."sv,
    "bert."sv,
    "roberta."sv,
    "transformer."sv,
    "gpt_neox."sv,
    "model."sv,
    "decoder."sv,
    ""sv,
};
constexpr std::array kLayerWords = {"layers."sv, "h."sv, "blocks."sv, "encoder.layer."sv, "blk."sv};

constexpr std::array kNoWeights = {
    ".attn.bias"sv,          ".attn.masked_bias"sv, ".attention.bias"sv, ".attention.masked_bias"sv,
    "rotary_emb.inv_freq"sv, "position_ids"sv,      "token_type_ids"sv,
};
constexpr std::array kGgufNoWeights = {"rope_freqs.weight"sv, "rope_factors_long.weight"sv,
                                       "rope_factors_short.weight"sv};

constexpr std::array kAddOne = {
    "gemma"sv,      "gemma2"sv,  "gemma3"sv,       "gemma3_text"sv, "recurrent_gemma"sv,  "nemotron"sv,
    "qwen3_next"sv, "qwen3_5"sv, "qwen3_5_text"sv, "qwen3_5_moe"sv, "qwen3_5_moe_text"sv,
};

template <std::size_t N>
std::optional<std::string_view> role_in(const std::array<Row, N>& rows, std::string_view module) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.first == module; });
  if (found == rows.end()) return std::nullopt;
  return found->second;
}

/// "self_attn.q_proj.bias" as module and ending.
std::pair<std::string_view, std::string_view> split_ending(std::string_view name) {
  for (const std::string_view ending : {"weight"sv, "bias"sv}) {
    if (name.size() > ending.size() + 1 && name.ends_with(ending) &&
        name[name.size() - ending.size() - 1] == '.')
      return {name.substr(0, name.size() - ending.size() - 1), ending};
  }
  return {name, {}};
}

bool is_prefix(std::string_view text) {
  return std::find(kPrefixes.begin(), kPrefixes.end(), text) != kPrefixes.end();
}

std::optional<Place> placed(std::string_view name, bool norm_is_of_attention) {
  if (const auto at = layered(name)) {
    if (!is_prefix(at->before)) return std::nullopt;
    const auto [module, ending] = split_ending(at->behind);
    std::optional<std::string_view> role = role_in(kLayer, module);
    if (module == "post_attention_layernorm")
      role = norm_is_of_attention ? "post_attention_norm" : "ffn_norm";
    if (!role) return std::nullopt;
    return Place{std::string(*role), std::string(ending), at->layer};
  }
  const auto [module, ending] = split_ending(name);
  for (const std::string_view prefix : kPrefixes) {
    if (!module.starts_with(prefix)) continue;
    const auto role = role_in(kOutside, module.substr(prefix.size()));
    if (role) return Place{std::string(*role), std::string(ending), -1};
  }
  return std::nullopt;
}

}  // namespace

std::string Place::text() const {
  const std::string_view dot = ending.empty() ? "" : ".";
  if (layer < 0) return fmt::format("{}{}{}", role, dot, ending);
  return fmt::format("blk.{}.{}{}{}", layer, role, dot, ending);
}

std::optional<Layered> layered(std::string_view name) {
  for (const std::string_view word : kLayerWords) {
    for (std::size_t at = name.find(word); at != std::string_view::npos; at = name.find(word, at + 1)) {
      if (at > 0 && name[at - 1] != '.') continue;
      const std::string_view rest = name.substr(at + word.size());
      std::int64_t layer = -1;
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), layer);
      if (error != std::errc() || layer < 0 || end == rest.data() + rest.size() || *end != '.') continue;
      return Layered{name.substr(0, at), layer, rest.substr(static_cast<std::size_t>(end - rest.data()) + 1)};
    }
  }
  return std::nullopt;
}

std::optional<Place> place_in_gguf(std::string_view name) {
  if (const auto at = layered(name)) {
    if (!at->before.empty()) return std::nullopt;
    const auto [module, ending] = split_ending(at->behind);
    return Place{std::string(module), std::string(ending), at->layer};
  }
  const auto [module, ending] = split_ending(name);
  return Place{std::string(module), std::string(ending), -1};
}

std::vector<std::optional<Place>> places_in_checkpoint(const std::vector<std::string_view>& all) {
  const auto any = [&](std::string_view word) {
    return std::any_of(all.begin(), all.end(),
                       [&](std::string_view name) { return name.find(word) != std::string_view::npos; });
  };
  // a norm before the MLP leaves the name to one behind attention, and so does a layer without a first norm
  const bool of_attention = any(".pre_feedforward_layernorm.") ||
                            (any(".post_feedforward_layernorm.") && !any(".input_layernorm."));
  std::vector<std::optional<Place>> places;
  places.reserve(all.size());
  for (const std::string_view name : all) places.push_back(placed(name, of_attention));
  return places;
}

bool is_no_weight(std::string_view name) {
  const auto ends = [&](std::string_view ending) { return name.ends_with(ending); };
  return std::any_of(kNoWeights.begin(), kNoWeights.end(), ends) ||
         std::find(kGgufNoWeights.begin(), kGgufNoWeights.end(), name) != kGgufNoWeights.end();
}

bool adds_one_to_norms(std::string_view family) {
  return std::find(kAddOne.begin(), kAddOne.end(), family) != kAddOne.end();
}

}  // namespace locant::check_room

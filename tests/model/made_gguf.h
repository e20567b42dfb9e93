// SPDX-License-Identifier: Apache-2.0
// Tiny GGUF models that run, one for each kind of block: their keys and tensors lie open, to be changed.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "formats/gguf_writer.h"

namespace locant::tests {

struct Place {
  std::vector<std::int64_t> shape;  ///< rows first
  GgmlType type = GgmlType::f32;
};

struct MadeGguf {
  std::string architecture;
  std::map<std::string, GgufStored> keys{};
  std::map<std::string, Place> tensors{};

  MadeGguf& key(const std::string& name, GgufStored value) {
    const bool whole = name.starts_with("general.") || name.starts_with("tokenizer.");
    keys.insert_or_assign(whole ? name : architecture + "." + name, std::move(value));
    return *this;
  }
  MadeGguf& tensor(const std::string& name, std::vector<std::int64_t> shape, GgmlType type = GgmlType::f32) {
    tensors[name] = {std::move(shape), type};
    return *this;
  }
  /// A weight and its bias.
  MadeGguf& both(const std::string& name, const std::vector<std::int64_t>& shape) {
    return tensor(name + ".weight", shape).tensor(name + ".bias", {shape.front()});
  }
  /// The file; f32 tensors hold noise, others zeros.
  [[nodiscard]] std::string bytes() const {
    GgufModel model;
    for (const auto& [name, value] : keys) model.set(name, value);
    std::mt19937 random(11);
    std::uniform_real_distribution<float> noise(-0.5F, 0.5F);
    for (const auto& [name, place] : tensors) {
      if (place.type != GgmlType::f32) {
        model.zeros(name, place.shape, place.type);
        continue;
      }
      std::size_t size = 1;
      for (const std::int64_t extent : place.shape) size *= static_cast<std::size_t>(extent);
      std::vector<float> values(size);
      for (float& value : values) value = noise(random);
      model.values(name, place.shape, values);
    }
    return model.bytes();
  }
};

/// 2 layers of 4 heads of 8 in 32, an mlp of 64, 40 tokens.
inline MadeGguf made_base(const std::string& architecture) {
  MadeGguf made{.architecture = architecture};
  made.key("general.architecture", architecture)
      .key("context_length", 64)
      .key("embedding_length", 32)
      .key("block_count", 2)
      .key("feed_forward_length", 64)
      .key("attention.head_count", 4)
      .key("attention.layer_norm_epsilon", 1e-5)
      .key("attention.layer_norm_rms_epsilon", 1e-5)
      .tensor("token_embd.weight", {40, 32});
  return made;
}

inline std::string layer_at(std::int64_t layer) {
  return "blk." + std::to_string(layer) + ".";
}

inline void add_gated(MadeGguf& made, const std::string& at, GgmlType type) {
  made.tensor(at + "ffn_norm.weight", {32})
      .tensor(at + "ffn_gate.weight", {64, 32}, type)
      .tensor(at + "ffn_up.weight", {64, 32}, type)
      .tensor(at + "ffn_down.weight", {32, 64}, type);
}

/// 2 heads of keys; matrices of `type`.
inline MadeGguf made_llama(GgmlType type = GgmlType::f32) {
  MadeGguf made = made_base("llama");
  made.key("attention.head_count_kv", 2)
      .key("rope.dimension_count", 8)
      .key("rope.freq_base", 50000.0)
      .key("vocab_size", 40)
      .tensor("output_norm.weight", {32})
      .tensor("output.weight", {40, 32}, type);
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    const std::string at = layer_at(layer);
    made.tensor(at + "attn_norm.weight", {32})
        .tensor(at + "attn_q.weight", {32, 32}, type)
        .tensor(at + "attn_k.weight", {16, 32}, type)
        .tensor(at + "attn_v.weight", {16, 32}, type)
        .tensor(at + "attn_output.weight", {32, 32}, type);
    add_gated(made, at, type);
  }
  return made;
}

inline void add_experts(MadeGguf& made, const std::string& at) {
  made.tensor(at + "ffn_gate_inp.weight", {4, 32})
      .tensor(at + "ffn_gate_exps.weight", {4, 48, 32})
      .tensor(at + "ffn_up_exps.weight", {4, 48, 32})
      .tensor(at + "ffn_down_exps.weight", {4, 32, 48});
}

/// 2 of 4 experts of 48.
inline MadeGguf made_mixture() {
  MadeGguf made = made_llama();
  made.key("expert_count", 4).key("expert_used_count", 2);
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    const std::string at = layer_at(layer);
    for (const char* const part : {"ffn_gate", "ffn_up", "ffn_down"})
      made.tensors.erase(at + part + ".weight");
    add_experts(made, at);
  }
  return made;
}

/// Ranks of 16, heads of 8 channels and 4 that rotate; one dense layer, then 2 groups of experts.
inline MadeGguf made_latent() {
  MadeGguf made = made_base("deepseek2");
  made.key("attention.head_count_kv", 4)
      .key("attention.q_lora_rank", 16)
      .key("attention.kv_lora_rank", 16)
      .key("attention.key_length", 12)
      .key("attention.value_length", 8)
      .key("rope.dimension_count", 4)
      .key("rope.freq_base", 10000.0)
      .key("expert_count", 4)
      .key("expert_used_count", 2)
      .key("expert_feed_forward_length", 48)
      .key("expert_shared_count", 1)
      .key("expert_group_count", 2)
      .key("expert_group_used_count", 1)
      .key("expert_gating_func", 2)
      .key("expert_weights_scale", 2.5)
      .key("leading_dense_block_count", 1)
      .tensor("output_norm.weight", {32})
      .tensor("output.weight", {40, 32});
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    const std::string at = layer_at(layer);
    made.tensor(at + "attn_norm.weight", {32})
        .tensor(at + "attn_q_a.weight", {16, 32})
        .tensor(at + "attn_q_a_norm.weight", {16})
        .tensor(at + "attn_q_b.weight", {48, 16})
        .tensor(at + "attn_kv_a_mqa.weight", {20, 32})
        .tensor(at + "attn_kv_a_norm.weight", {16})
        .tensor(at + "attn_kv_b.weight", {64, 16})
        .tensor(at + "attn_output.weight", {32, 32});
  }
  add_gated(made, layer_at(0), GgmlType::f32);
  const std::string at = layer_at(1);
  add_experts(made, at);
  made.tensor(at + "ffn_norm.weight", {32})
      .tensor(at + "exp_probs_b.bias", {4})
      .tensor(at + "ffn_gate_shexp.weight", {48, 32})
      .tensor(at + "ffn_up_shexp.weight", {48, 32})
      .tensor(at + "ffn_down_shexp.weight", {32, 48});
  return made;
}

/// Fused heads and biases; a table of positions (gpt2) or slopes (bloom).
inline MadeGguf made_gpt(const std::string& architecture) {
  MadeGguf made = made_base(architecture);
  made.both("output_norm", {32});
  if (architecture == "gpt2") made.tensor("position_embd.weight", {64, 32});
  if (architecture == "bloom") made.both("token_embd_norm", {32});
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    const std::string at = layer_at(layer);
    made.both(at + "attn_norm", {32})
        .both(at + "attn_qkv", {96, 32})
        .both(at + "attn_output", {32, 32})
        .both(at + "ffn_norm", {32})
        .both(at + "ffn_up", {64, 32})
        .both(at + "ffn_down", {32, 64});
  }
  return made;
}

inline MadeGguf made_bert() {
  MadeGguf made = made_base("bert");
  made.key("attention.causal", false)
      .key("tokenizer.ggml.token_type_count", 2)
      .tensor("token_types.weight", {2, 32})
      .tensor("position_embd.weight", {64, 32})
      .both("token_embd_norm", {32});
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    const std::string at = layer_at(layer);
    made.both(at + "attn_q", {32, 32})
        .both(at + "attn_k", {32, 32})
        .both(at + "attn_v", {32, 32})
        .both(at + "attn_output", {32, 32})
        .both(at + "attn_output_norm", {32})
        .both(at + "ffn_up", {64, 32})
        .both(at + "ffn_down", {32, 64})
        .both(at + "layer_output_norm", {32});
  }
  return made;
}

/// 2 layers of an encoder, 2 of a decoder; buckets in each first layer.
inline MadeGguf made_t5() {
  MadeGguf made = made_base("t5");
  made.key("attention.key_length", 8)
      .key("attention.value_length", 8)
      .key("attention.relative_buckets_count", 8)
      .key("decoder_block_count", 2)
      .key("decoder_start_token_id", 0)
      .tensor("output.weight", {40, 32});
  for (const std::string side : {"enc.", "dec."}) {
    made.tensor(side + "output_norm.weight", {32});
    for (std::int64_t layer = 0; layer < 2; ++layer) {
      const std::string at = side + layer_at(layer);
      for (const std::string block : {"attn_", "cross_attn_"}) {
        if (side == "enc." && block == "cross_attn_") continue;
        made.tensor(at + block + "norm.weight", {32});
        for (const char* const part : {"q", "k", "v", "o"})
          made.tensor(at + block + part + ".weight", {32, 32});
      }
      if (layer == 0) made.tensor(at + "attn_rel_b.weight", {8, 4});
      made.tensor(at + "ffn_norm.weight", {32})
          .tensor(at + "ffn_up.weight", {64, 32})
          .tensor(at + "ffn_down.weight", {32, 64});
    }
  }
  return made;
}

}  // namespace locant::tests

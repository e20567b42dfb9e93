// SPDX-License-Identifier: Apache-2.0
// A made llama: a checkpoint of random numbers and the GGUF file that a right converter makes of it. Tests
// change one of the two.
#pragma once

#include <fmt/format.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/temp_dir.h"
#include "formats/gguf_writer.h"
#include "locant/check.h"
#include "locant/formats.h"

namespace locant::tests {

struct Sizes {
  std::int64_t heads = 4;
  std::int64_t kv_heads = 2;
  std::int64_t head_dim = 8;
  std::int64_t hidden = 32;
  std::int64_t layers = 3;
  std::int64_t mlp = 24;
  std::int64_t vocab = 40;
};

struct Tensor {
  std::vector<std::int64_t> shape;
  std::vector<float> data;
  [[nodiscard]] std::int64_t rows() const { return shape[0]; }
  [[nodiscard]] std::int64_t columns() const { return shape.size() > 1 ? shape[1] : 1; }
};
using Tensors = std::map<std::string, Tensor>;

/// Rows of each head from (2, D/2) to (D/2, 2).
inline Tensor permuted(const Tensor& tensor, std::int64_t heads) {
  Tensor out = tensor;
  const std::int64_t d = tensor.rows() / heads;
  const std::int64_t columns = tensor.columns();
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t half = 0; half < 2; ++half) {
      for (std::int64_t i = 0; i < d / 2; ++i) {
        const std::int64_t from = head * d + half * (d / 2) + i;
        const std::int64_t to = head * d + 2 * i + half;
        for (std::int64_t c = 0; c < columns; ++c)
          out.data[static_cast<std::size_t>(to * columns + c)] =
              tensor.data[static_cast<std::size_t>(from * columns + c)];
      }
    }
  }
  return out;
}

class TwoForms {
 public:
  explicit TwoForms(const Sizes& of = {}) : sizes(of) {
    const std::int64_t q = of.heads * of.head_dim;
    const std::int64_t k = of.kv_heads * of.head_dim;
    add("model.embed_tokens.weight", {of.vocab, of.hidden});
    add("lm_head.weight", {of.vocab, of.hidden});
    add("model.norm.weight", {of.hidden});
    for (std::int64_t layer = 0; layer < of.layers; ++layer) {
      const std::string at = fmt::format("model.layers.{}.", layer);
      add(at + "input_layernorm.weight", {of.hidden});
      add(at + "self_attn.q_proj.weight", {q, of.hidden});
      add(at + "self_attn.k_proj.weight", {k, of.hidden});
      add(at + "self_attn.v_proj.weight", {k, of.hidden});
      add(at + "self_attn.o_proj.weight", {of.hidden, q});
      add(at + "post_attention_layernorm.weight", {of.hidden});
      add(at + "mlp.gate_proj.weight", {of.mlp, of.hidden});
      add(at + "mlp.up_proj.weight", {of.mlp, of.hidden});
      add(at + "mlp.down_proj.weight", {of.hidden, of.mlp});
    }
    convert();
  }

  /// made <- source, as llama.cpp's converter does it.
  void convert() {
    made.clear();
    static const std::map<std::string, std::string> kNames = {
        {"input_layernorm", "attn_norm"},    {"self_attn.q_proj", "attn_q"},
        {"self_attn.k_proj", "attn_k"},      {"self_attn.v_proj", "attn_v"},
        {"self_attn.o_proj", "attn_output"}, {"post_attention_layernorm", "ffn_norm"},
        {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
        {"mlp.down_proj", "ffn_down"}};
    made["token_embd.weight"] = source.at("model.embed_tokens.weight");
    made["output_norm.weight"] = source.at("model.norm.weight");
    made["output.weight"] = source.at("lm_head.weight");
    for (std::int64_t layer = 0; layer < sizes.layers; ++layer) {
      for (const auto& [from, to] : kNames) {
        Tensor tensor = source.at(fmt::format("model.layers.{}.{}.weight", layer, from));
        if (to == "attn_q") tensor = permuted(tensor, sizes.heads);
        if (to == "attn_k") tensor = permuted(tensor, sizes.kv_heads);
        made[fmt::format("blk.{}.{}.weight", layer, to)] = std::move(tensor);
      }
    }
  }

  [[nodiscard]] std::string config() const {
    return fmt::format(
        R"({{"model_type": "llama", "vocab_size": {}, "hidden_size": {}, "num_hidden_layers": {},
            "num_attention_heads": {}, "num_key_value_heads": {}, "head_dim": {}, "intermediate_size": {},
            "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "tie_word_embeddings": {},
            "rope_theta": {}}})",
        sizes.vocab, sizes.hidden, sizes.layers, sizes.heads, sizes.kv_heads, sizes.head_dim, sizes.mlp, tied,
        theta);
  }

  /// Writes config.json and model.safetensors; the folder.
  std::string write_source(const std::string& name = "hf") {
    const std::string place = folder.file(name);
    std::filesystem::create_directories(place);
    write_file(place + "/config.json", config());
    SafetensorsWriter writer(place + "/model.safetensors");
    for (const auto& [key, tensor] : source) {
      TensorRef ref(tensor.data.data(), DType::f32, {tensor.rows()});
      if (tensor.shape.size() > 1)
        ref = TensorRef(tensor.data.data(), DType::f32, {tensor.rows(), tensor.columns()});
      writer.add(key, ref);
    }
    writer.finish();
    return place;
  }

  std::string write_made() {
    GgufModel model;
    model.set("general.architecture", "llama")
        .set("llama.context_length", 4096)
        .set("llama.embedding_length", static_cast<int>(sizes.hidden))
        .set("llama.block_count", static_cast<int>(sizes.layers))
        .set("llama.feed_forward_length", static_cast<int>(sizes.mlp))
        .set("llama.attention.head_count", static_cast<int>(sizes.heads))
        .set("llama.attention.head_count_kv", static_cast<int>(sizes.kv_heads))
        .set("llama.attention.key_length", static_cast<int>(sizes.head_dim))
        .set("llama.attention.value_length", static_cast<int>(sizes.head_dim))
        .set("llama.rope.dimension_count", static_cast<int>(sizes.head_dim))
        .set("llama.attention.layer_norm_rms_epsilon", eps)
        .set("llama.rope.freq_base", made_theta);
    if (!tokens.empty()) model.set("tokenizer.ggml.tokens", tokens);
    for (const auto& [name, tensor] : made) model.values(name, tensor.shape, tensor.data);
    return folder.write("m.gguf", model.bytes());
  }

  Sizes sizes;
  double theta = 10000;
  double made_theta = 10000;
  double eps = 1e-5;
  bool tied = false;
  std::vector<std::string> tokens;
  Tensors source;
  Tensors made;
  TempDir folder;

 private:
  void add(const std::string& name, const std::vector<std::int64_t>& shape) {
    Tensor tensor{shape, {}};
    std::normal_distribution<float> normal(0.0F, 1.0F);
    tensor.data.resize(static_cast<std::size_t>(tensor.rows() * tensor.columns()));
    for (float& value : tensor.data) value = normal(random_);
    source[name] = std::move(tensor);
  }

  std::mt19937 random_{20240611};
};

}  // namespace locant::tests

// SPDX-License-Identifier: Apache-2.0
// Tiny random checkpoints of the four families, kept in double as they lie in the file: matrices
// N(0, 1.2^2 / fan_in), gains near 1, small biases, in the names and layouts of transformers'
// save_pretrained.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/temp_dir.h"
#include "locant/core.h"
#include "locant/formats.h"
#include "locant/model.h"

namespace locant::tests {

using Json = nlohmann::json;

inline constexpr std::int64_t kVocab = 97;

struct Tensor {
  std::vector<std::int64_t> shape;
  std::vector<double> values;  ///< row-major
};

struct Checkpoint {
  Json config;
  std::map<std::string, Tensor> tensors;
  DType dtype = DType::f32;
};

/// The value as a dtype holds it.
inline double held_as(DType dtype, double value) {
  const auto single = static_cast<float>(value);
  if (dtype == DType::f16) return static_cast<double>(f32_from(half_from_f32(single)));
  if (dtype == DType::bf16) return static_cast<double>(f32_from(bfloat16_from_f32(single)));
  return static_cast<double>(single);
}

inline Json tiny_config(const std::string& family) {
  const Json none = {{"bos_token_id", nullptr}, {"eos_token_id", nullptr}};
  Json config;
  if (family == "llama") {
    // hidden / heads is 6, a head is 10 wide
    config = {{"hidden_size", 54},
              {"intermediate_size", 85},
              {"num_hidden_layers", 2},
              {"num_attention_heads", 9},
              {"num_key_value_heads", 3},
              {"head_dim", 10},
              {"rms_norm_eps", 1e-6},
              {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 123456.0}}}};
  } else if (family == "gpt2") {
    config = {{"n_embd", 60}, {"n_head", 5}, {"n_layer", 2}, {"n_positions", 300}};
  } else if (family == "bloom") {
    config = {{"hidden_size", 56}, {"n_head", 7}, {"n_layer", 2}};
  } else {
    config = {{"d_model", 52},
              {"ffn_dim", 90},
              {"attention_heads", 4},
              {"num_layers", 2},
              {"max_position_embeddings", 256},
              {"pad_token_id", 1}};
  }
  config["model_type"] = family;
  config["vocab_size"] = kVocab;
  config.update(none);
  return config;
}

/// Fills a checkpoint's tensors with reproducible noise.
class Filler {
 public:
  Filler(Checkpoint& checkpoint, unsigned seed) : checkpoint_(checkpoint), random_(seed) {}

  void matrix(const std::string& name, std::int64_t rows, std::int64_t columns, std::int64_t fan_in) {
    fill(name, {rows, columns}, 0, 1.2 / std::sqrt(static_cast<double>(fan_in)));
  }
  void gain(const std::string& name, std::int64_t size) { fill(name, {size}, 1, 0.1); }
  void bias(const std::string& name, std::int64_t size) { fill(name, {size}, 0, 0.1); }
  void layer_norm(const std::string& name, std::int64_t size) {
    gain(name + ".weight", size);
    bias(name + ".bias", size);
  }
  void linear(const std::string& name, std::int64_t out, std::int64_t in, std::string_view biased) {
    matrix(name + ".weight", out, in, in);
    if (!biased.empty()) bias(name + ".bias", out);
  }

 private:
  void fill(const std::string& name, std::vector<std::int64_t> shape, double mean, double deviation) {
    std::normal_distribution<double> normal(mean, deviation);
    std::int64_t size = 1;
    for (const std::int64_t extent : shape) size *= extent;
    Tensor& tensor = checkpoint_.tensors[name];
    tensor.shape = std::move(shape);
    for (std::int64_t i = 0; i < size; ++i)
      tensor.values.push_back(held_as(checkpoint_.dtype, normal(random_)));
  }

  Checkpoint& checkpoint_;
  std::mt19937_64 random_;
};

inline void fill_llama(Filler& fill, const Json& config) {
  const std::int64_t d = config.at("hidden_size");
  const std::int64_t width =
      config.value("head_dim", d / config.at("num_attention_heads").get<std::int64_t>());
  const std::int64_t q = config.at("num_attention_heads").get<std::int64_t>() * width;
  const std::int64_t kv = config.at("num_key_value_heads").get<std::int64_t>() * width;
  const std::int64_t mlp = config.at("intermediate_size");
  const std::string_view biased = config.value("attention_bias", false) ? "bias" : "";
  const std::string_view mlp_biased = config.value("mlp_bias", false) ? "bias" : "";
  fill.matrix("model.embed_tokens.weight", kVocab, d, d);
  for (std::int64_t layer = 0; layer < config.at("num_hidden_layers"); ++layer) {
    const std::string at = "model.layers." + std::to_string(layer) + ".";
    fill.gain(at + "input_layernorm.weight", d);
    fill.linear(at + "self_attn.q_proj", q, d, biased);
    fill.linear(at + "self_attn.k_proj", kv, d, biased);
    fill.linear(at + "self_attn.v_proj", kv, d, biased);
    fill.linear(at + "self_attn.o_proj", d, q, biased);
    fill.gain(at + "post_attention_layernorm.weight", d);
    fill.linear(at + "mlp.gate_proj", mlp, d, mlp_biased);
    fill.linear(at + "mlp.up_proj", mlp, d, mlp_biased);
    fill.linear(at + "mlp.down_proj", d, mlp, mlp_biased);
  }
  fill.gain("model.norm.weight", d);
  if (!config.value("tie_word_embeddings", false)) fill.matrix("lm_head.weight", kVocab, d, d);
}

inline void fill_gpt2(Filler& fill, const Json& config) {
  const std::int64_t d = config.at("n_embd");
  const std::int64_t mlp = config.value("n_inner", 4 * d);
  // Conv1D stores [in, out]
  const auto conv = [&](const std::string& name, std::int64_t in, std::int64_t out) {
    fill.matrix(name + ".weight", in, out, in);
    fill.bias(name + ".bias", out);
  };
  fill.matrix("transformer.wte.weight", kVocab, d, d);
  fill.matrix("transformer.wpe.weight", config.at("n_positions"), d, d);
  for (std::int64_t layer = 0; layer < config.at("n_layer"); ++layer) {
    const std::string at = "transformer.h." + std::to_string(layer) + ".";
    fill.layer_norm(at + "ln_1", d);
    conv(at + "attn.c_attn", d, 3 * d);
    conv(at + "attn.c_proj", d, d);
    fill.layer_norm(at + "ln_2", d);
    conv(at + "mlp.c_fc", d, mlp);
    conv(at + "mlp.c_proj", mlp, d);
  }
  fill.layer_norm("transformer.ln_f", d);
  if (!config.value("tie_word_embeddings", true)) fill.matrix("lm_head.weight", kVocab, d, d);
}

inline void fill_bloom(Filler& fill, const Json& config) {
  const std::int64_t d = config.at("hidden_size");
  fill.matrix("transformer.word_embeddings.weight", kVocab, d, d);
  fill.layer_norm("transformer.word_embeddings_layernorm", d);
  for (std::int64_t layer = 0; layer < config.at("n_layer"); ++layer) {
    const std::string at = "transformer.h." + std::to_string(layer) + ".";
    fill.layer_norm(at + "input_layernorm", d);
    fill.linear(at + "self_attention.query_key_value", 3 * d, d, "bias");
    fill.linear(at + "self_attention.dense", d, d, "bias");
    fill.layer_norm(at + "post_attention_layernorm", d);
    fill.linear(at + "mlp.dense_h_to_4h", 4 * d, d, "bias");
    fill.linear(at + "mlp.dense_4h_to_h", d, 4 * d, "bias");
  }
  fill.layer_norm("transformer.ln_f", d);
  if (!config.value("tie_word_embeddings", true)) fill.matrix("lm_head.weight", kVocab, d, d);
}

inline void fill_xglm(Filler& fill, const Json& config) {
  const std::int64_t d = config.at("d_model");
  const std::int64_t mlp = config.at("ffn_dim");
  fill.matrix("model.embed_tokens.weight", kVocab, d, d);
  for (std::int64_t layer = 0; layer < config.at("num_layers"); ++layer) {
    const std::string at = "model.layers." + std::to_string(layer) + ".";
    for (const char* part : {"q_proj", "k_proj", "v_proj", "out_proj"}) {
      fill.linear(at + "self_attn." + part, d, d, "bias");
    }
    fill.layer_norm(at + "self_attn_layer_norm", d);
    fill.linear(at + "fc1", mlp, d, "bias");
    fill.linear(at + "fc2", d, mlp, "bias");
    fill.layer_norm(at + "final_layer_norm", d);
  }
  fill.layer_norm("model.layer_norm", d);
  if (!config.value("tie_word_embeddings", true)) fill.matrix("lm_head.weight", kVocab, d, d);
}

inline Checkpoint tiny(const std::string& family, const Json& changes = Json::object(),
                       DType dtype = DType::f32) {
  Checkpoint checkpoint{.config = tiny_config(family), .tensors = {}, .dtype = dtype};
  checkpoint.config.update(changes);
  Filler fill(checkpoint, 20240607);
  if (family == "llama") fill_llama(fill, checkpoint.config);
  if (family == "gpt2") fill_gpt2(fill, checkpoint.config);
  if (family == "bloom") fill_bloom(fill, checkpoint.config);
  if (family == "xglm") fill_xglm(fill, checkpoint.config);
  return checkpoint;
}

/// Bytes of values in a dtype (f32, f16, bf16 or f64), and the shape as a reference to them.
struct Encoded {
  std::vector<std::uint8_t> bytes;
  TensorRef ref;
};

inline Encoded encode(const Tensor& tensor, DType dtype) {
  Encoded encoded;
  const std::size_t size = size_of(dtype);
  encoded.bytes.resize(tensor.values.size() * size);
  for (std::size_t i = 0; i < tensor.values.size(); ++i) {
    const auto single = static_cast<float>(tensor.values[i]);
    std::uint8_t* const to = encoded.bytes.data() + i * size;
    if (dtype == DType::f16) {
      const Half half = half_from_f32(single);
      std::memcpy(to, &half.bits, size);
    } else if (dtype == DType::bf16) {
      const BFloat16 half = bfloat16_from_f32(single);
      std::memcpy(to, &half.bits, size);
    } else if (dtype == DType::f64) {
      std::memcpy(to, &tensor.values[i], size);
    } else {
      std::memcpy(to, &single, size);
    }
  }
  encoded.ref.data = encoded.bytes.data();
  encoded.ref.dtype = dtype;
  encoded.ref.rank = tensor.shape.size();
  std::int64_t step = 1;
  for (std::size_t axis = tensor.shape.size(); axis-- > 0;) {
    encoded.ref.shape[axis] = tensor.shape[axis];
    encoded.ref.strides[axis] = step;
    step *= tensor.shape[axis];
  }
  return encoded;
}

/// Dtypes other than the checkpoint's, by tensor.
using OtherDTypes = std::map<std::string, DType>;

inline void write_checkpoint(const TempDir& dir, const Checkpoint& checkpoint,
                             const OtherDTypes& others = {}) {
  (void)dir.write("config.json", checkpoint.config.dump());
  SafetensorsWriter writer(dir.file("model.safetensors"));
  for (const auto& [name, tensor] : checkpoint.tensors) {
    const auto other = others.find(name);
    writer.add(name, encode(tensor, other == others.end() ? checkpoint.dtype : other->second).ref);
  }
  writer.finish();
}

/// The tensors spread over three files by turns, with their index.
inline void write_shards(const TempDir& dir, const Checkpoint& checkpoint) {
  (void)dir.write("config.json", checkpoint.config.dump());
  constexpr std::size_t kShards = 3;
  Json weight_map = Json::object();
  for (std::size_t shard = 0; shard < kShards; ++shard) {
    const std::string name = "model-0000" + std::to_string(shard + 1) + "-of-00003.safetensors";
    SafetensorsWriter writer(dir.file(name));
    std::size_t index = 0;
    for (const auto& [tensor_name, tensor] : checkpoint.tensors) {
      if (index++ % kShards != shard) continue;
      writer.add(tensor_name, encode(tensor, checkpoint.dtype).ref);
      weight_map[tensor_name] = name;
    }
    writer.finish();
  }
  (void)dir.write("model.safetensors.index.json",
                  Json{{"metadata", {{"total_size", 0}}}, {"weight_map", weight_map}}.dump());
}

}  // namespace locant::tests

// SPDX-License-Identifier: Apache-2.0
// The four families' forward pass in double with plain loops, one row without a cache: Touvron et al. 2023
// (llama), Radford et al. 2019 (gpt2), Le Scao et al. 2022 (bloom), Lin et al. 2021 (xglm). Shares nothing
// with the library. Frequencies and angles are rounded to f32, as the recipe `hf` says; everything behind
// them is double.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "model/checkpoint.h"

namespace locant::tests {

/// [T][width]
using Rows = std::vector<std::vector<double>>;

struct OracleLayer {
  Rows q_pre, k_pre, q, k, v;       ///< [T][heads * head_dim]
  std::vector<Rows> scores, probs;  ///< [heads][T][T], -inf and 0 where masked
  std::vector<double> slopes;       ///< [heads] or empty
  Rows attn_out, out;
};

struct OraclePass {
  Rows embed_tokens, embed_positions, embed_out, final_norm, logits;
  std::vector<OracleLayer> layers;
};

/// What the families differ in.
struct OracleShape {
  std::string family, prefix, layers_at;
  std::int64_t hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, layers = 0;
  double eps = 1e-5;
  std::string activation;
};

class Oracle {
 public:
  explicit Oracle(const Checkpoint& checkpoint) : c_(checkpoint.config), tensors_(checkpoint.tensors) {
    s_.family = c_.at("model_type");
    if (s_.family == "llama") {
      shape("hidden_size", "num_attention_heads", "num_hidden_layers");
      s_.kv_heads = c_.value("num_key_value_heads", s_.heads);
      s_.head_dim = c_.value("head_dim", s_.hidden / s_.heads);
      s_.eps = c_.value("rms_norm_eps", 1e-6);
      s_.activation = c_.value("hidden_act", "silu");
      s_.prefix = "model.";
      s_.layers_at = "model.layers.";
    } else if (s_.family == "gpt2") {
      shape("n_embd", "n_head", "n_layer");
      s_.eps = c_.value("layer_norm_epsilon", 1e-5);
      s_.activation = c_.value("activation_function", "gelu_new");
      s_.prefix = "transformer.";
      s_.layers_at = "transformer.h.";
    } else if (s_.family == "bloom") {
      shape("hidden_size", "n_head", "n_layer");
      s_.eps = c_.value("layer_norm_epsilon", 1e-5);
      s_.activation = "gelu_new";
      s_.prefix = "transformer.";
      s_.layers_at = "transformer.h.";
    } else {
      shape("d_model", "attention_heads", "num_layers");
      s_.activation = c_.value("activation_function", "gelu");
      s_.prefix = "model.";
      s_.layers_at = "model.layers.";
    }
  }

  [[nodiscard]] const OracleShape& sizes() const { return s_; }

  /// positions empty = 0, 1, ...
  [[nodiscard]] OraclePass run(const std::vector<std::int64_t>& ids,
                               std::vector<std::int64_t> positions = {}) const {
    for (std::size_t t = 0; positions.size() < ids.size(); ++t)
      positions.push_back(static_cast<std::int64_t>(t));
    OraclePass pass;
    Rows x = embed(ids, positions, pass);
    for (std::int64_t layer = 0; layer < s_.layers; ++layer)
      x = block(layer, x, positions, pass.layers.emplace_back());
    const char* const norm = s_.family == "llama" ? "norm" : s_.family == "xglm" ? "layer_norm" : "ln_f";
    pass.final_norm = normalized(x, s_.prefix + norm);
    const bool tied = c_.value("tie_word_embeddings", s_.family != "llama");
    pass.logits = matmul(pass.final_norm, tied ? embedding() : tensor("lm_head.weight"));
    return pass;
  }

 private:
  void shape(const char* hidden, const char* heads, const char* layers) {
    s_.hidden = c_.at(hidden);
    s_.heads = c_.at(heads);
    s_.layers = c_.at(layers);
    s_.kv_heads = s_.heads;
    s_.head_dim = s_.hidden / s_.heads;
  }

  [[nodiscard]] const Tensor& tensor(const std::string& name) const { return tensors_.at(name); }
  [[nodiscard]] const Tensor& embedding() const {
    if (s_.family == "gpt2") return tensor("transformer.wte.weight");
    return tensor(s_.prefix + (s_.family == "bloom" ? "word_embeddings.weight" : "embed_tokens.weight"));
  }

  static std::vector<double> row_of(const Tensor& table, std::int64_t row) {
    const std::int64_t width = table.shape[1];
    if (row < 0 || row >= table.shape[0]) throw std::out_of_range("oracle: row");
    const auto first = table.values.begin() + row * width;
    return {first, first + width};
  }

  // x W^T, W [out, in]
  static Rows matmul(const Rows& x, const Tensor& w) {
    const auto out = static_cast<std::size_t>(w.shape[0]);
    const auto in = static_cast<std::size_t>(w.shape[1]);
    Rows y(x.size(), std::vector<double>(out));
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::size_t o = 0; o < out; ++o) {
        double sum = 0;
        for (std::size_t i = 0; i < in; ++i) sum += x[t][i] * w.values[o * in + i];
        y[t][o] = sum;
      }
    }
    return y;
  }

  // x W, W [in, out]
  static Rows conv1d(const Rows& x, const Tensor& w) {
    const auto in = static_cast<std::size_t>(w.shape[0]);
    const auto out = static_cast<std::size_t>(w.shape[1]);
    Rows y(x.size(), std::vector<double>(out));
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::size_t i = 0; i < in; ++i) {
        for (std::size_t o = 0; o < out; ++o) y[t][o] += x[t][i] * w.values[i * out + o];
      }
    }
    return y;
  }

  [[nodiscard]] Rows linear(const Rows& x, const std::string& name) const {
    const Tensor& weight = tensor(name + ".weight");
    Rows y = s_.family == "gpt2" ? conv1d(x, weight) : matmul(x, weight);
    if (const auto bias = tensors_.find(name + ".bias"); bias != tensors_.end()) {
      for (auto& row : y) {
        for (std::size_t i = 0; i < row.size(); ++i) row[i] += bias->second.values[i];
      }
    }
    return y;
  }

  [[nodiscard]] Rows normalized(const Rows& x, const std::string& name) const {
    const std::vector<double>& gain = tensor(name + ".weight").values;
    Rows y = x;
    for (auto& row : y) {
      const auto n = static_cast<double>(row.size());
      double mean = 0;
      double square = 0;
      if (s_.family != "llama") {
        for (const double value : row) mean += value / n;
      }
      for (const double value : row) square += (value - mean) * (value - mean) / n;
      for (std::size_t i = 0; i < row.size(); ++i) {
        row[i] = (row[i] - mean) / std::sqrt(square + s_.eps) * gain[i];
        if (s_.family != "llama") row[i] += tensor(name + ".bias").values[i];
      }
    }
    return y;
  }

  [[nodiscard]] double activated(double x) const {
    if (s_.activation == "silu") return x / (1 + std::exp(-x));
    if (s_.activation == "relu") return std::max(x, 0.0);
    if (s_.activation == "gelu") return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
    const double pi = std::acos(-1.0);
    return x / 2 * (1 + std::tanh(std::sqrt(2 / pi) * (x + 0.044715 * x * x * x)));
  }

  static void add(Rows& x, const Rows& y) {
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::size_t i = 0; i < x[t].size(); ++i) x[t][i] += y[t][i];
    }
  }

  // XGLM's row at position + 2: sines, then cosines; the padding row is zero.
  [[nodiscard]] std::vector<double> sinusoid(std::int64_t position) const {
    const auto half = static_cast<std::size_t>(s_.hidden / 2);
    std::vector<double> row(static_cast<std::size_t>(s_.hidden), 0);
    const std::int64_t index = position + 2;
    const Json pad = c_.value("pad_token_id", Json(1));
    if (pad.is_number() && pad.get<std::int64_t>() == index) return row;
    const auto step = static_cast<float>(-std::log(10000.0) / static_cast<double>(half - 1));
    for (std::size_t i = 0; i < half; ++i) {
      const float frequency = std::exp(static_cast<float>(i) * step);
      const float angle = static_cast<float>(index) * frequency;
      row[i] = std::sin(static_cast<double>(angle));
      row[half + i] = std::cos(static_cast<double>(angle));
    }
    return row;
  }

  [[nodiscard]] Rows embed(const std::vector<std::int64_t>& ids, const std::vector<std::int64_t>& positions,
                           OraclePass& pass) const {
    for (const std::int64_t id : ids) pass.embed_tokens.push_back(row_of(embedding(), id));
    Rows x = pass.embed_tokens;
    if (s_.family == "xglm" && c_.value("scale_embedding", true)) {
      for (auto& row : x) {
        for (double& value : row) value *= std::sqrt(static_cast<double>(s_.hidden));
      }
    }
    for (const std::int64_t position : positions) {
      if (s_.family == "gpt2")
        pass.embed_positions.push_back(row_of(tensor("transformer.wpe.weight"), position));
      if (s_.family == "xglm") pass.embed_positions.push_back(sinusoid(position));
    }
    if (!pass.embed_positions.empty()) add(x, pass.embed_positions);
    if (s_.family == "bloom") x = normalized(x, "transformer.word_embeddings_layernorm");
    pass.embed_out = x;
    return x;
  }

  // rotate_half of each head: channel i with i + d/2
  [[nodiscard]] Rows rotated(const Rows& x, const std::vector<std::int64_t>& positions) const {
    const auto d = static_cast<std::size_t>(s_.head_dim);
    const double theta = c_.at("rope_parameters").at("rope_theta");
    Rows y = x;
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::size_t i = 0; i < d / 2; ++i) {
        const float power =
            std::pow(static_cast<float>(theta), static_cast<float>(2 * i) / static_cast<float>(d));
        const float angle = static_cast<float>(positions[t]) * (1.0F / power);
        const double cos = std::cos(static_cast<double>(angle));
        const double sin = std::sin(static_cast<double>(angle));
        for (std::size_t head = 0; head < x[t].size(); head += d) {
          const double a = x[t][head + i];
          const double b = x[t][head + d / 2 + i];
          y[t][head + i] = a * cos - b * sin;
          y[t][head + d / 2 + i] = b * cos + a * sin;
        }
      }
    }
    return y;
  }

  // Press et al. 2022: powers of 2^(-8/n), for other counts with every second slope of the next power of two.
  [[nodiscard]] std::vector<double> alibi() const {
    const auto geometric = [](std::size_t n) {
      std::vector<double> slopes;
      for (std::size_t i = 1; i <= n; ++i)
        slopes.push_back(std::pow(2.0, -8.0 * static_cast<double>(i) / static_cast<double>(n)));
      return slopes;
    };
    const auto heads = static_cast<std::size_t>(s_.heads);
    std::size_t power = 1;
    while (2 * power <= heads) power *= 2;
    std::vector<double> slopes = geometric(power);
    const std::vector<double> more = geometric(2 * power);
    for (std::size_t i = 0; slopes.size() < heads; i += 2) slopes.push_back(more[i]);
    return slopes;
  }

  void project_heads(const std::string& at, const Rows& x, OracleLayer& layer) const {
    const auto d = static_cast<std::size_t>(s_.head_dim);
    const auto width = static_cast<std::size_t>(s_.hidden);
    if (s_.family == "llama" || s_.family == "xglm") {
      layer.q_pre = linear(x, at + "self_attn.q_proj");
      layer.k_pre = linear(x, at + "self_attn.k_proj");
      layer.v = linear(x, at + "self_attn.v_proj");
      return;
    }
    const bool bloom = s_.family == "bloom";
    const Rows fused = linear(x, at + (bloom ? "self_attention.query_key_value" : "attn.c_attn"));
    for (const auto& row : fused) {
      std::vector<double> part[3];
      for (std::size_t p = 0; p < 3; ++p) {
        for (std::size_t i = 0; i < width; ++i) {
          // bloom: [heads][q|k|v][head_dim]; gpt2: [q|k|v][heads][head_dim]
          part[p].push_back(bloom ? row[(i / d * 3 + p) * d + i % d] : row[p * width + i]);
        }
      }
      layer.q_pre.push_back(part[0]);
      layer.k_pre.push_back(part[1]);
      layer.v.push_back(part[2]);
    }
  }

  [[nodiscard]] double score_scale(std::int64_t index) const {
    double scale = 1 / std::sqrt(static_cast<double>(s_.head_dim));
    if (s_.family == "gpt2" && !c_.value("scale_attn_weights", true)) scale = 1;
    if (s_.family == "gpt2" && c_.value("scale_attn_by_inverse_layer_idx", false)) {
      scale /= static_cast<double>(index + 1);
    }
    return scale;
  }

  [[nodiscard]] Rows attended(std::int64_t index, const std::vector<std::int64_t>& positions,
                              OracleLayer& layer) const {
    const std::size_t tokens = positions.size();
    const auto d = static_cast<std::size_t>(s_.head_dim);
    const auto heads = static_cast<std::size_t>(s_.heads);
    const std::size_t group = heads / static_cast<std::size_t>(s_.kv_heads);
    if (s_.family == "bloom") layer.slopes = alibi();
    Rows out(tokens, std::vector<double>(heads * d, 0));
    const double unseen = -std::numeric_limits<double>::infinity();
    // long rows need no grid of scores
    const bool keep = tokens <= 64;
    for (std::size_t h = 0; h < heads; ++h) {
      if (keep) layer.scores.emplace_back(tokens, std::vector<double>(tokens, unseen));
      if (keep) layer.probs.emplace_back(tokens, std::vector<double>(tokens, 0));
      const std::size_t g = h / group;
      std::vector<double> scores(tokens);
      for (std::size_t t = 0; t < tokens; ++t) {
        double largest = unseen;
        for (std::size_t s = 0; s <= t; ++s) {
          double dot = 0;
          for (std::size_t i = 0; i < d; ++i) dot += layer.q[t][h * d + i] * layer.k[s][g * d + i];
          scores[s] = dot * score_scale(index);
          if (!layer.slopes.empty())
            scores[s] += layer.slopes[h] * static_cast<double>(positions[s] - positions[t]);
          largest = std::max(largest, scores[s]);
          if (keep) layer.scores[h][t][s] = scores[s];
        }
        double sum = 0;
        for (std::size_t s = 0; s <= t; ++s) sum += scores[s] = std::exp(scores[s] - largest);
        for (std::size_t s = 0; s <= t; ++s) {
          if (keep) layer.probs[h][t][s] = scores[s] / sum;
          for (std::size_t i = 0; i < d; ++i) out[t][h * d + i] += scores[s] / sum * layer.v[s][g * d + i];
        }
      }
    }
    return out;
  }

  [[nodiscard]] Rows fed_forward(const std::string& at, const Rows& x) const {
    const bool llama = s_.family == "llama";
    const char* const up = llama                  ? "mlp.up_proj"
                           : s_.family == "gpt2"  ? "mlp.c_fc"
                           : s_.family == "bloom" ? "mlp.dense_h_to_4h"
                                                  : "fc1";
    const char* const down = llama                  ? "mlp.down_proj"
                             : s_.family == "gpt2"  ? "mlp.c_proj"
                             : s_.family == "bloom" ? "mlp.dense_4h_to_h"
                                                    : "fc2";
    Rows wide = linear(x, at + up);
    if (llama) {
      const Rows gate = linear(x, at + "mlp.gate_proj");
      for (std::size_t t = 0; t < wide.size(); ++t) {
        for (std::size_t i = 0; i < wide[t].size(); ++i) wide[t][i] *= activated(gate[t][i]);
      }
    } else {
      for (auto& row : wide) {
        for (double& value : row) value = activated(value);
      }
    }
    return linear(wide, at + down);
  }

  [[nodiscard]] Rows block(std::int64_t index, const Rows& x, const std::vector<std::int64_t>& positions,
                           OracleLayer& layer) const {
    const std::string at = s_.layers_at + std::to_string(index) + ".";
    const bool from_norm = c_.value("apply_residual_connection_post_layernorm", false);
    const char* const first = s_.family == "gpt2"   ? "ln_1"
                              : s_.family == "xglm" ? "self_attn_layer_norm"
                                                    : "input_layernorm";
    const char* const second = s_.family == "gpt2"   ? "ln_2"
                               : s_.family == "xglm" ? "final_layer_norm"
                                                     : "post_attention_layernorm";
    const char* const output = s_.family == "gpt2"    ? "attn.c_proj"
                               : s_.family == "xglm"  ? "self_attn.out_proj"
                               : s_.family == "bloom" ? "self_attention.dense"
                                                      : "self_attn.o_proj";
    const Rows normed = normalized(x, at + first);
    project_heads(at, normed, layer);
    const bool rope = s_.family == "llama";
    layer.q = rope ? rotated(layer.q_pre, positions) : layer.q_pre;
    layer.k = rope ? rotated(layer.k_pre, positions) : layer.k_pre;
    layer.attn_out = linear(attended(index, positions, layer), at + output);
    Rows state = from_norm ? normed : x;
    add(state, layer.attn_out);
    const Rows again = normalized(state, at + second);
    Rows out = from_norm ? again : state;
    add(out, fed_forward(at, again));
    layer.out = out;
    return out;
  }

  const Json c_;
  const std::map<std::string, Tensor>& tensors_;
  OracleShape s_;
};

}  // namespace locant::tests

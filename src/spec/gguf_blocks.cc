// SPDX-License-Identifier: Apache-2.0
// How the layers of a GGUF model are put together: what its family fixes, what keys state, and what the
// tensors that are there tell, as the code of llama.cpp asks them.
// https://github.com/ggml-org/llama.cpp/tree/master/src/models
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "spec/gguf_parts.h"

namespace locant {
namespace {

using namespace std::string_view_literals;

// Models that give hidden states and have no head.
constexpr std::array kHeadless = {"bert"sv,         "nomic-bert"sv,     "nomic-bert-moe"sv, "jina-bert-v2"sv,
                                  "jina-bert-v3"sv, "modern-bert"sv,    "eurobert"sv,       "neo-bert"sv,
                                  "t5encoder"sv,    "gemma-embedding"sv};

// Tensors of the layers of the main stack.
class Layers {
 public:
  Layers(const GgufKeys& keys, const GgufArchitecture& row, std::int64_t count)
      : keys_(keys), at_(gguf_layers_at(row.name)), count_(count) {}

  [[nodiscard]] const GgufTensor* find(std::int64_t layer, std::string_view name) const {
    return keys_.tensor(fmt::format("{}{}.{}", at_, layer, name));
  }
  /// The first layer's that has one.
  [[nodiscard]] const GgufTensor* first(std::string_view name) const {
    for (std::int64_t layer = 0; layer < count_; ++layer) {
      if (const GgufTensor* const found = find(layer, name)) return found;
    }
    return nullptr;
  }
  [[nodiscard]] bool some(std::string_view name) const { return first(name) != nullptr; }
  /// Whether the file holds layers at all; a vocabulary alone does not.
  [[nodiscard]] bool there() const {
    return some("attn_output.weight") || some("attn_o.weight") || some("attn_qkv.weight");
  }

 private:
  const GgufKeys& keys_;
  std::string_view at_;
  std::int64_t count_;
};

bool is_among(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void read_norm_places(const GgufArchitecture& row, const Layers& layers, ModelSpec& spec) {
  BlockSpec& block = spec.block;
  const bool attention = layers.some("attn_norm.weight");
  const bool mlp = layers.some("ffn_norm.weight");
  const bool behind = layers.some("post_attention_norm.weight");
  const bool sums = layers.some("attn_output_norm.weight");
  if (!attention && !mlp && !behind && !sums) return;  // norms without weights stand where the family says
  // Behind a norm of the input alone, this one is what the mlp reads.
  const bool is_mlps = behind && attention && !mlp;
  block.attention = {
      .before = attention, .after = (behind && !is_mlps) || (sums && attention), .sum = sums && !attention};
  const bool given = layers.some("layer_output_norm.weight");
  block.mlp = {.before = mlp || is_mlps,
               .after = layers.some("post_ffw_norm.weight") || (given && attention),
               .sum = given && !attention};
  block.first_norm = !attention || layers.find(0, "attn_norm.weight") != nullptr;
  if (row.name == "falcon") {
    block.branches = layers.some("attn_norm_2.weight") ? Branches::parallel : Branches::shared_norm;
  } else if (attention && !mlp && !behind && !sums) {
    block.branches = Branches::shared_norm;
  } else if (block.branches == Branches::shared_norm) {
    block.branches = Branches::serial;
  }
  if (block.branches != Branches::serial) block.mlp.before = true;
}

void read_norm_parts(const GgufKeys& keys, const Layers& layers, ModelSpec& spec) {
  const auto has = [&](std::string_view ending) {
    for (const std::string_view name : {"attn_norm"sv, "attn_output_norm"sv, "post_attention_norm"sv}) {
      if (layers.some(fmt::format("{}.{}", name, ending))) return true;
    }
    return false;
  };
  spec.norm.gain = has("weight");
  spec.norm.bias = spec.norm.kind == NormKind::layer && has("bias");
  spec.block.final_norm = !spec.norm.gain;  // without weights no tensor tells
  for (const std::string_view name :
       {"output_norm.weight"sv, "dec.output_norm.weight"sv, "enc.output_norm.weight"sv}) {
    spec.block.final_norm = spec.block.final_norm || keys.tensor(name) != nullptr;
  }
}

void read_qk_norm(const Layers& layers, ModelSpec& spec) {
  QkNormSpec& qk = spec.block.qk_norm;
  const GgufTensor* const gain = layers.first("attn_q_norm.weight");
  if (gain == nullptr) {
    if (qk.norm.gain) qk = {};
    return;
  }
  const bool whole = gain->shape.size() == 1;
  qk.kind = !whole ? QkNorm::own_heads : gain->shape[0] == spec.head_dim ? QkNorm::head : QkNorm::row;
  qk.norm = {
      .kind = spec.norm.kind, .eps = spec.norm.eps, .gain = true, .bias = layers.some("attn_q_norm.bias")};
}

void read_biases(const Layers& layers, ModelSpec& spec) {
  const auto biased = [&](std::string_view name) { return layers.some(fmt::format("{}.bias", name)); };
  const bool fused = biased("attn_qkv");
  spec.block.biases = {.q = fused || biased("attn_q"),
                       .k = fused || biased("attn_k"),
                       .v = fused || biased("attn_v"),
                       .out = biased("attn_output") || biased("attn_o")};
  spec.mlp.bias = biased("ffn_down") || biased("ffn_up");
}

// One tensor of gate and up has twice the rows that the other end reads.
void read_mlp(const Layers& layers, ModelSpec& spec) {
  const GgufTensor* const up = layers.first("ffn_up.weight");
  const GgufTensor* const down = layers.first("ffn_down.weight");
  if (up == nullptr || down == nullptr || up->shape.size() != 2 || down->shape.size() != 2) return;
  spec.mlp.width = down->shape[1];
  spec.mlp.gated = layers.some("ffn_gate.weight") || up->shape[0] == 2 * down->shape[1];
}

void read_latent(GgufKeys& keys, const GgufArchitecture& row, ModelSpec& spec) {
  if (!row.latent) return;
  const auto rank = keys.integer("attention.kv_lora_rank", 1);
  if (!rank) return;
  LatentSpec& latent = spec.latent;
  latent.kv_rank = *rank;
  latent.q_rank = keys.integer("attention.q_lora_rank", 0).value_or(0);
  latent.rotating = keys.integer("rope.dimension_count", 1).value_or(0);
  latent.still = spec.head_dim - latent.rotating;
  if (latent.still < 0)
    keys.fail("rope.dimension_count", fmt::format("at most the width of a head, {}", spec.head_dim));
  const auto grown = keys.integer("attention.value_length_mla", 1);
  const auto plain = keys.integer("attention.value_length", 1);
  latent.value_width = grown ? *grown : plain.value_or(spec.head_dim);
}

void read_branch_scale(GgufKeys& keys, const GgufArchitecture& row, ModelSpec& spec) {
  const bool minicpm = row.name == "minicpm" || row.name == "minicpm3";
  const double depth = std::sqrt(static_cast<double>(std::max<std::int64_t>(1, spec.layers)));
  if (minicpm) spec.block.branch_scale = 1.4 / depth;
  if (row.logits != GgufLogits::divided) return;
  const double scale = keys.number("residual_scale").value_or(0);
  if (scale != 0) spec.block.branch_scale = scale;
}

void read_llama4_qk_norm(const GgufArchitecture& row, ModelSpec& spec) {
  constexpr std::int64_t kExpertsWithout = 128;
  if (row.name != "llama4" || spec.experts.count == kExpertsWithout) return;
  spec.block.qk_norm = {.kind = QkNorm::head,
                        .norm = {.kind = NormKind::rms, .eps = spec.norm.eps, .gain = false},
                        .after_rotation = true,
                        .rotating_only = true};
}

}  // namespace

std::string_view gguf_layers_at(std::string_view architecture) noexcept {
  if (architecture == "t5") return "dec.blk.";
  if (architecture == "t5encoder") return "enc.blk.";
  return "blk.";
}

void read_gguf_block(GgufKeys& keys, const GgufArchitecture& row, ModelSpec& spec) {
  const Layers layers(keys, row, spec.layers);
  spec.block = family_block(spec.family);
  if (row.name == "gptneox" && !keys.flag("use_parallel_residual").value_or(true))
    spec.block.branches = Branches::serial;
  if (row.name == "gpt-oss") spec.mlp.activation = Activation::clamped_swiglu;
  spec.block.clip_qkv = keys.number("attention.clamp_kqv").value_or(0);
  if (spec.block.clip_qkv < 0) keys.fail("attention.clamp_kqv", "a number of at least 0");
  read_branch_scale(keys, row, spec);
  read_latent(keys, row, spec);
  read_gguf_experts(keys, row, spec);
  spec.head.masked = is_among(kHeadless, row.name);
  if (layers.there()) {
    read_norm_parts(keys, layers, spec);
    read_norm_places(row, layers, spec);
    read_qk_norm(layers, spec);
    read_mlp(layers, spec);
  } else if (row.name == "olmo") {
    spec.norm.gain = false;
    spec.norm.bias = false;
  }
  if (keys.has_tensors()) read_biases(layers, spec);
  read_llama4_qk_norm(row, spec);
}

}  // namespace locant

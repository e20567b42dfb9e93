// SPDX-License-Identifier: Apache-2.0
// Sizes and the two ends of a model: embedding, norm and head.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/quote.h"
#include "spec/config.h"
#include "spec/gguf_parts.h"

namespace locant {
namespace {

std::int64_t size(GgufKeys& keys, const GgufArchitecture& row, std::string_view key, std::int64_t most) {
  if (row.name.empty() && !keys.has(key)) {
    keys.note(fmt::format("{}: {} is not stated", keys.path(), keys.full(key)));
    return 0;
  }
  const std::int64_t value = keys.required_integer(key, 1);
  if (value > most) keys.fail(key, fmt::format("a whole number from 1 to {}", most));
  return value;
}

std::int64_t largest(const std::vector<std::int64_t>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

void note_uneven(GgufKeys& keys, std::string_view key, const std::vector<std::int64_t>& values) {
  std::int64_t least = largest(values);
  for (const std::int64_t value : values) {
    if (value > 0) least = std::min(least, value);
  }
  if (least != largest(values)) {
    keys.note({.text = fmt::format("{}: {} differs from layer to layer, {} to {}", keys.path(),
                                   keys.full(key), least, largest(values)),
               .key = keys.full(key)});
  }
}

GgufHeads read_heads(GgufKeys& keys, const GgufArchitecture& row, ModelSpec& spec) {
  constexpr std::string_view kHeads = "attention.head_count";
  constexpr std::string_view kKeyHeads = "attention.head_count_kv";
  if (!row.name.empty()) keys.require(kHeads);
  GgufHeads heads;
  heads.queries = keys.per_layer(kHeads, spec.layers);
  heads.queries.resize(static_cast<std::size_t>(spec.layers));
  heads.keys = keys.per_layer(kKeyHeads, spec.layers);
  if (heads.keys.empty()) heads.keys = heads.queries;
  spec.heads = largest(heads.queries);
  if (spec.heads > kMostHeads) keys.fail(kHeads, fmt::format("at most {}", kMostHeads));
  spec.kv_heads = largest(heads.keys);
  if (spec.heads == 0 && !row.name.empty()) keys.fail(kHeads, "at least 1 in some layer");
  if (spec.heads > 0 && spec.kv_heads == 0) keys.fail(kKeyHeads, "at least 1 in some layer");
  for (std::size_t layer = 0; layer < heads.queries.size(); ++layer) {
    const std::int64_t of = heads.keys[layer];
    if (of != 0 && heads.queries[layer] % of != 0)
      keys.fail(kKeyHeads, fmt::format("a divisor of the {} heads", heads.queries[layer]));
    if (heads.queries[layer] == 0) heads.keys[layer] = 0;
  }
  note_uneven(keys, kHeads, heads.queries);
  note_uneven(keys, kKeyHeads, heads.keys);
  return heads;
}

// Files of multi-head latent attention store it as one head of compressed keys; what it stands for counts.
void read_head_dim(GgufKeys& keys, const GgufArchitecture& row, ModelSpec& spec) {
  std::string_view key = "attention.key_length";
  if (row.latent && keys.has("attention.key_length_mla")) {
    key = "attention.key_length_mla";
    spec.kv_heads = spec.heads;
  }
  if (const auto stated = keys.integer(key, 1)) {
    if (*stated > kWidestHead) keys.fail(key, fmt::format("a whole number from 1 to {}", kWidestHead));
    spec.head_dim = *stated;
  } else if (spec.heads > 0) {
    spec.head_dim = spec.hidden / spec.heads;
    if (spec.head_dim == 0 && spec.hidden > 0)
      keys.fail("embedding_length", fmt::format("at least the {} heads", spec.heads));
    if (spec.head_dim > kWidestHead) {
      keys.fail("embedding_length",
                fmt::format("at most {} for each of the {} heads", kWidestHead, spec.heads));
    }
  }
}

// The rows of the table count; then the key, then the words of the tokenizer.
void read_vocabulary(GgufKeys& keys, const GgufArchitecture& row, ModelSpec& spec) {
  const GgufTensor* const table = keys.tensor("token_embd.weight");
  const auto stated = keys.integer("vocab_size", 1);
  const auto words = keys.length("tokenizer.ggml.tokens");
  if (table != nullptr && !row.name.empty()) check_columns(keys, *table, spec.hidden);
  if (table != nullptr && table->shape.size() == 2) {
    spec.vocab = table->shape[0];
  } else {
    spec.vocab = stated ? *stated : words.value_or(0);
  }
  if (stated && *stated != spec.vocab) {
    keys.note({.text = fmt::format("{}: {} says {}, token_embd.weight has {} rows", keys.path(),
                                   keys.full("vocab_size"), *stated, spec.vocab),
               .key = keys.full("vocab_size")});
  }
  spec.embedding.rows = spec.vocab;
  spec.embedding.width = spec.hidden;
  spec.embedding.normed = row.normed;
  spec.bos = keys.integer("tokenizer.ggml.bos_token_id", 0);
  if (const auto eos = keys.integer("tokenizer.ggml.eos_token_id", 0)) spec.eos = {*eos};
  spec.embedding.padding_id = keys.integer("tokenizer.ggml.padding_token_id", 0);
}

void read_lengths(GgufKeys& keys, const GgufArchitecture& row, ModelSpec& spec) {
  if (!row.name.empty()) keys.require("context_length");
  if (const auto length = keys.integer("context_length", row.name.empty() ? 0 : 1); length && *length > 0) {
    spec.lengths.configured = length;
    spec.lengths.configured_key = keys.full("context_length");
  }
  constexpr std::string_view kTrained = "rope.scaling.original_context_length";
  if (const auto trained = keys.integer(kTrained, 0); trained && *trained > 0) {
    spec.lengths.trained = trained;
    spec.lengths.trained_basis = keys.full(kTrained);
  }
}

void read_norm(GgufKeys& keys, const GgufArchitecture& row, ModelSpec& spec) {
  std::array<std::string_view, 2> names = {"attention.layer_norm_rms_epsilon",
                                           "attention.layer_norm_epsilon"};
  spec.norm.kind = row.norm;
  if (row.norm == NormKind::layer) std::swap(names[0], names[1]);
  if (row.name.empty() && !keys.has(names[0]) && keys.has(names[1])) {
    spec.norm.kind = NormKind::layer;
    std::swap(names[0], names[1]);
  }
  const std::string_view key = keys.has(names[0]) || !keys.has(names[1]) ? names[0] : names[1];
  if (!row.name.empty()) keys.require(key);
  spec.norm.eps = keys.number(key).value_or(spec.norm.eps);
  if (spec.norm.eps < 0) keys.fail(key, "a number of at least 0");
}

// A vocabulary alone does not tell.
void read_head(GgufKeys& keys, ModelSpec& spec) {
  if (keys.tensor("token_embd.weight") == nullptr) {
    keys.note(fmt::format("{}: the file holds no token_embd.weight; whether the head is tied is not told",
                          keys.path()));
    return;
  }
  spec.head.tied = keys.tensor("output.weight") == nullptr;
  spec.head.tied_key = "output.weight";
  spec.head.bias = keys.tensor("output.bias") != nullptr;
}

}  // namespace

void check_columns(const GgufKeys& keys, const GgufTensor& table, std::int64_t columns) {
  if (table.shape.size() == 2 && table.shape[1] == columns && table.shape[0] > 0) return;
  throw FileError(table.path,
                  fmt::format("tensor {} is rows of {} by key {}, got shape [{}]", quote(table.name), columns,
                              quote(keys.full("embedding_length")), fmt::join(table.shape, ",")),
                  table.file_offset);
}

GgufHeads read_gguf_sizes(GgufKeys& keys, const GgufArchitecture& row, ModelSpec& spec) {
  spec.hidden = size(keys, row, "embedding_length", kLargestSize);
  spec.layers = size(keys, row, "block_count", kMostLayers);
  const std::int64_t ahead = keys.integer("nextn_predict_layers", 0).value_or(0);
  if (ahead > 0 && ahead >= spec.layers)
    keys.fail("nextn_predict_layers", fmt::format("below block_count, {}", spec.layers));
  spec.layers -= ahead;
  GgufHeads heads = read_heads(keys, row, spec);
  read_head_dim(keys, row, spec);
  const std::vector<std::int64_t> widths = keys.per_layer("feed_forward_length", spec.layers);
  std::int64_t width = largest(widths);
  if (width == 0) width = largest(keys.per_layer("expert_feed_forward_length", spec.layers));
  spec.mlp = {.activation = row.activation, .gated = row.gated, .bias = false, .width = width};
  return heads;
}

void read_gguf_ends(GgufKeys& keys, const GgufArchitecture& row, ModelSpec& spec) {
  read_vocabulary(keys, row, spec);
  read_lengths(keys, row, spec);
  read_norm(keys, row, spec);
  read_head(keys, spec);
}

}  // namespace locant

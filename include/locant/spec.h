// SPDX-License-Identifier: Apache-2.0
// What a model says of itself: plain data, validated, from whatever source it was read.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "locant/core.h"
#include "locant/plan.h"
#include "locant/positions.h"

namespace locant {

struct NormSpec {
  NormKind kind = NormKind::layer;
  double eps = 1e-5;
};

struct EmbeddingSpec {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  double scale = 1;       ///< before the rounding that a recipe gives it
  std::string scale_key;  ///< the key that asks for it
  bool normed = false;    ///< a norm follows the lookup (BLOOM)
  std::optional<std::int64_t> padding_id;
};

struct HeadSpec {
  bool tied = false;
  std::string tied_key;  ///< the key that says so; empty = the family's default
  bool bias = false;
  double scale = 1;  ///< logits are multiplied by it
};

struct MlpSpec {
  Activation activation = Activation::silu;
  bool gated = false;
  bool bias = false;
  std::int64_t width = 0;
};

struct AttentionSpec {
  double scale = 1;  ///< on q.k, 1/sqrt(head_dim) unless the config says otherwise
};

/// What a residual branch adds to: the layer's input, or the norm's output (BLOOM's
/// apply_residual_connection_post_layernorm).
enum class Residual : std::uint8_t { from_input, from_norm };

struct LengthSpec {
  std::optional<std::int64_t> trained;     ///< only where a key states it
  std::string trained_basis;               ///< that key
  std::optional<std::int64_t> configured;  ///< what the config offers
  std::string configured_key;
};

struct ModelSpec {
  std::string family;  ///< "llama", "gpt2", ...
  std::string format;  ///< "hf"
  std::string path;    ///< of the config
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocab = 0;
  EmbeddingSpec embedding;
  HeadSpec head;
  NormSpec norm;
  MlpSpec mlp;
  bool attention_bias = false;           ///< q, k, v and the output projection carry biases
  std::vector<AttentionSpec> attention;  ///< [layers]
  Residual residual = Residual::from_input;
  StackPositions positions;
  LengthSpec lengths;
  std::optional<std::int64_t> bos;
  std::vector<std::int64_t> eos;
  std::vector<std::string> notes;  ///< sentences about keys that nobody reads
};

/// Families that read_hf_config() knows, sorted.
[[nodiscard]] std::vector<std::string_view> families();

/// Reads config.json of a Hugging Face model (transformers v4 and v5 forms). `path` is the file or its
/// directory. Throws FileError (missing, not JSON) and SpecError: an unknown model_type, a value of the wrong
/// type or range, a key that would change the result and is not understood; each names key, rule and value.
[[nodiscard]] ModelSpec read_hf_config(const std::string& path);

}  // namespace locant

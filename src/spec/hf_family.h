// SPDX-License-Identifier: Apache-2.0
// One row per family of transformers: where each fact stands in its config.json, what its configuration class
// takes for absent keys (transformers 5.24), and what the class fixes without a key.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "locant/spec.h"
#include "spec/config.h"

namespace locant {

/// Whether a family's linear layers carry biases.
enum class Biases : std::uint8_t { never, always, by_key };

struct HfFamily {
  std::string_view name;
  Keys hidden, layers, heads, kv_heads, head_dim, mlp_width, activation, norm_eps, length;
  std::int64_t mlp_factor = 4;  ///< mlp width / hidden where no key states it; 0 = must be stated
  std::string_view default_activation;
  NormKind norm = NormKind::layer;
  double default_norm_eps = 1e-5;
  bool gated = false;
  bool normed_embedding = false;
  bool default_tied = true;
  Biases attention_bias = Biases::always;
  Biases mlp_bias = Biases::always;
  std::optional<std::int64_t> default_bos, default_eos, default_pad;
  std::span<const std::string_view> ignored;  ///< keys of the class that no forward pass reads
  /// Positions, scales and the keys that only this family has.
  void (*finish)(Config&, ModelSpec&);
};

/// Sorted by name.
[[nodiscard]] std::span<const HfFamily> hf_families() noexcept;

/// Refuses what makes another kind of model of a decoder, and passes over transformers' own harmless keys.
void refuse_other_kinds(Config& config);

/// Refuses keys that would change the result and that nobody read; returns a note for each other unread key.
[[nodiscard]] std::vector<std::string> judge_unread(const Config& config);

}  // namespace locant

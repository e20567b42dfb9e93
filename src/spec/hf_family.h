// SPDX-License-Identifier: Apache-2.0
// One row per family of transformers: where each fact stands in its config.json and what the class fixes
// without a key. What a class takes for absent keys stands in hf_defaults.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "locant/spec.h"
#include "spec/config.h"
#include "spec/hf_rope.h"

namespace locant {

/// Whether a family's linear layers carry biases.
enum class Biases : std::uint8_t { never, always, by_key };

/// The names under which a class keeps its sizes.
struct HfKeys {
  Keys vocab, hidden, layers, heads, kv_heads, head_dim, mlp_width, activation, norm_eps, length;
};
/// All names that published classes use; no two of them mean different things in one config.
[[nodiscard]] const HfKeys& shared_keys() noexcept;

struct HfFamily {
  std::string_view name;
  const HfKeys* keys = &shared_keys();
  std::int64_t mlp_factor =
      4;  ///< mlp width / hidden where no key and no default states it; 0 = must be stated
  NormKind norm = NormKind::rms;
  bool gated = true;
  bool normed_embedding = false;
  bool bidirectional = false;
  Biases attention_bias = Biases::by_key;
  Biases mlp_bias = Biases::by_key;
  RopeStyle rope{};
  /// Positions, layers, scales and the keys that only this family has.
  void (*finish)(Config&, ModelSpec&, const HfFamily&) = nullptr;
  /// run computes it: every key must be understood.
  bool runs = false;
  bool encoder_decoder = false;                 ///< what is_encoder_decoder must say
  std::span<const std::string_view> ignored{};  ///< keys of the class that no forward pass reads
};

/// Another model_type that reads as the row of that name.
struct HfAlias {
  std::string_view name;
  std::string_view row;
  bool runs = false;  ///< run computes it as it does the row
};

// One table per kind, none of them sorted.
[[nodiscard]] std::span<const HfFamily> run_families() noexcept;
[[nodiscard]] std::span<const HfFamily> rope_families() noexcept;
[[nodiscard]] std::span<const HfFamily> layered_families() noexcept;
[[nodiscard]] std::span<const HfFamily> latent_families() noexcept;
[[nodiscard]] std::span<const HfFamily> mixture_families() noexcept;
[[nodiscard]] std::span<const HfFamily> absolute_families() noexcept;
[[nodiscard]] std::span<const HfFamily> encoder_families() noexcept;
[[nodiscard]] std::span<const HfFamily> bias_families() noexcept;
[[nodiscard]] std::span<const HfFamily> encoder_decoder_families() noexcept;
[[nodiscard]] std::span<const HfAlias> hf_aliases() noexcept;

/// By name or alias; null when there is none.
[[nodiscard]] const HfFamily* find_family(std::string_view name) noexcept;
/// What the configuration class of that model_type takes for absent keys, a JSON object; empty where nothing
/// is known of it.
[[nodiscard]] std::string_view hf_defaults(std::string_view name) noexcept;

/// Positions of a config whose family is not known, by the keys that most families share.
void finish_generic(Config& config, ModelSpec& spec, const HfFamily& family);

/// Refuses what makes another kind of model of the family's, and passes over transformers' own harmless keys.
void refuse_other_kinds(Config& config, const HfFamily& family);

/// Refuses keys that would change the result and that nobody read; returns a note for each other unread key.
/// A tolerant config gets notes only, about keys that speak of what Locant states; `family` is whose they
/// are.
[[nodiscard]] std::vector<Note> judge_unread(const Config& config, const HfFamily& family);

}  // namespace locant

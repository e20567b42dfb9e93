// SPDX-License-Identifier: Apache-2.0
// The rotation a config asks for: `rope_parameters` of transformers v5 (one block or one per layer type) and
// `rope_scaling` beside `rope_theta` of v4, in the precedence of transformers' RotaryEmbeddingConfigMixin.
#pragma once

#include <cstdint>
#include <string_view>

#include "locant/spec.h"
#include "spec/config.h"

namespace locant {

/// What a family's code fixes about its rotation.
struct RopeStyle {
  std::string_view pairing = "half";
  std::string_view write_pairing{};  ///< "" = as read
  bool partial = false;  ///< the plain schedule follows partial_rotary_factor too; scaled ones always do
  /// The rotated slice has a key of its own and one rotated key serves all heads (MLA): no partial factor
  /// counts.
  bool fixed_width = false;
  bool scaled = true;  ///< a block for all layers counts (Gemma 3's local layers have only a theta)
  bool yarn_is_longrope = false;  ///< Phi-3's first configs
  Keys theta = {"rope_theta"};
  Keys partial_keys = {"partial_rotary_factor"};
  Keys width{};                    ///< keys of an absolute rotary_dim
  std::string_view axis_layout{};  ///< of mrope_section; "" = the family has one axis
  std::int64_t sign = 1;
  std::string_view acts_on = "qk";  ///< as in the mechanisms: qk, qkv or qkv_inverse
};

/// The slice of a head that rotates.
struct RopeSlice {
  std::int64_t head_dim = 0;
  std::int64_t rotating = 0;  ///< what a partial factor is taken of
  std::int64_t offset = 0;
};

/// `layer_type` picks the block of a nested rope_parameters. Throws SpecError as the getters do; a schedule
/// that is not known is refused.
[[nodiscard]] PositionSpec read_rope(Config& config, const RopeStyle& style, const RopeSlice& slice,
                                     std::string_view layer_type = "full_attention");

/// The block that read_rope() reads, for the keys that only a family knows.
[[nodiscard]] std::optional<Config> rope_block(Config& config, const RopeStyle& style,
                                               std::string_view layer_type = "full_attention");

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// Families as data: how a checkpoint of a family names, fuses and lays out its weights. One row per family;
// the forward pass knows no family.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace locant {

/// Where q, k and v stand.
enum class QkvLayout : std::uint8_t {
  separate,  ///< three tensors
  thirds,    ///< one tensor, all q rows, then all k, then all v (GPT-2)
  per_head,  ///< one tensor, the q, k and v rows of a head together (BLOOM)
};

/// Which way a linear layer's matrix is stored.
enum class LinearLayout : std::uint8_t {
  out_in,  ///< [out, in], torch.nn.Linear
  in_out,  ///< [in, out], GPT-2's Conv1D
};

/// Names without ".weight" and ".bias"; "" = the family has none.
struct FamilyWeights {
  std::string_view family;
  std::array<std::string_view, 2> prefixes;  ///< with the head on top, and the bare model
  std::string_view embedding;
  std::string_view positions;
  std::string_view embedding_norm;
  std::string_view final_norm;
  std::string_view head;    ///< stands outside the prefix
  std::string_view layers;  ///< "h." + index + "."
  std::string_view attention_norm;
  QkvLayout qkv_layout;
  std::array<std::string_view, 3> qkv;  ///< q, k, v; the first alone when fused
  std::string_view attention_out;
  std::string_view mlp_norm;
  std::string_view gate;
  std::string_view up;
  std::string_view down;
  LinearLayout linear;
  std::span<const std::string_view> not_weights;  ///< endings of buffers that old checkpoints carry
};

/// Null when the family has no row.
[[nodiscard]] const FamilyWeights* find_family_weights(std::string_view family) noexcept;

}  // namespace locant

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
  thirds,    ///< one tensor, all q rows, then all k, then all v (GPT-2, Phi-3)
  per_head,  ///< one tensor, the q, k and v rows of a head together (BLOOM, GPT-NeoX)
  groups,    ///< one tensor, for each kv head its q rows, then k, then v (Falcon-40B, InternLM 2)
  quarters,  ///< one tensor of four parts, each with a quarter of the q, then v, then k rows (CodeGen)
};

/// Which way a linear layer's matrix is stored.
enum class LinearLayout : std::uint8_t {
  out_in,  ///< [out, in], torch.nn.Linear
  in_out,  ///< [in, out], GPT-2's Conv1D
};

/// Where the gate and up matrices of an mlp stand.
enum class GateLayout : std::uint8_t {
  separate,
  gate_first,   ///< one tensor `up`: gate rows, then up rows (Phi-3, GLM)
  up_first,     ///< one tensor `up`: up rows, then gate rows
  interleaved,  ///< one tensor `up`: gate and up rows in turn (gpt-oss)
};

/// Experts of a layer, behind `experts` and an index ("mlp.experts.3.up_proj"), or stacked in one tensor.
enum class ExpertLayout : std::uint8_t {
  separate,        ///< one tensor for each expert and matrix
  stacked,         ///< [experts, out, in] for each matrix; gate and up by GateLayout
  stacked_in_out,  ///< [experts, in, out]
};

struct ExpertNames {
  std::string_view router{};      ///< "mlp.gate"
  std::string_view correction{};  ///< a vector: its whole name inside the layer
  std::string_view experts{};     ///< "mlp.experts."; index and a dot follow when separate
  std::string_view gate{};
  std::string_view up{};
  std::string_view down{};
  GateLayout gates = GateLayout::separate;
  ExpertLayout layout = ExpertLayout::separate;
  /// What follows a stacked matrix' name ("" where it is the whole name) and its bias' ("_bias").
  std::string_view weight_ending = ".weight";
  std::string_view bias_ending = ".bias";
  std::string_view shared{};                       ///< "mlp.shared_expert."; gate, up and down follow
  std::string_view shared_gate_name{};             ///< the matrix [1, hidden] of ExpertsSpec::shared_gate
  std::array<std::string_view, 3> shared_parts{};  ///< gate, up, down behind `shared`
};

/// Latent attention. Two ranks of queries and keys, their norms, and what they grow to.
struct LatentNames {
  std::string_view q;  ///< without a rank
  std::string_view q_down;
  std::string_view q_norm;
  std::string_view q_up;
  std::string_view kv_down;  ///< rank + rotating rows
  std::string_view kv_norm;
  std::string_view kv_up;   ///< for each head its still rows, then its value rows; "" = in two parts:
  std::string_view k_up{};  ///< [heads, rank, still]
  std::string_view v_up{};  ///< [heads, value_width, rank]
};

/// Names without ".weight" and ".bias"; "" = the family has none. Names of a layer stand behind `layers`, its
/// index and a dot. Of "ln_attn|input_layernorm" the first that a checkpoint holds counts; a norm of queries
/// or keys with {} in its name has one tensor for each head.
struct FamilyWeights {
  std::string_view family{};
  std::array<std::string_view, 2> prefixes{};  ///< with the head on top, and the bare model
  std::string_view embedding{};
  std::string_view positions{};
  std::string_view token_types{};
  std::string_view embedding_norm{};
  std::string_view embedding_in{};   ///< from the table's width to the state's (ALBERT, OPT-350M)
  std::string_view embedding_out{};  ///< from the state's width to the head's (OPT-350M)
  std::string_view final_norm{};
  std::string_view head{};            ///< stands outside the prefix
  std::string_view head_dense{};      ///< HeadSpec::transform, outside the prefix
  std::string_view head_norm{};       ///< the same
  std::string_view head_bias{};       ///< whole name of a bias that does not stand beside `head`
  std::string_view layers{};          ///< "h." + index + "."
  std::string_view attention_norm{};  ///< BranchNorms::before
  std::string_view attention_after{};
  std::string_view attention_sum{};
  QkvLayout qkv_layout = QkvLayout::separate;
  std::array<std::string_view, 3> qkv{};  ///< q, k, v; the first alone when fused
  std::string_view q_norm{};
  std::string_view k_norm{};
  std::string_view attention_out{};
  std::string_view sinks{};  ///< a vector: its whole name inside the layer
  LatentNames latent{};
  std::string_view mlp_norm{};
  std::string_view mlp_after{};
  std::string_view mlp_sum{};
  std::string_view gate{};
  std::string_view up{};
  std::string_view down{};
  GateLayout gates = GateLayout::separate;
  ExpertNames experts{};
  /// The relative table of T5: in the first layer alone, or in each.
  std::string_view relative{};
  // Of a decoder beside an encoder.
  std::string_view encoder{};               ///< prefix of the encoder, inside `prefixes`
  std::string_view decoder{};               ///< prefix of the decoder
  std::array<std::string_view, 4> cross{};  ///< q, k, v, out
  std::string_view cross_norm{};
  std::string_view encoder_mlp_norm{};  ///< where it is not mlp_norm; the same for the others
  std::string_view encoder_gate{};
  std::string_view encoder_up{};
  std::string_view encoder_down{};
  /// Layers past the count are there to guess further tokens (DeepSeek-V3, GLM-4.5) and not run.
  bool guesses_ahead = false;
  LinearLayout linear = LinearLayout::out_in;
  std::span<const std::string_view> not_weights{};  ///< endings of buffers that old checkpoints carry
  std::span<const std::string_view> not_ours{};     ///< beginnings of the towers of other media
};

// One table per kind, each by its own base row.
[[nodiscard]] std::span<const FamilyWeights> llama_like_weights() noexcept;
[[nodiscard]] std::span<const FamilyWeights> gpt_like_weights() noexcept;
[[nodiscard]] std::span<const FamilyWeights> mixture_weights() noexcept;
[[nodiscard]] std::span<const FamilyWeights> encoder_weights() noexcept;
[[nodiscard]] std::span<const FamilyWeights> encoder_decoder_weights() noexcept;

/// Null when the family has no row.
[[nodiscard]] const FamilyWeights* find_family_weights(std::string_view family) noexcept;

}  // namespace locant

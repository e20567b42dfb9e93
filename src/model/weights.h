// SPDX-License-Identifier: Apache-2.0
// A checkpoint's tensors bound to the places of a forward pass: matrices as stored (mapped, or copied where
// the layout or the asked storage differs), vectors as f32.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "locant/model.h"
#include "locant/ops.h"
#include "locant/spec.h"
#include "model/family.h"
#include "model/weight_source.h"

namespace locant {

/// y = x weight^T + bias
struct Linear {
  Matrix weight;              ///< [out, in]
  View<const float, 1> bias;  ///< [out] or empty
  [[nodiscard]] bool there() const noexcept { return weight.data != nullptr; }
};

struct NormWeights {
  View<const float, 1> gain;  ///< empty: ones
  View<const float, 1> bias;  ///< empty for rms
};

struct LatentWeights {
  Linear q;             ///< [heads head_dim, hidden], or
  Linear q_down;        ///< [q_rank, hidden] and
  NormWeights q_norm;   ///< [q_rank]
  Linear q_up;          ///< [heads head_dim, q_rank]
  Linear kv_down;       ///< [kv_rank + rotating, hidden]
  NormWeights kv_norm;  ///< [kv_rank]
  Linear kv_up;         ///< [heads (still + value_width), kv_rank]
};

struct AttentionWeights {
  QkvLayout layout = QkvLayout::separate;  ///< separate: q, k, v; else qkv[0] gives all rows in this layout
  std::array<Linear, 3> qkv;
  NormWeights q_norm;  ///< [head_dim], [heads head_dim]
  NormWeights k_norm;
  LatentWeights latent;
  View<const float, 1> sinks;  ///< [heads] or empty
  Linear out;
};

struct MlpWeights {
  Linear gate;  ///< no data when the MLP is not gated
  Linear up;
  Linear down;
};

struct ExpertWeights {
  Linear router;                    ///< [experts, hidden]; no data: the layer has an mlp
  View<const float, 1> correction;  ///< [experts] or empty
  std::vector<MlpWeights> experts;
  MlpWeights shared;
  Linear shared_gate;  ///< [1, hidden]
};

struct LayerWeights {
  NormWeights attention_norm, attention_after, attention_sum;
  AttentionWeights attention;
  NormWeights cross_norm;  ///< before, or behind the sum
  AttentionWeights cross;
  NormWeights mlp_norm, mlp_after, mlp_sum;
  MlpWeights mlp;
  ExpertWeights experts;
};

/// One stack of layers and what feeds it.
struct StackWeights {
  std::vector<Matrix> added;  ///< a table for each PositionEmbedding of the plan; no data for generators
  NormWeights embedding_norm;
  std::vector<LayerWeights> layers;  ///< [weight_sets] where layers share them
  NormWeights final_norm;
  Matrix relative;  ///< [buckets, heads] or no data
};

struct Weights {
  Matrix embedding;      ///< [V, width]
  Linear embedding_in;   ///< from the table's width to the state's, or no data
  Linear embedding_out;  ///< from the state's width to the head's, or no data
  StackWeights main;
  StackWeights encoder;
  Linear head_dense;
  NormWeights head_norm;
  Linear head;  ///< [V, width]; the embedding when tied; no data: hidden states only

  WeightSource source;  ///< keeps the mappings
  std::deque<Buffer> copies;
  std::int64_t copied_bytes = 0;
  std::int64_t bytes = 0;       ///< mapped tensors in use and copies
  std::int64_t parameters = 0;  ///< elements in use, tied ones once
};

struct StackPlans {
  Plan main;
  std::optional<Plan> encoder{};
};

/// Binds `source` to the places that the family's row names. Throws SpecError: a missing tensor, a wrong
/// shape or dtype, a tensor that is no part of the family; each by name with what was expected.
[[nodiscard]] Weights bind_weights(const ModelSpec& spec, const StackPlans& plans, const FamilyWeights& names,
                                   WeightSource source, WeightStorage storage);

}  // namespace locant

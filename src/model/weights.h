// SPDX-License-Identifier: Apache-2.0
// A checkpoint's tensors bound to the places of a forward pass: matrices as stored (mapped, or copied where
// the layout or the asked storage differs), vectors as f32.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "locant/formats.h"
#include "locant/model.h"
#include "locant/ops.h"
#include "locant/spec.h"
#include "locant/threads.h"
#include "model/family.h"

namespace locant {

/// y = x weight^T + bias
struct Linear {
  Matrix weight;              ///< [out, in]
  View<const float, 1> bias;  ///< [out] or empty
};

struct NormWeights {
  View<const float, 1> gain;
  View<const float, 1> bias;  ///< empty for rms
};

struct LayerWeights {
  NormWeights attention_norm;
  /// q, k, v; fused families have the first alone.
  std::array<Linear, 3> qkv;
  Linear attention_out;
  NormWeights mlp_norm;
  Linear gate;  ///< no data when the MLP is not gated
  Linear up;
  Linear down;
};

struct Weights {
  Matrix embedding;  ///< [V, D]
  Matrix positions;  ///< [rows, D] or no data
  NormWeights embedding_norm;
  std::vector<LayerWeights> layers;
  NormWeights final_norm;
  Matrix head;  ///< [V, D]; the embedding when tied
  QkvLayout qkv_layout = QkvLayout::separate;

  std::vector<SafetensorsFile> files;  ///< keeps the mappings
  std::vector<Buffer> copies;
  std::int64_t bytes = 0;       ///< mapped tensors in use and copies
  std::int64_t parameters = 0;  ///< elements in use, tied ones once
};

/// Binds `file` to the places that the family's row names. Throws SpecError: a missing tensor, a wrong shape
/// or dtype, a tensor that is no part of the family; each by name with what was expected.
[[nodiscard]] Weights bind_weights(const ModelSpec& spec, const FamilyWeights& names, SafetensorsFile file,
                                   WeightStorage storage);

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// The weights of one layer, and the linear layers and norms that everything else consists of.
#pragma once

#include <string>

#include "model/tensors.h"

namespace locant {

/// Linear layers and norms by name.
struct Places {
  const ModelSpec& spec;
  const FamilyWeights& names;
  Tensors& tensors;
  bool describes_itself = false;

  /// `biased` holds unless the file itself tells by the tensors that it has.
  [[nodiscard]] bool has_bias(const std::string& name, bool biased) const {
    return describes_itself ? tensors.has(name + ".bias") : biased;
  }
  Linear linear(const std::string& name, std::int64_t out, std::int64_t in, bool biased = false);
  /// With a bias where the file has one.
  Linear linear_if_biased(const std::string& name, std::int64_t out, std::int64_t in);
  NormWeights norm(const std::string& name, const NormSpec& norm, std::int64_t size);
};

/// Sizes of a stack's layers.
struct StackShape {
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t mlp_width = 0;
  bool crosses = false;  ///< layers also read an encoder's answer
  bool is_encoder = false;
};

struct LayerPlace {
  std::string at;  ///< what stands before the names of the layer
  std::int64_t index = 0;
};

[[nodiscard]] LayerWeights bind_layer(Places& places, const StackShape& shape, const LayerPlace& place);

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
#include "spec/under_recipe.h"

#include <utility>

namespace locant {

ModelSpec under_recipe(ModelSpec spec, const Recipe& recipe) {
  if (recipe.has(Quirk::gelu_by_tanh) && spec.mlp.activation == Activation::gelu_erf)
    spec.mlp.activation = Activation::gelu_tanh;
  if (recipe.has(Quirk::expert_groups_by_pairs)) spec.experts.group_pairs = spec.experts.groups > 1;
  if (recipe.has(Quirk::head_unscaled_when_tied) && spec.family == "t5" && spec.head.tied)
    spec.head.scale = 1;
  const bool by_default = spec.format == "gguf" && spec.family == "minicpm" && spec.head.scale_key.empty();
  if (by_default && recipe.has(Quirk::head_scale_inverted_by_default)) spec.head.scale = 1 / spec.head.scale;
  return spec;
}

}  // namespace locant

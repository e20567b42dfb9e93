// SPDX-License-Identifier: Apache-2.0
#include "model/computable.h"

#include <fmt/format.h>

#include <string_view>

#include "core/quote.h"

namespace locant {

void check_blocks(const ModelSpec& spec) {
  const auto refuse = [&](std::string_view what) {
    throw SpecError(fmt::format("{}: run computes layers of attention and mlps, got {}", spec.path, what));
  };
  if (spec.generic) {
    throw SpecError(fmt::format("{}: run computes the families of `locant list families`, got {}", spec.path,
                                spec.family.empty() ? "one without a name" : quote(spec.family)));
  }
  for (const AttentionSpec& attention : spec.attention) {
    if (!attention.attends) refuse("a layer that holds no attention");
  }
  constexpr std::size_t kWithCross = 2;
  if (spec.others.size() != 0 && spec.others.size() != kWithCross)
    refuse(fmt::format("{} stacks beside the main one", spec.others.size()));
  if (spec.block.weight_sets != 0 && spec.layers % spec.block.weight_sets != 0)
    refuse(fmt::format("{} sets of weights for {} layers", spec.block.weight_sets, spec.layers));
}

Plan computable_plan(const ModelSpec& spec, const StackPositions& positions, const Recipe& recipe) {
  Plan plan = locant::plan(positions, recipe, Extent{});
  const auto refuse = [&](std::string_view what) {
    throw SpecError(
        fmt::format("{}: positions must be of a kind that run computes, got {}", spec.path, what));
  };
  for (const LayerPositions& kind : plan.kinds) {
    if (kind.bias && kind.bias->form == BiasForm::content) refuse("a bias that depends on q and k");
    if (kind.bias && kind.bias->form == BiasForm::function) refuse("a bias by a learned function");
    if (!kind.rotation) continue;
    const Rotation& rotation = *kind.rotation;
    if (rotation.acts_on.v || rotation.acts_on.output_inverse) refuse("a rotation of v or of the output");
    if (rotation.growth) refuse("a rotation with growth");
  }
  for (const PositionEmbedding& embedding : plan.embedding) {
    if (embedding.first_position != 0) refuse("a first position other than 0");
  }
  return plan;
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// From what a model says about a stack to its plan: every spec through its mechanism, equal layers as one
// kind.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "locant/positions.h"

namespace locant {
namespace {

/// Puts the plan of one spec into its site of a layer.
void place(SitePlan site, const Mechanism& mechanism, std::size_t layer, LayerPositions& into) {
  const auto refuse_second = [&](bool taken) {
    if (!taken) return;
    throw SpecError(fmt::format("plan: a layer holds one mechanism per site, got a second {} at layer {}, {}",
                                name_of(mechanism.site), layer, mechanism.name));
  };
  if (auto* rotation = std::get_if<Rotation>(&site)) {
    refuse_second(into.rotation.has_value());
    into.rotation = std::move(*rotation);
  } else if (auto* bias = std::get_if<Bias>(&site)) {
    refuse_second(into.bias.has_value());
    into.bias = std::move(*bias);
  } else if (auto* scale = std::get_if<QueryScale>(&site)) {
    refuse_second(into.query_scale.has_value());
    into.query_scale = std::move(*scale);
  } else {
    throw SpecError(fmt::format("plan: {} acts on the embedding, got it at layer {}", mechanism.name, layer));
  }
}

}  // namespace

Plan plan(const StackPositions& positions, const Recipe& recipe, const Extent& extent) {
  Plan result;
  result.stack = positions.stack;
  for (const PositionSpec& spec : positions.embedding) {
    const Mechanism& mechanism = find_mechanism(spec.mechanism);
    SitePlan site = mechanism.plan(spec, recipe, extent);
    auto* embedding = std::get_if<PositionEmbedding>(&site);
    if (embedding == nullptr) {
      throw SpecError(fmt::format("plan: {} acts on the {} of a layer, got it at the embedding",
                                  mechanism.name, name_of(mechanism.site)));
    }
    result.embedding.push_back(std::move(*embedding));
  }
  result.layers.reserve(positions.layers.size());
  for (std::size_t layer = 0; layer < positions.layers.size(); ++layer) {
    LayerPositions kind;
    for (const PositionSpec& spec : positions.layers[layer]) {
      const Mechanism& mechanism = find_mechanism(spec.mechanism);
      place(mechanism.plan(spec, recipe, extent), mechanism, layer, kind);
    }
    const auto found = std::find(result.kinds.begin(), result.kinds.end(), kind);
    result.layers.push_back(found - result.kinds.begin());
    if (found == result.kinds.end()) result.kinds.push_back(std::move(kind));
  }
  return result;
}

}  // namespace locant

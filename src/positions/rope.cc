// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding, the plain schedule: inv_freq[i] = theta^(-2i/rotary_dim) over P = rotary_dim/2
// pairs of channels (Su et al. 2021, eq. 15 and 34).
#include <algorithm>
#include <array>
#include <utility>

#include "positions/frequencies.h"
#include "positions/rotary.h"

namespace locant {
namespace {

constexpr std::string_view kName = "rope";
constexpr std::array<std::string_view, 2> kAliases = {"rotary", "default"};

constexpr std::array<std::string_view, 2> kPartialRead = {"always", "scaled_only"};

constexpr std::array<ParameterDescription, 1> kOwn = {{
    {"partial_read", "1", "always", "",
     "whether transformers' class of the family reads a partial rotation always or only beside a schedule "
     "(scaled_only)"},
}};
constexpr auto kParameters = with_rotary(kOwn);

/// The spec as a runtime reads it that passes over a partial rotation here.
PositionSpec without_partial(PositionSpec spec) {
  std::erase_if(spec.parameters, [](const Parameter& one) { return one.name == "rotary_dim"; });
  return spec;
}

SitePlan plan_rope(const PositionSpec& spec, const Recipe& recipe, const Extent&) {
  const bool passed_over = Parameters(kName, spec, kParameters).choice("partial_read", kPartialRead) == 1 &&
                           recipe.has(Quirk::partial_factor_ignored_by_default);
  const PositionSpec seen = passed_over ? without_partial(spec) : spec;
  const Parameters read(kName, seen, kParameters);
  Rotary rotary = read_rotary(read, recipe);
  auto inv_freq = power_ladder(rotary.theta, rotary.rotation.width, recipe.numerics.frequency);
  return finished(read, std::move(rotary), std::move(inv_freq), recipe);
}

}  // namespace

Mechanism rope() {
  return {.name = kName,
          .aliases = kAliases,
          .site = Site::rotation,
          .summary = "rotates pairs of query and key channels by angles proportional to the position",
          .formula =
              "angle = position * theta^(-2i/rotary_dim)\n"
              "(a, b) -> (a cos - b sin, b cos + a sin) for every pair i of rotary_dim/2",
          .paper =
              "Su et al. 2021, RoFormer: Enhanced Transformer with Rotary Position Embedding, "
              "arXiv:2104.09864, eq. 15 and 34",
          .parameters = kParameters,
          .plan = plan_rope};
}

}  // namespace locant

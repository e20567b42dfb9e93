// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding, the plain schedule: inv_freq[i] = theta^(-2i/rotary_dim) over P = rotary_dim/2
// pairs of channels (Su et al. 2021, eq. 15 and 34).
#include <utility>

#include "positions/frequencies.h"
#include "positions/rotary.h"

namespace locant {
namespace {

constexpr std::string_view kName = "rope";
constexpr std::array<std::string_view, 2> kAliases = {"rotary", "default"};

SitePlan plan_rope(const PositionSpec& spec, const Recipe& recipe, const Extent&) {
  const Parameters read(kName, spec, kRotaryParameters);
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
          .parameters = kRotaryParameters,
          .plan = plan_rope};
}

}  // namespace locant

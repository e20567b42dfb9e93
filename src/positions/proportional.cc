// SPDX-License-Identifier: Apache-2.0
// Proportional rope (p-RoPE): the first k pairs of a ladder over the whole width turn, the others stand
// still; k = floor(proportion rotary_dim/2), exponents are divided by rotary_dim, not by 2k.
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "positions/frequencies.h"
#include "positions/rotary.h"

namespace locant {
namespace {

constexpr std::string_view kName = "proportional";
constexpr std::array<std::string_view, 2> kAliases = {"p_rope", "partial_proportional"};

constexpr std::array<ParameterDescription, 2> kOwn = {{
    {"proportion", "1", "1", "rope_parameters.partial_rotary_factor", "share of the pairs that turn"},
    {"factor", "1", "1", "rope_parameters.factor", "what every frequency is divided by"},
}};
constexpr auto kParameters = with_rotary(kOwn);

SitePlan plan_proportional(const PositionSpec& spec, const Recipe& recipe, const Extent&) {
  const Parameters read(kName, spec, kParameters);
  Rotary rotary = read_rotary(read, recipe);
  const double proportion = read.positive("proportion", 1);
  if (proportion > 1) read.fail("proportion", "must be at most 1", fmt::format("{}", proportion));
  const double stated = read.positive("factor", 1);
  if (recipe.has(Quirk::proportional_refused)) {
    throw SpecError(
        fmt::format("{}: {} has no such schedule, got proportion {}", kName, recipe.name, proportion));
  }
  const double factor = recipe.has(Quirk::proportional_ignores_factor) ? 1 : stated;
  const auto turning =
      static_cast<std::size_t>(std::floor(proportion * static_cast<double>(rotary.rotation.width) / 2));
  auto inv_freq = in_arithmetic(recipe.numerics.frequency, [&](auto zero) {
    using Real = decltype(zero);
    auto power = powers<Real>(rotary.theta, rotary.rotation.width);
    for (std::size_t i = 0; i < power.size(); ++i) {
      power[i] = i < turning ? 1 / power[i] / static_cast<Real>(factor) : Real{0};
    }
    return power;
  });
  return finished(read, std::move(rotary), std::move(inv_freq), recipe);
}

}  // namespace

Mechanism proportional() {
  return {.name = kName,
          .aliases = kAliases,
          .site = Site::rotation,
          .summary = "rope over the whole head of which only the fastest pairs turn",
          .formula =
              "angle = position * theta^(-2i/rotary_dim) / factor for i < floor(proportion rotary_dim/2)\n"
              "angle = 0 for the other pairs",
          .paper =
              "Barbero et al. 2025, Round and Round We Go! What makes Rotary Positional Encodings useful?, "
              "arXiv:2410.06205, section 6",
          .parameters = kParameters,
          .plan = plan_proportional};
}

}  // namespace locant

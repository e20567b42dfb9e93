// SPDX-License-Identifier: Apache-2.0
// Position interpolation: inv_freq[i] = theta^(-2i/rotary_dim) / factor, which is the plain schedule at
// position / factor (Chen et al. 2023, eq. 3).
#include <utility>

#include "positions/frequencies.h"
#include "positions/rotary.h"

namespace locant {
namespace {

constexpr std::string_view kName = "linear";
constexpr std::array<std::string_view, 2> kAliases = {"position_interpolation", "linear_scaling"};

constexpr std::array<ParameterDescription, 1> kOwn = {{
    {"factor", "1", "", "rope_parameters.factor rope_scaling.factor rope.scaling.factor",
     "how many times slower every pair turns"},
}};
constexpr auto kParameters = with_rotary(kOwn);

SitePlan plan_linear(const PositionSpec& spec, const Recipe& recipe, const Extent&) {
  const Parameters read(kName, spec, kParameters);
  Rotary rotary = read_rotary(read, recipe);
  const double factor = read.positive("factor");
  auto inv_freq = in_arithmetic(recipe.numerics.frequency, [&](auto zero) {
    using Real = decltype(zero);
    auto power = powers<Real>(rotary.theta, rotary.rotation.width);
    for (Real& w : power) w = 1 / w / static_cast<Real>(factor);
    return power;
  });
  return finished(read, std::move(rotary), std::move(inv_freq), recipe);
}

}  // namespace

Mechanism linear() {
  return {
      .name = kName,
      .aliases = kAliases,
      .site = Site::rotation,
      .summary = "rope with every frequency divided by one factor: longer texts squeezed into trained angles",
      .formula = "angle = position * theta^(-2i/rotary_dim) / factor",
      .paper =
          "Chen et al. 2023, Extending Context Window of Large Language Models via Positional "
          "Interpolation, arXiv:2306.15595, eq. 3",
      .parameters = kParameters,
      .plan = plan_linear};
}

}  // namespace locant

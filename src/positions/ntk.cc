// SPDX-License-Identifier: Apache-2.0
// NTK-aware scaling with a fixed alpha: the plain schedule over theta' = theta * alpha^(d/(d-2)),
// d = rotary_dim. The fastest pair keeps its frequency, the slowest turns alpha times slower.
#include <utility>

#include "positions/frequencies.h"
#include "positions/rotary.h"

namespace locant {
namespace {

constexpr std::string_view kName = "ntk";
constexpr std::array<std::string_view, 2> kAliases = {"ntk_alpha", "ntk_aware"};

constexpr std::array<ParameterDescription, 1> kOwn = {{
    {"alpha", "1", "", "rope_parameters.alpha rope_scaling.alpha rope.scaling.alpha",
     "how many times slower the slowest pair turns"},
}};
constexpr auto kParameters = with_rotary(kOwn);

SitePlan plan_ntk(const PositionSpec& spec, const Recipe& recipe, const Extent&) {
  const Parameters read(kName, spec, kParameters);
  Rotary rotary = read_rotary(read, recipe);
  require_pairs(read, rotary);
  const double alpha = read.positive("alpha");
  const std::int64_t width = rotary.rotation.width;
  auto inv_freq = power_ladder(stretched_base(rotary.theta, alpha, width), width, recipe.numerics.frequency);
  return finished(read, std::move(rotary), std::move(inv_freq), recipe);
}

}  // namespace

Mechanism ntk() {
  return {.name = kName,
          .aliases = kAliases,
          .site = Site::rotation,
          .summary = "rope over a larger base: slow pairs are stretched, fast ones are kept",
          .formula =
              "angle = position * theta'^(-2i/rotary_dim)\n"
              "theta' = theta * alpha^(rotary_dim/(rotary_dim - 2))",
          .paper =
              "bloc97 2023, NTK-aware scaled RoPE; Peng et al. 2023, YaRN: Efficient Context Window "
              "Extension of Large Language Models, arXiv:2309.00071, definition 1",
          .parameters = kParameters,
          .plan = plan_ntk};
}

}  // namespace locant

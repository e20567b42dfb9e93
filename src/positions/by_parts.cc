// SPDX-License-Identifier: Apache-2.0
// NTK-by-parts as its authors published it, before YaRN: linear and NTK-aware frequencies are mixed between
// 1.25 and 0.75 turns over the original length, and the result with the plain ones between 16 and 2 turns.
#include <utility>

#include "positions/frequencies.h"
#include "positions/rotary.h"

namespace locant {
namespace {

constexpr std::string_view kName = "by_parts";
constexpr std::array<std::string_view, 2> kAliases = {"ntk_by_parts", "part_ntk"};

constexpr std::array<ParameterDescription, 4> kOwn = {{
    {"factor", "1", "", "rope_scaling.factor", "how many times slower the slow pairs turn"},
    {"original_length", "tokens", "", "rope_scaling.original_max_position_embeddings",
     "length over which turns are counted"},
    {"ntk_factor", "1", "1", "rope_scaling.ntk_factor",
     "share of the NTK-aware frequencies in the first mix"},
    {"extrapolation_factor", "1", "1", "rope_scaling.extrapolation_factor",
     "share of the plain frequencies in the second mix"},
}};
constexpr auto kParameters = with_rotary(kOwn);

// The constants of the published code, found by trial on LLaMA.
constexpr double kFirstMany = 1.25;
constexpr double kFirstFew = 0.75;
constexpr double kSecondMany = 16;
constexpr double kSecondFew = 2;

SitePlan plan_by_parts(const PositionSpec& spec, const Recipe& recipe, const Extent&) {
  const Parameters read(kName, spec, kParameters);
  Rotary rotary = read_rotary(read, recipe);
  require_base_above_one(read, rotary);
  require_pairs(read, rotary);
  const double factor = read.positive("factor");
  const auto length = static_cast<double>(read.integer("original_length", {.min = 1, .max = kMaxRows}));
  const double ntk_share = read.number("ntk_factor", 1);
  const double plain_share = read.number("extrapolation_factor", 1);
  const std::int64_t width = rotary.rotation.width;
  const Band first = band_of(rotary.theta, width, {.many = kFirstMany, .few = kFirstFew, .length = length},
                             BandEdges::whole);
  const Band second = band_of(rotary.theta, width, {.many = kSecondMany, .few = kSecondFew, .length = length},
                              BandEdges::whole);
  auto inv_freq = in_arithmetic(recipe.numerics.frequency, [&](auto zero) {
    using Real = decltype(zero);
    auto power = powers<Real>(rotary.theta, width);
    const auto stretched = powers<Real>(stretched_base(rotary.theta, factor, width), width);
    for (std::size_t i = 0; i < power.size(); ++i) {
      const Real plain = 1 / power[i];
      const Real linear = 1 / (static_cast<Real>(factor) * power[i]);
      const Real by_base = 1 / stretched[i];
      const Real take = (1 - ramp<Real>(first, i)) * static_cast<Real>(ntk_share);
      const Real keep = (1 - ramp<Real>(second, i)) * static_cast<Real>(plain_share);
      power[i] = (linear * (1 - take) + by_base * take) * (1 - keep) + plain * keep;
    }
    return power;
  });
  return finished(read, std::move(rotary), std::move(inv_freq), recipe);
}

}  // namespace

Mechanism by_parts() {
  return {.name = kName,
          .aliases = kAliases,
          .site = Site::rotation,
          .summary = "rope mixed pair by pair from plain, NTK-aware and interpolated frequencies",
          .formula =
              "w = theta^(-2i/d), d = rotary_dim, c(r) = d ln(original_length/(2 pi r))/(2 ln theta)\n"
              "share(a, b) = 1 - clamp((i - floor(c(a)))/(ceil(c(b)) - floor(c(a))), 0, 1)\n"
              "take = share(1.25, 0.75) * ntk_factor, keep = share(16, 2) * extrapolation_factor\n"
              "mixed = take theta'^(-2i/d) + (1 - take) w/factor, theta' = theta factor^(d/(d - 2))\n"
              "angle = position * (keep w + (1 - keep) mixed)",
          .paper =
              "bloc97 2023, NTK-by-parts; published code: jquesnelle/yarn, "
              "LlamaPartNTKScaledRotaryEmbedding.py; Peng et al. 2023, arXiv:2309.00071, section 3.2",
          .parameters = kParameters,
          .plan = plan_by_parts};
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// Dynamic NTK scaling: past the trained length the base grows with the length L seen,
// theta' = theta * (factor L/Lmax - (factor - 1))^(d/(d-2)), L = max(seen, Lmax), d = rotary_dim.
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "positions/frequencies.h"
#include "positions/rotary.h"

namespace locant {
namespace {

constexpr std::string_view kName = "dynamic_ntk";
constexpr std::array<std::string_view, 2> kAliases = {"dynamic", "dynamic_ntk_scaling"};

constexpr std::array<ParameterDescription, 2> kOwn = {{
    {"factor", "1", "", "rope_parameters.factor rope_scaling.factor",
     "how fast the base grows past max_positions"},
    {"max_positions", "tokens", "", "max_position_embeddings",
     "length up to which the schedule is the plain one"},
}};
constexpr auto kParameters = with_rotary(kOwn);

/// factor L/Lmax - (factor - 1), to the power d/(d-2), times theta, every step in Real.
template <class Real>
double grown_base(double theta, double factor, double ratio_of, double ratio_to, std::int64_t width) {
  const auto d = static_cast<double>(width);
  const Real grown = static_cast<Real>(factor) * static_cast<Real>(ratio_of) / static_cast<Real>(ratio_to) -
                     static_cast<Real>(factor - 1);
  // torch keeps a scalar exponent in double.
  const auto power = static_cast<Real>(std::pow(static_cast<double>(grown), d / (d - 2)));
  return static_cast<double>(static_cast<Real>(theta) * power);
}

double base_of(double theta, double factor, double trained, std::int64_t width, const Recipe& recipe,
               const Extent& extent) {
  if (recipe.has(Quirk::dynamic_ntk_never)) return theta;
  if (recipe.has(Quirk::dynamic_ntk_from_start)) {
    return grown_base<double>(theta, factor, trained * factor, trained, width);
  }
  const auto seen = static_cast<double>(extent.seen);
  if (seen <= trained) return theta;
  return recipe.numerics.frequency == DType::f32 ? grown_base<float>(theta, factor, seen, trained, width)
                                                 : grown_base<double>(theta, factor, seen, trained, width);
}

SitePlan plan_dynamic_ntk(const PositionSpec& spec, const Recipe& recipe, const Extent& extent) {
  const Parameters read(kName, spec, kParameters);
  Rotary rotary = read_rotary(read, recipe);
  require_pairs(read, rotary);
  const double factor = read.positive("factor");
  if (factor < 1) read.fail("factor", "must be at least 1", fmt::format("{}", factor));
  const auto trained = static_cast<double>(read.integer("max_positions", {.min = 1, .max = kMaxRows}));
  if (recipe.has(Quirk::dynamic_ntk_refused)) {
    throw SpecError(fmt::format("{}: {} has no schedule that follows the length, got factor {}", kName,
                                recipe.name, factor));
  }
  const std::int64_t width = rotary.rotation.width;
  const double base = base_of(rotary.theta, factor, trained, width, recipe, extent);
  auto inv_freq = power_ladder(base, width, recipe.numerics.frequency);
  return finished(read, std::move(rotary), std::move(inv_freq), recipe);
}

}  // namespace

Mechanism dynamic_ntk() {
  return {.name = kName,
          .aliases = kAliases,
          .site = Site::rotation,
          .summary = "rope whose base grows with the length of the text once it passes the trained length",
          .formula =
              "angle = position * theta'^(-2i/rotary_dim), L = max(tokens seen, max_positions)\n"
              "theta' = theta * (factor L/max_positions - (factor - 1))^(rotary_dim/(rotary_dim - 2))",
          .paper =
              "emozilla 2023, Dynamically Scaled RoPE; Peng et al. 2023, YaRN: Efficient Context Window "
              "Extension of Large Language Models, arXiv:2309.00071, section 3.3",
          .parameters = kParameters,
          .plan = plan_dynamic_ntk};
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// Dynamic NTK scaling: past the trained length the base grows with the length L seen, theta' = theta *
// a^(d/(d-2)), L = max(seen, Lmax), d = rotary_dim; a = factor L/Lmax - (factor - 1), or in steps (Qwen-1)
// a = factor^ceil(log_factor(L/Lmax) + 1) - 1.
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "positions/frequencies.h"
#include "positions/rotary.h"

namespace locant {
namespace {

constexpr std::string_view kName = "dynamic_ntk";
constexpr std::array<std::string_view, 2> kAliases = {"dynamic", "dynamic_ntk_scaling"};

constexpr std::array<std::string_view, 2> kGrowths = {"linear", "steps"};

constexpr std::array<ParameterDescription, 3> kOwn = {{
    {"factor", "1", "", "rope_parameters.factor rope_scaling.factor",
     "how fast the base grows past max_positions; steps: how many times longer the text is at each (Qwen-1: "
     "2)"},
    {"max_positions", "tokens", "", "max_position_embeddings seq_length",
     "length up to which the schedule is the plain one"},
    {"growth", "1", "linear", "use_dynamic_ntk",
     "linear in the length, or in steps that cover the length to come (Qwen-1)"},
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

/// The power of factor that follows `ratio` > 1 and one step more, minus 1. Powers are multiplied, so that a
/// length at the edge of a step is decided without a logarithm.
double step_stretch(double factor, double ratio) {
  double reached = 1;
  while (reached < ratio) reached *= factor;
  return reached * factor - 1;
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
  double base = 0;
  if (read.choice("growth", kGrowths) == 1) {
    // Qwen's own code, which every runtime that has it shares.
    if (factor <= 1) read.fail("factor", "must be above 1 for steps", fmt::format("{}", factor));
    const double ratio = static_cast<double>(extent.seen) / trained;
    base = ratio > 1 ? stretched_base(rotary.theta, step_stretch(factor, ratio), width) : rotary.theta;
  } else {
    base = base_of(rotary.theta, factor, trained, width, recipe, extent);
  }
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
              "theta' = theta * a^(rotary_dim/(rotary_dim - 2))\n"
              "linear: a = factor L/max_positions - (factor - 1)\n"
              "steps:  a = factor^ceil(log_factor(L/max_positions) + 1) - 1, 1 up to max_positions",
          .paper =
              "emozilla 2023, Dynamically Scaled RoPE; Peng et al. 2023, YaRN: Efficient Context Window "
              "Extension of Large Language Models, arXiv:2309.00071, section 3.3",
          .parameters = kParameters,
          .plan = plan_dynamic_ntk};
}

}  // namespace locant

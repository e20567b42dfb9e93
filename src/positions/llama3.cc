// SPDX-License-Identifier: Apache-2.0
// Llama 3.1: by wavelength against the original length, short waves are kept, long ones divided by factor,
// those between are mixed (Llama Team 2024; published code of Meta's llama-models).
#include <numbers>
#include <utility>

#include <fmt/format.h>

#include "positions/frequencies.h"
#include "positions/rotary.h"

namespace locant {
namespace {

constexpr std::string_view kName = "llama3";
constexpr std::array<std::string_view, 2> kAliases = {"llama3_scaling", "llama3.1"};

constexpr std::array<ParameterDescription, 4> kOwn = {{
    {"factor", "1", "", "rope_parameters.factor rope_scaling.factor",
     "how many times slower long waves turn"},
    {"original_length", "tokens", "", "rope_parameters.original_max_position_embeddings",
     "length that wavelengths are measured against"},
    {"low_freq_factor", "1", "1", "rope_parameters.low_freq_factor",
     "waves longer than original_length / low_freq_factor are divided"},
    {"high_freq_factor", "1", "4", "rope_parameters.high_freq_factor",
     "waves shorter than original_length / high_freq_factor are kept"},
}};
constexpr auto kParameters = with_rotary(kOwn);

SitePlan plan_llama3(const PositionSpec& spec, const Recipe& recipe, const Extent&) {
  const Parameters read(kName, spec, kParameters);
  Rotary rotary = read_rotary(read, recipe);
  const double stated = read.positive("factor");
  const double factor = recipe.has(Quirk::llama3_ignores_factor) ? 1 : stated;
  const auto length = static_cast<double>(read.integer("original_length", {.min = 1, .max = kMaxRows}));
  const double low = read.positive("low_freq_factor", 1);
  const double high = read.positive("high_freq_factor", 4);
  if (low > high) {
    read.fail("low_freq_factor", fmt::format("must be at most high_freq_factor {}", high),
              fmt::format("{}", low));
  }
  auto inv_freq = in_arithmetic(recipe.numerics.frequency, [&](auto zero) {
    using Real = decltype(zero);
    const auto longest = static_cast<Real>(length / low);
    const auto shortest = static_cast<Real>(length / high);
    auto power = powers<Real>(rotary.theta, rotary.rotation.width);
    for (Real& one : power) {
      // A number over a tensor is, in torch, the number times the rounded reciprocal.
      const Real w = 1 / one;
      const Real wave = 1 / w * static_cast<Real>(2 * std::numbers::pi);
      one = w;
      if (wave > longest) {
        one = w / static_cast<Real>(factor);
      } else if (wave >= shortest && low < high) {
        const Real keep =
            (1 / wave * static_cast<Real>(length) - static_cast<Real>(low)) / static_cast<Real>(high - low);
        one = (1 - keep) * w / static_cast<Real>(factor) + keep * w;
      }
    }
    return power;
  });
  return finished(read, std::move(rotary), std::move(inv_freq), recipe);
}

}  // namespace

Mechanism llama3() {
  return {.name = kName,
          .aliases = kAliases,
          .site = Site::rotation,
          .summary = "rope that keeps short waves, divides long ones by a factor and mixes between",
          .formula =
              "w = theta^(-2i/rotary_dim), turns = original_length w / (2 pi)\n"
              "keep = clamp((turns - low_freq_factor)/(high_freq_factor - low_freq_factor), 0, 1)\n"
              "angle = position * (w keep + w/factor (1 - keep))",
          .paper =
              "Llama Team 2024, The Llama 3 Herd of Models, arXiv:2407.21783, section 3.4.2; "
              "published code: meta-llama/llama-models, models/llama3/model.py, apply_scaling",
          .parameters = kParameters,
          .plan = plan_llama3};
}

}  // namespace locant

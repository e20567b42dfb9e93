// SPDX-License-Identifier: Apache-2.0
// LongRoPE ("su"): inv_freq[i] = 1 / (f[i] theta^(2i/d)), f = the long factors once the text is longer than
// the original length, the short ones before; amplitude sqrt(1 + ln(s)/ln(original length)), s the ratio of
// lengths (Ding et al. 2024).
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "positions/frequencies.h"
#include "positions/rotary.h"

namespace locant {
namespace {

constexpr std::string_view kName = "longrope";
constexpr std::array<std::string_view, 2> kAliases = {"su", "phi3_longrope"};

constexpr std::array<ParameterDescription, 8> kOwn = {{
    {"short_factor", "1 per pair", "",
     "rope_parameters.short_factor rope_scaling.short_factor rope_factors_short.weight",
     "divisors of the frequencies up to the original length"},
    {"long_factor", "1 per pair", "",
     "rope_parameters.long_factor rope_scaling.long_factor rope_factors_long.weight",
     "divisors of the frequencies past it"},
    {"original_length", "tokens", "",
     "original_max_position_embeddings rope_parameters.original_max_position_embeddings "
     "rope.scaling.original_context_length",
     "longest text under the short factors"},
    {"max_positions", "tokens", "original_length", "max_position_embeddings",
     "length after scaling; its ratio to the original gives the amplitude"},
    {"factor", "1", "none", "rope_parameters.factor", "that ratio, where a config states it"},
    {"attention_factor", "1", "none", "rope_parameters.attention_factor rope.scaling.attn_factor",
     "amplitude of cos and sin, instead of one from the ratio"},
    {"short_mscale", "1", "none", "rope_parameters.short_mscale",
     "amplitude under the short factors (PhiMoE)"},
    {"long_mscale", "1", "none", "rope_parameters.long_mscale", "amplitude under the long factors (PhiMoE)"},
}};
constexpr auto kParameters = with_rotary(kOwn);

struct Lengths {
  std::int64_t original = 0;
  std::int64_t most = 0;  ///< after scaling
};

/// Whether the text, as the recipe measures it, is past the original length.
bool past_original(const Lengths& lengths, const Recipe& recipe, const Extent& extent) {
  if (recipe.has(Quirk::longrope_always_long)) return true;
  if (recipe.has(Quirk::longrope_by_capacity)) {
    return (extent.capacity > 0 ? extent.capacity : lengths.most) > lengths.original;
  }
  if (recipe.has(Quirk::longrope_by_table)) {
    constexpr std::int64_t kRows = 2048;
    return std::max(kRows, extent.seen) > lengths.original;
  }
  return extent.seen - (recipe.has(Quirk::longrope_one_later) ? 1 : 0) > lengths.original;
}

double amplitude_of(const Parameters& read, const Lengths& lengths, bool past, const Recipe& recipe) {
  if (read.has("short_mscale") || read.has("long_mscale")) {
    const double small = read.positive("short_mscale");
    const double large = read.positive("long_mscale");
    return past ? large : small;
  }
  const auto original = static_cast<double>(lengths.original);
  // A GGUF file holds the amplitude that its converter computed, a family's rule has no key: both are kept.
  const std::string_view key = read.key("attention_factor");
  const bool lengths_only = recipe.has(Quirk::longrope_ignores_attention_factor) &&
                            !(read.has("attention_factor") && key.empty()) &&
                            !key.ends_with("rope.scaling.attn_factor");
  double ratio = static_cast<double>(lengths.most) / original;
  if (recipe.has(Quirk::longrope_whole_ratio)) ratio = std::floor(ratio);
  const double stated_ratio = read.positive("factor", ratio);
  const double s = lengths_only ? ratio : stated_ratio;
  const double formula = s <= 1 ? 1 : std::sqrt(1 + std::log(s) / std::log(original));
  const double stated = read.positive("attention_factor", formula);
  return lengths_only ? formula : stated;
}

std::vector<double> read_factors(const Parameters& read, std::string_view name, std::int64_t pairs) {
  std::vector<double> factors = read.list(name, pairs);
  for (const double one : factors) {
    if (one <= 0) read.fail(name, "must be above 0", std::to_string(one));
  }
  return factors;
}

SitePlan plan_longrope(const PositionSpec& spec, const Recipe& recipe, const Extent& extent) {
  const Parameters read(kName, spec, kParameters);
  Rotary rotary = read_rotary(read, recipe);
  const std::int64_t pairs = rotary.rotation.width / 2;
  const std::vector<double> shorts = read_factors(read, "short_factor", pairs);
  const std::vector<double> longs = read_factors(read, "long_factor", pairs);
  // ln(original) divides: one token has no ratio.
  Lengths lengths{.original = read.integer("original_length", {.min = 2, .max = kMaxRows})};
  lengths.most = read.integer("max_positions", {.min = 1, .max = kMaxRows}, lengths.original);
  const bool past = past_original(lengths, recipe, extent);
  rotary.rotation.amplitude = amplitude_of(read, lengths, past, recipe);
  const bool keeps_short = read.has("short_mscale") && recipe.has(Quirk::longrope_pair_keeps_short);
  const std::vector<double>& factors = past && !keeps_short ? longs : shorts;
  auto inv_freq = in_arithmetic(recipe.numerics.frequency, [&](auto zero) {
    using Real = decltype(zero);
    auto power = powers<Real>(rotary.theta, rotary.rotation.width);
    for (std::size_t i = 0; i < power.size(); ++i) power[i] = 1 / (static_cast<Real>(factors[i]) * power[i]);
    return power;
  });
  return finished(read, std::move(rotary), std::move(inv_freq), recipe);
}

}  // namespace

Mechanism longrope() {
  return {.name = kName,
          .aliases = kAliases,
          .site = Site::rotation,
          .summary = "rope with a divisor per pair, one list for short texts and one for long ones",
          .formula =
              "angle = position / (f[i] theta^(2i/rotary_dim))\n"
              "f = long_factor once more than original_length tokens are seen, otherwise short_factor\n"
              "amplitude = attention_factor, or sqrt(1 + ln(s)/ln(original_length)), "
              "s = max_positions/original_length",
          .paper =
              "Ding et al. 2024, LongRoPE: Extending LLM Context Window Beyond 2 Million Tokens, "
              "arXiv:2402.13753; Abdin et al. 2024, Phi-3 Technical Report, arXiv:2404.14219",
          .parameters = kParameters,
          .plan = plan_longrope};
}

}  // namespace locant

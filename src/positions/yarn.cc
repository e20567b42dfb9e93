// SPDX-License-Identifier: Apache-2.0
// YaRN: pairs that turn often over the original length keep their frequency, pairs that hardly turn are
// divided by factor, those between are mixed; cos and sin are multiplied by one amplitude (Peng et al. 2023,
// section 3.2 and 3.4). DeepSeek's YaRN is this with mscale and mscale_all_dim.
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "positions/frequencies.h"
#include "positions/rotary.h"

namespace locant {
namespace {

constexpr std::string_view kName = "yarn";
constexpr std::array<std::string_view, 2> kAliases = {"deepseek_yarn", "yarn_scaling"};
constexpr std::array<std::string_view, 4> kDeclared = {"yarn", "original", "telechat3-yarn", "deepseek_yarn"};
constexpr std::size_t kOriginal = 1;  // places in kDeclared
constexpr std::size_t kTelechat = 2;
constexpr std::size_t kDeepseek = 3;

constexpr std::array<ParameterDescription, 11> kOwn = {{
    {"factor", "1", "", "rope_parameters.factor rope_scaling.factor rope.scaling.factor",
     "how many times slower the slow pairs turn"},
    {"original_length", "tokens", "",
     "rope_parameters.original_max_position_embeddings original_max_position_embeddings "
     "rope.scaling.original_context_length",
     "length over which turns are counted"},
    {"max_positions", "tokens", "none", "max_position_embeddings",
     "length after scaling; stands in for original_length or gives factor where a config lacks one"},
    {"beta_fast", "turns", "32", "rope_parameters.beta_fast rope.scaling.yarn_beta_fast",
     "pairs with more turns over the original length are kept"},
    {"beta_slow", "turns", "1", "rope_parameters.beta_slow rope.scaling.yarn_beta_slow",
     "pairs with fewer turns are divided by factor"},
    {"extrapolation_factor", "1", "1", "rope_parameters.extrapolation_factor rope.scaling.yarn_ext_factor",
     "share of the kept frequencies; 0 divides every pair by factor"},
    {"truncate", "1", "1", "rope_parameters.truncate",
     "1 rounds the edges of the mixed pairs outwards to whole pairs, 0 does not"},
    {"attention_factor", "1", "none", "rope_parameters.attention_factor rope.scaling.yarn_attn_factor",
     "amplitude of cos and sin, instead of one from factor"},
    {"mscale", "1", "none", "rope_parameters.mscale",
     "amplitude g(mscale)/g(mscale_all_dim) when both are there"},
    {"mscale_all_dim", "1", "none", "rope_parameters.mscale_all_dim rope.scaling.yarn_log_multiplier",
     "the part of the amplitude that the scale of the scores carries instead"},
    {"declared", "1", "yarn", "rope_parameters.rope_type rope_type",
     "the type of a config or of its family: yarn, deepseek_yarn, original (Grok-2: nothing is scaled) or "
     "telechat3-yarn (0.07 for 0.1)"},
}};
constexpr auto kParameters = with_rotary(kOwn);

/// g(m) = per_log * m * ln(factor) + 1, 1 where nothing is stretched.
double magnitude(double factor, double mscale, double per_log) {
  return factor <= 1 ? 1 : per_log * mscale * std::log(factor) + 1;
}

double amplitude_of(const Parameters& read, double factor, std::size_t declared, const Recipe& recipe) {
  const bool telechat = declared == kTelechat && !recipe.has(Quirk::yarn_plain_telechat_magnitude);
  const auto g = [&](double mscale) { return magnitude(factor, mscale, telechat ? 0.07 : 0.1); };
  if (read.has("attention_factor")) {
    const double stated = read.positive("attention_factor");
    // Without a key it is a rule of the family, which every runtime has in its own code (DeepSeek-V4).
    const bool of_family = read.key("attention_factor").empty();
    if (of_family || !recipe.has(Quirk::yarn_ignores_attention_factor)) return stated;
  }
  const double mscale = read.number("mscale", 0);
  const double all = read.number("mscale_all_dim", 0);
  const bool ignored = recipe.has(Quirk::yarn_ignores_mscale_pair);
  if (ignored && declared != kDeepseek) return g(1);
  if (ignored || recipe.has(Quirk::yarn_mscale_defaults)) return g(read.number("mscale", 1)) / g(all);
  if (recipe.has(Quirk::yarn_mscale_is_mscale_all_dim)) {
    if (all == 0) return g(1);
    return declared == kDeepseek || mscale == all ? 1 : g(1) / g(all);
  }
  if (recipe.has(Quirk::yarn_mscale_alone_is_amplitude) && mscale > 0 && all == 0) return mscale;
  return mscale != 0 && all != 0 ? g(mscale) / g(all) : g(1);
}

double original_length(const Parameters& read, const Recipe& recipe) {
  const IntegerRange range = {.min = 1, .max = kMaxRows};
  std::optional<std::int64_t> fallback;
  if (read.has("max_positions")) fallback = read.integer("max_positions", range);
  if (recipe.has(Quirk::yarn_original_is_1024)) fallback = 1024;
  if (recipe.has(Quirk::yarn_original_is_4096)) fallback = 4096;
  return static_cast<double>(read.integer("original_length", range, fallback));
}

double factor_of(const Parameters& read, double original) {
  if (!read.has("max_positions")) return read.positive("factor");
  const auto most = static_cast<double>(read.integer("max_positions", {.min = 1, .max = kMaxRows}));
  return read.positive("factor", most / original);
}

/// "rope_parameters.full_attention.truncate": from the block of one layer type.
bool of_layer_type(std::string_view key) {
  constexpr std::string_view kBlock = "rope_parameters.";
  const std::size_t block = key.find(kBlock);
  return block != std::string_view::npos && key.find('.', block + kBlock.size()) != std::string_view::npos;
}

BandEdges edges_of(const Parameters& read, const Recipe& recipe) {
  const bool stated = read.integer("truncate", {.min = 0, .max = 1}, 1) == 1;
  if (recipe.has(Quirk::yarn_truncates_layer_types) && of_layer_type(read.key("truncate")))
    return BandEdges::whole;
  if (recipe.has(Quirk::yarn_always_truncates)) return BandEdges::whole;
  if (recipe.has(Quirk::yarn_never_truncates)) return BandEdges::real;
  return stated ? BandEdges::whole : BandEdges::real;
}

SitePlan plan_yarn(const PositionSpec& spec, const Recipe& recipe, const Extent&) {
  const Parameters read(kName, spec, kParameters);
  Rotary rotary = read_rotary(read, recipe);
  require_base_above_one(read, rotary);
  const double original = original_length(read, recipe);
  const double factor = factor_of(read, original);
  if (recipe.has(Quirk::yarn_refused)) {
    throw SpecError(fmt::format("{}: {} has no such schedule, got factor {}", kName, recipe.name, factor));
  }
  const bool quadrupled =
      !rotary.rotation.axis.empty() && recipe.has(Quirk::yarn_sections_quadruple_original);
  const Turns turns = {.many = read.positive("beta_fast", 32),
                       .few = read.positive("beta_slow", 1),
                       .length = quadrupled ? 4 * original : original};
  const double stated = read.number("extrapolation_factor", 1);
  const double kept = recipe.has(Quirk::yarn_ignores_extrapolation_factor) ? 1 : stated;
  const Band band = band_of(rotary.theta, rotary.rotation.width, turns, edges_of(read, recipe));
  const std::size_t declared = read.choice("declared", kDeclared);
  const bool unscaled = declared == kOriginal && !recipe.has(Quirk::yarn_reads_grok_original);
  const double amplitude = amplitude_of(read, factor, declared, recipe);
  rotary.rotation.amplitude = unscaled ? 1 : amplitude;
  auto inv_freq = in_arithmetic(recipe.numerics.frequency, [&](auto zero) {
    using Real = decltype(zero);
    auto power = powers<Real>(rotary.theta, rotary.rotation.width);
    for (std::size_t i = 0; i < power.size(); ++i) {
      const Real fast = 1 / power[i];
      const Real slow = 1 / (static_cast<Real>(factor) * power[i]);
      const Real keep = (1 - ramp<Real>(band, i)) * static_cast<Real>(kept);
      power[i] = unscaled ? fast : slow * (1 - keep) + fast * keep;
    }
    return power;
  });
  return finished(read, std::move(rotary), std::move(inv_freq), recipe);
}

}  // namespace

Mechanism yarn() {
  return {.name = kName,
          .aliases = kAliases,
          .site = Site::rotation,
          .summary = "rope that keeps fast pairs, slows slow ones by a factor and scales cos and sin",
          .formula =
              "w = theta^(-2i/d), d = rotary_dim, c(r) = d ln(original_length/(2 pi r))/(2 ln theta)\n"
              "low = floor(c(beta_fast)) >= 0, high = ceil(c(beta_slow)) <= d - 1\n"
              "keep = (1 - clamp((i - low)/(high - low), 0, 1)) * extrapolation_factor\n"
              "angle = position * (w keep + w/factor (1 - keep))\n"
              "amplitude = attention_factor, or g(mscale)/g(mscale_all_dim), or g(1); g(m) = 0.1 m "
              "ln(factor) + 1",
          .paper =
              "Peng et al. 2023, YaRN: Efficient Context Window Extension of Large Language Models, "
              "arXiv:2309.00071, sections 3.2 and 3.4; DeepSeek-AI 2024, DeepSeek-V2, arXiv:2405.04434, "
              "section 3.1.4",
          .parameters = kParameters,
          .plan = plan_yarn};
}

}  // namespace locant

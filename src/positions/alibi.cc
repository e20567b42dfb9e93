// SPDX-License-Identifier: Apache-2.0
// ALiBi: slope[h] * (key position - query position) is added to the scores (Press et al. 2022, eq. 1).
// n heads, a power of two: slope[k] = 2^(-bias_max k/n), k = 1 .. n. Otherwise the slopes of the largest
// power of two c < n, then every other slope of 2c heads, as in the authors' code. Bidirectional: -slope |i -
// j|.
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "positions/parameters.h"

namespace locant {
namespace {

constexpr std::string_view kName = "alibi";
constexpr std::array<std::string_view, 2> kAliases = {"linear_bias", "attention_with_linear_biases"};
constexpr std::array<std::string_view, 2> kOrders = {"after_scale", "before_scale"};

constexpr std::array<std::string_view, 2> kDirections = {"causal", "bidirectional"};
constexpr std::array<std::string_view, 3> kCounts = {"query", "sequence_start", "sequence_end"};
constexpr std::array<std::string_view, 3> kRoundings = {"unrounded", "bf16", "f16"};

constexpr std::array<ParameterDescription, 7> kParameters = {{
    {"heads", "heads", "", "n_head num_attention_heads n_heads attention.head_count", "query heads"},
    {"bias_max", "1", "8", "alibi_bias_max attn_config.alibi_bias_max attention.max_alibi_bias",
     "the last slope of a power of two of heads is 2^-bias_max"},
    {"scale_order", "1", "after_scale", "",
     "whether the bias is added after the scores are scaled (after_scale) or to q.k before it "
     "(before_scale)"},
    {"direction", "1", "causal", "",
     "causal (slope times key - query) or bidirectional (-slope times the distance: encoders)"},
    {"counts_from", "1", "query", "",
     "where keys are counted from: query, sequence_start or sequence_end; equal after softmax"},
    {"slopes", "1/token", "none", "", "one slope per head in place of the computed ones"},
    {"slope_dtype", "1", "unrounded", "",
     "what the slopes are rounded to before use: unrounded, bf16 (Falcon in transformers) or f16"},
}};

/// slope = base^k, base = 2^(-bias_max/count).
double slope(double bias_max, std::int64_t count, std::int64_t k, DType frequency) {
  if (frequency == DType::f32) {
    const auto base = static_cast<float>(std::exp2(-bias_max / static_cast<double>(count)));
    return static_cast<double>(
        static_cast<float>(std::pow(static_cast<double>(base), static_cast<double>(k))));
  }
  return std::exp2(-bias_max * static_cast<double>(k) / static_cast<double>(count));
}

std::vector<double> slopes_in(std::int64_t heads, double bias_max, DType frequency) {
  std::int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<double> slopes;
  slopes.reserve(static_cast<std::size_t>(heads));
  for (std::int64_t k = 1; k <= power; ++k) slopes.push_back(slope(bias_max, power, k, frequency));
  for (std::int64_t k = 1; static_cast<std::int64_t>(slopes.size()) < heads; k += 2) {
    slopes.push_back(slope(bias_max, 2 * power, k, frequency));
  }
  return slopes;
}

double rounded(double slope, std::size_t rounding) {
  const auto narrow = static_cast<float>(slope);
  if (rounding == 1) return static_cast<double>(f32_from(bfloat16_from_f32(narrow)));
  if (rounding == 2) return static_cast<double>(f32_from(half_from_f32(narrow)));
  return slope;
}

SitePlan plan_alibi(const PositionSpec& spec, const Recipe& recipe, const Extent&) {
  const Parameters read(kName, spec, kParameters);
  Bias bias;
  bias.form = BiasForm::slopes;
  bias.heads = read.integer("heads", {.min = 1, .max = kMaxHeads});
  const double bias_max = read.positive("bias_max", 8);
  bias.scale_order =
      read.choice("scale_order", kOrders) == 0 ? ScaleOrder::after_scale : ScaleOrder::before_scale;
  bias.bidirectional = read.choice("direction", kDirections) == 1;
  bias.counts_from = std::array{CountsFrom::query, CountsFrom::sequence_start, CountsFrom::sequence_end}.at(
      read.choice("counts_from", kCounts));
  if (bias.bidirectional && bias.counts_from != CountsFrom::query) {
    read.fail("counts_from", "must be query when the direction is bidirectional",
              kCounts.at(read.choice("counts_from", kCounts)));
  }
  if (read.has("slopes") && read.has("bias_max")) {
    read.fail("slopes", "must not be stated beside bias_max", "both");
  }
  bias.slopes = read.has("slopes") ? read.list("slopes", bias.heads)
                                   : slopes_in(bias.heads, bias_max, recipe.numerics.frequency);
  std::size_t rounding = read.choice("slope_dtype", kRoundings);
  const bool falcon = bias.scale_order == ScaleOrder::before_scale && !read.has("slope_dtype");
  if (falcon && recipe.has(Quirk::slopes_bf16_before_scale)) rounding = 1;
  for (double& one : bias.slopes) one = rounded(one, rounding);
  return bias;
}

}  // namespace

std::vector<double> alibi_slopes(std::int64_t heads, double bias_max) {
  if (heads < 1 || heads > kMaxHeads) {
    throw SpecError(
        fmt::format("alibi: heads must be a whole number from 1 to {}, got {}", kMaxHeads, heads));
  }
  if (!std::isfinite(bias_max) || bias_max <= 0) {
    throw SpecError(fmt::format("alibi: bias_max must be a finite number above 0, got {}", bias_max));
  }
  return slopes_in(heads, bias_max, DType::f64);
}

Mechanism alibi() {
  return {.name = kName,
          .aliases = kAliases,
          .site = Site::bias,
          .summary = "adds a penalty to the attention scores that grows linearly with the distance",
          .formula =
              "score[h, i, j] += slope[h] * (j - i)\n"
              "bidirectional: score[h, i, j] -= slope[h] * |i - j|\n"
              "slope[k] = 2^(-bias_max k/heads), k = 1 .. heads, heads a power of two\n"
              "otherwise: the slopes of the power of two c below, then k = 1, 3, 5, .. of 2c heads",
          .paper =
              "Press, Smith, Lewis 2022, Train Short, Test Long: Attention with Linear Biases Enables "
              "Input Length Extrapolation, arXiv:2108.12409, section 3",
          .parameters = kParameters,
          .plan = plan_alibi};
}

}  // namespace locant

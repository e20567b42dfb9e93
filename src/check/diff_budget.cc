// SPDX-License-Identifier: Apache-2.0
#include "check/diff_budget.h"

#include <algorithm>
#include <cmath>

namespace locant::check_room {
namespace {

// 1e8 normally distributed errors stay within 5.7 of their deviation; both sides have their own
constexpr double kTail = 6;
constexpr double kBothSides = 2;
constexpr double kSingle = 0x1p-24;

// Roundings, each as large as one of the element's own. Inside a layer: norm and projection, rotation,
// product, softmax (whose weights move by the error of the scores, up to a few units: they count four times
// as much), weighted sum, output projection, norm, three products, two sums.
constexpr double kBefore = 2;
constexpr double kPerLayer = 24;

double stages_in_layer(const FlowName& name) {
  if (name.part == "q_pre" || name.part == "k_pre" || name.part == "v" || name.part == "cache.v" ||
      name.part == "cache.latent")
    return 3;
  if (name.part == "scores" || name.part == "bias") return 6;
  if (name.part == "probs") return 16;
  if (name.part == "attn.out") return 20;
  return name.part == "out" ? kPerLayer : 5;
}

double stages(const FlowName& name, std::int64_t layers) {
  if (name.layer >= 0) {
    const double cross = name.cross ? kPerLayer / 2 : 0;
    return kBefore + kPerLayer * static_cast<double>(name.layer) + stages_in_layer(name) + cross;
  }
  if (name.axes == Axes::table || name.bare.starts_with("embed.")) return kBefore;
  return kBefore + kPerLayer * static_cast<double>(layers) + (name.bare == "logits" ? 4 : 2);
}

}  // namespace

double rounding_budget(const FlowName& name, const Rounding& rounding) {
  const double step = half_step(rounding.dtype);
  const bool looked_up = name.axes == Axes::table || name.bare.starts_with("embed.");
  // a sum of K products in f32 or wider: K roundings of partial sums, which are smaller than the whole
  const double sum = std::min(step, kSingle);
  const double terms = looked_up ? 0 : static_cast<double>(rounding.width);
  const double variance = step * step + terms * sum * sum;
  // the scores of a few keys may all be small beside the products that are summed
  const double cancelled = name.part == "scores" ? 2 : 1;
  return cancelled * kTail * std::sqrt(kBothSides * stages(name, rounding.layers) * variance);
}

double angle_budget(const FlowName& name, std::int64_t position) {
  const bool turned = name.axes == Axes::table || name.bare == "logits" || name.bare == "final_norm.out" ||
                      name.bare == "pooled" || (name.layer > 0) ||
                      (name.layer == 0 && stages_in_layer(name) > 3);
  // frequency and product are rounded in f32 on both sides; no pair turns by more than 1 rad/token
  return turned ? 4 * kSingle * static_cast<double>(std::abs(position)) : 0;
}

double factor_budget(DType dtype, double count) {
  // a rounding is spread evenly over its step; squares of normal values count a third of their number
  const double single = half_step(dtype) / std::sqrt(3.0);
  return kTail * single * std::sqrt(kBothSides * 3 / std::max(count, 1.0)) +
         4 * std::min(half_step(dtype), kSingle);
}

}  // namespace locant::check_room

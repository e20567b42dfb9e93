// SPDX-License-Identifier: Apache-2.0
// softmax(scores) v over the slots a query sees (Vaswani et al. 2017, eq. 1; Press et al. 2022, section 3;
// Raffel et al. 2020, section 2.1), and the logarithm of a sum of exponentials.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include "reference/reference.h"

namespace locant::reference {

bool sees(const Attention& a, std::int64_t t, std::int64_t slot) {
  const std::int64_t own = a.first_slot + t;
  switch (a.reach) {
    case Reach::past:
      return slot <= own;
    case Reach::window:
      return slot <= own && slot > own - a.window;
    case Reach::chunk:
      return slot <= own && slot / a.window == own / a.window;
    case Reach::all:
      return true;
    case Reach::around:
      return std::abs(slot - own) <= a.window;
  }
  return false;
}

double score(const Attention& a, std::int64_t t, std::int64_t h, std::int64_t slot) {
  const std::int64_t kv_head = h / (a.q.extent(1) / a.keys.extent(0));
  double dot = 0;
  for (std::int64_t c = 0; c < a.q.extent(2); ++c) dot += a.q(t, h, c) * a.keys(kv_head, slot, c);
  double score = a.scale * dot;
  if (a.softcap > 0) score = a.softcap * std::tanh(score / a.softcap);
  if (!a.slopes.empty()) {
    score -= a.slopes(h) * static_cast<double>(std::abs(a.key_positions(slot) - a.query_positions(t)));
  }
  if (!a.relative.empty()) {
    const std::int64_t column = a.relative_zero + a.key_positions(slot) - a.query_positions(t);
    score += a.relative(h, std::clamp(column, std::int64_t{0}, a.relative.extent(1) - 1));
  }
  if (!a.bias.empty()) score += a.bias(h, t, slot);
  return score;
}

void attend(const Attention& a, View<double, 3> out) {
  for (std::int64_t t = 0; t < a.q.extent(0); ++t) {
    for (std::int64_t h = 0; h < a.q.extent(1); ++h) {
      const std::int64_t kv_head = h / (a.q.extent(1) / a.keys.extent(0));
      std::vector<std::int64_t> slots;
      std::vector<double> weight;
      for (std::int64_t s = 0; s < a.keys.extent(1); ++s) {
        if (!sees(a, t, s)) continue;
        slots.push_back(s);
        weight.push_back(score(a, t, h, s));
      }
      double top = *std::max_element(weight.begin(), weight.end());
      if (!a.sinks.empty()) top = std::max(top, a.sinks(h));
      double sum = a.sinks.empty() ? 0 : std::exp(a.sinks(h) - top);
      for (double& w : weight) sum += w = std::exp(w - top);
      for (std::int64_t c = 0; c < a.values.extent(2); ++c) {
        double mean = 0;
        for (std::size_t i = 0; i < slots.size(); ++i) mean += weight[i] * a.values(kv_head, slots[i], c);
        out(t, h, c) = mean / sum;
      }
    }
  }
}

double log_sum_exp(std::span<const double> logits) {
  if (logits.empty()) return -std::numeric_limits<double>::infinity();
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double x : logits) sum += std::exp(x - top);
  return top + std::log(sum);
}

}  // namespace locant::reference

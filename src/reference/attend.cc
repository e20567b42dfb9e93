// SPDX-License-Identifier: Apache-2.0
// softmax(scale q k^T + slope (key position - query position)) v over the slots a query sees (Vaswani et al.
// 2017, eq. 1; Press et al. 2022, section 3), and the logarithm of a sum of exponentials.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "reference/reference.h"

namespace locant::reference {

double score(const Attention& a, std::int64_t t, std::int64_t h, std::int64_t slot) {
  const std::int64_t kv_head = h / (a.q.extent(1) / a.keys.extent(0));
  double dot = 0;
  for (std::int64_t c = 0; c < a.q.extent(2); ++c) dot += a.q(t, h, c) * a.keys(kv_head, slot, c);
  double score = a.scale * dot;
  if (!a.slopes.empty()) {
    score += a.slopes(h) * static_cast<double>(a.key_positions(slot) - a.query_positions(t));
  }
  return score;
}

void attend(const Attention& a, View<double, 3> out) {
  for (std::int64_t t = 0; t < a.q.extent(0); ++t) {
    for (std::int64_t h = 0; h < a.q.extent(1); ++h) {
      const std::int64_t kv_head = h / (a.q.extent(1) / a.keys.extent(0));
      const std::int64_t seen = a.first_slot + t + 1;
      std::vector<double> weight(static_cast<std::size_t>(seen));
      for (std::int64_t s = 0; s < seen; ++s) weight[static_cast<std::size_t>(s)] = score(a, t, h, s);
      const double top = *std::max_element(weight.begin(), weight.end());
      double sum = 0;
      for (double& w : weight) sum += w = std::exp(w - top);
      for (std::int64_t c = 0; c < a.values.extent(2); ++c) {
        double mean = 0;
        for (std::int64_t s = 0; s < seen; ++s)
          mean += weight[static_cast<std::size_t>(s)] * a.values(kv_head, s, c);
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

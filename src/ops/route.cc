// SPDX-License-Identifier: Apache-2.0
// The experts of each token (Shazeer et al. 2017; DeepSeek-V2, section 2.2.2: groups are chosen first;
// DeepSeek-V3, section 2.1.2: sigmoid scores, and a correction for choosing alone).
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "locant/ops.h"
#include "ops/check.h"

namespace locant {
namespace {

using namespace check_ops;

constexpr std::int64_t kExperts = 1024;
constexpr double kNever = -std::numeric_limits<double>::infinity();

void check_groups(const RouteCall& call) {
  const std::int64_t experts = call.logits.extent(1);
  if (call.groups < 1 || experts % call.groups != 0)
    fail("route: {} experts are no multiple of {} groups", experts, call.groups);
  if (call.chosen_groups < 1 || call.chosen_groups > call.groups)
    fail("route: chosen_groups is {}, expected 1 to {}", call.chosen_groups, call.groups);
  const std::int64_t size = experts / call.groups;
  if (call.groups > 1 && call.group_score == GroupScore::two_largest && size < 2)
    fail("route: groups hold {} expert, two_largest needs 2", size);
  const std::int64_t chosen = call.ids.extent(1);
  const std::int64_t most = call.groups > 1 ? call.chosen_groups * size : experts;
  if (chosen < 1 || chosen > most) fail("route: {} experts are chosen, expected 1 to {}", chosen, most);
}

void check_route(const RouteCall& call) {
  readable("route", "logits", call.logits);
  const std::int64_t tokens = call.logits.extent(0);
  const std::int64_t experts = call.logits.extent(1);
  if (experts < 1 || experts > kExperts)
    fail("route: logits are {}, expected [tokens, experts] with 1 to {} experts", text(call.logits),
         kExperts);
  if (call.ids.extent(0) != tokens)
    fail("route: ids is {}, expected [tokens={}, chosen]", text(call.ids), tokens);
  has_shape("route", "weights", call.weights, {call.ids.shape(), {"tokens", "chosen"}});
  check_groups(call);
  writable("route", "ids", call.ids);
  writable("route", "weights", call.weights);
  if (!call.correction.empty()) vector("route", "correction", call.correction, experts, "experts");
  if (!std::isfinite(call.scale)) fail("route: scale is {}, expected a finite number", call.scale);
  const Extent ids = extent_of(call.ids);
  const Extent weights = extent_of(call.weights);
  if (overlap(ids, weights)) fail("route: ids overlap weights");
  for (const Extent& in : {extent_of(call.logits), extent_of(call.correction)}) {
    if (overlap(in, ids) || overlap(in, weights)) fail("route: ids or weights overlap what is read");
  }
}

// One token's scores, and what chooses among them.
struct Scores {
  std::array<double, kExperts> score;
  std::array<double, kExperts> choice;
  std::array<bool, kExperts> open;
};

// x[0, n) becomes its softmax.
void soften(double* x, std::int64_t n) {
  double top = kNever;
  for (std::int64_t i = 0; i < n; ++i) top = std::max(top, x[i]);
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += x[i] = std::exp(x[i] - top);
  for (std::int64_t i = 0; i < n; ++i) x[i] /= sum;
}

void score_experts(const RouteCall& call, std::int64_t t, Scores& s) {
  const std::int64_t experts = call.logits.extent(1);
  for (std::int64_t e = 0; e < experts; ++e) {
    const auto logit = static_cast<double>(call.logits(t, e));
    s.score[static_cast<std::size_t>(e)] =
        call.score == RouterScore::sigmoid ? 1 / (1 + std::exp(-logit)) : logit;
  }
  if (call.score == RouterScore::softmax) soften(s.score.data(), experts);
  for (std::size_t e = 0; e < static_cast<std::size_t>(experts); ++e) {
    const double more =
        call.correction.empty() ? 0 : static_cast<double>(call.correction(static_cast<std::int64_t>(e)));
    s.choice[e] = s.score[e] + more;
  }
}

// The open expert that chooses best, the smallest of equal ones; NaN comes last.
std::int64_t best(const Scores& s, std::int64_t experts) {
  std::int64_t found = -1;
  double held = kNever;
  for (std::int64_t e = 0; e < experts; ++e) {
    if (!s.open[static_cast<std::size_t>(e)]) continue;
    const double offered = s.choice[static_cast<std::size_t>(e)];
    if (found < 0 || offered > held || (std::isnan(held) && !std::isnan(offered))) {
      found = e;
      held = offered;
    }
  }
  return found;
}

double group_value(const RouteCall& call, const Scores& s, std::int64_t first, std::int64_t end) {
  double largest = kNever;
  double second = kNever;
  for (std::int64_t e = first; e < end; ++e) {
    const double x = s.choice[static_cast<std::size_t>(e)];
    if (x > largest) {
      second = largest;
      largest = x;
    } else if (x > second) {
      second = x;
    }
  }
  return call.group_score == GroupScore::largest ? largest : largest + second;
}

// Closes the experts of all groups but the best.
void choose_groups(const RouteCall& call, Scores& s) {
  s.open.fill(true);
  if (call.groups == 1) return;
  const std::int64_t size = call.logits.extent(1) / call.groups;
  std::array<double, kExperts> value;
  for (std::int64_t g = 0; g < call.groups; ++g)
    value[static_cast<std::size_t>(g)] = group_value(call, s, g * size, (g + 1) * size);
  for (std::int64_t g = 0; g < call.groups; ++g) {
    std::int64_t ahead = 0;
    for (std::int64_t other = 0; other < call.groups; ++other) {
      const double a = value[static_cast<std::size_t>(other)];
      const double b = value[static_cast<std::size_t>(g)];
      if (a > b || (a == b && other < g)) ++ahead;
    }
    if (ahead < call.chosen_groups) continue;
    std::fill_n(s.open.begin() + g * size, size, false);
  }
}

void route_token(const RouteCall& call, std::int64_t t, Scores& s) {
  const std::int64_t experts = call.logits.extent(1);
  const std::int64_t chosen = call.ids.extent(1);
  score_experts(call, t, s);
  choose_groups(call, s);
  std::array<double, kExperts> weight;
  for (std::int64_t i = 0; i < chosen; ++i) {
    const std::int64_t e = best(s, experts);
    call.ids(t, i) = e;
    weight[static_cast<std::size_t>(i)] = s.score[static_cast<std::size_t>(e)];
    s.open[static_cast<std::size_t>(e)] = false;
  }
  if (call.score == RouterScore::softmax_chosen) soften(weight.data(), chosen);
  double sum = 1;
  if (call.normalised) {
    sum = 1e-20;
    for (std::int64_t i = 0; i < chosen; ++i) sum += weight[static_cast<std::size_t>(i)];
  }
  for (std::int64_t i = 0; i < chosen; ++i) {
    call.weights(t, i) =
        static_cast<float>(weight[static_cast<std::size_t>(i)] / sum * static_cast<double>(call.scale));
  }
}

}  // namespace

void route(const RouteCall& call, ThreadPool& pool) {
  check_route(call);
  const std::int64_t tokens = call.logits.extent(0);
  constexpr std::int64_t kTokens = 16;
  const auto body = [&](std::int64_t piece) {
    Scores s;
    for (std::int64_t t = piece * kTokens; t < std::min((piece + 1) * kTokens, tokens); ++t)
      route_token(call, t, s);
  };
  run_pieces(pool, ceil_div(tokens, kTokens), 16 * call.logits.size(), body);
}

}  // namespace locant

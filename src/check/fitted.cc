// SPDX-License-Identifier: Apache-2.0
#include "check/fitted.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace locant::check_room {
namespace {

using Make = std::function<std::optional<Ladder>(double)>;

struct Range {
  double low = 1;
  double high = 1;
  double step = 0.05;  ///< of the logarithm; a valley of the residual is wider
};

/// Least residual of a ladder with one free number: a scan on its logarithm, then golden section.
std::optional<double> best_number(const Turns& turns, const TokenPositions& due, const Range& range,
                                  const Make& make) {
  constexpr double kGolden = 0.6180339887498949;
  const auto left_at = [&](double log_value) {
    const std::optional<Ladder> ladder = make(std::exp(log_value));
    return ladder ? residual(turns, *ladder, due) : INFINITY;
  };
  const double first = std::log(range.low);
  const auto count = static_cast<std::int64_t>((std::log(range.high) - first) / range.step) + 1;
  double least = INFINITY;
  double best = first;
  for (std::int64_t i = 0; i <= count; ++i) {
    const double at = first + static_cast<double>(i) * range.step;
    const double left = left_at(at);
    if (!(left < least)) continue;
    least = left;
    best = at;
  }
  if (!std::isfinite(least)) return std::nullopt;
  double low = best - range.step;
  double high = best + range.step;
  double a = high - kGolden * (high - low);
  double b = low + kGolden * (high - low);
  double at_a = left_at(a);
  double at_b = left_at(b);
  for (int step = 0; step < 50; ++step) {
    if (at_a < at_b) {
      high = b;
      b = a;
      at_b = at_a;
      a = high - kGolden * (high - low);
      at_a = left_at(a);
    } else {
      low = a;
      a = b;
      at_a = at_b;
      b = low + kGolden * (high - low);
      at_b = left_at(b);
    }
  }
  return std::exp((low + high) / 2);
}

std::optional<Ladder> with_length(const Turns& turns, const CandidateQuery& query,
                                  const TokenPositions& due) {
  if (!follows_length(query)) return std::nullopt;
  const Make make = [&](double seen) { return changed(query, "seen", seen); };
  const std::optional<double> near = best_number(turns, due, {1, 1 << 20, 0.02}, make);
  if (!near) return std::nullopt;
  std::optional<Ladder> best;
  double least = INFINITY;
  for (std::int64_t seen = std::llround(*near) - 2; seen <= std::llround(*near) + 2; ++seen) {
    if (seen < 1) continue;
    std::optional<Ladder> ladder = make(static_cast<double>(seen));
    if (!ladder || residual(turns, *ladder, due) >= least) continue;
    least = residual(turns, *ladder, due);
    best = std::move(ladder);
    best->text = fmt::format("the ladder is that of {} tokens seen, where {} were", seen, query.seen);
  }
  if (best) best->cause = Cause::length;
  return best;
}

std::optional<Ladder> with_factor(const Turns& turns, const CandidateQuery& query,
                                  const TokenPositions& due) {
  const PositionSpec* const spec = rotation_spec(query.positions, query.layer);
  if (spec == nullptr || spec->find("factor") == nullptr) return std::nullopt;
  const Make make = [&](double factor) { return changed(query, "factor", factor); };
  const std::optional<double> best = best_number(turns, due, {1, 1024}, make);
  if (!best) return std::nullopt;
  std::optional<Ladder> ladder = make(*best);
  if (!ladder) return std::nullopt;
  ladder->cause = Cause::scaling;
  ladder->text = fmt::format("{} with factor {:.6g}", spec->mechanism, *best);
  return ladder;
}

std::optional<Ladder> with_theta(const Turns& turns, const CandidateQuery& query, const TokenPositions& due) {
  const Make make = [&](double theta) { return changed(query, "theta", theta); };
  const std::optional<double> best = best_number(turns, due, {10, 1e9}, make);
  if (!best) return std::nullopt;
  std::optional<Ladder> ladder = make(*best);
  if (!ladder) return std::nullopt;
  const PositionSpec* const spec = rotation_spec(query.positions, query.layer);
  ladder->cause = Cause::theta;
  ladder->text = spec->mechanism == "rope" ? fmt::format("a plain ladder of theta {:.6g}", *best)
                                           : fmt::format("{} of theta {:.6g}", spec->mechanism, *best);
  return ladder;
}

std::optional<Ladder> divided(const Turns& turns, const Ladder& planned, const TokenPositions& due,
                              const std::vector<double>& inv_freq) {
  if (inv_freq[0] <= 0 || planned.inv_freq[0] <= 0) return std::nullopt;
  const Make make = [&](double factor) {
    Ladder ladder = planned;
    for (double& frequency : ladder.inv_freq) frequency /= factor;
    return std::optional(ladder);
  };
  const double near = planned.inv_freq[0] / inv_freq[0];
  const std::optional<double> best =
      best_number(turns, due, {near * std::exp(-0.002), near * std::exp(0.002), 0.0002}, make);
  if (!best) return std::nullopt;
  Ladder ladder = *make(*best);
  ladder.cause = Cause::scaling;
  ladder.text = fmt::format("every frequency is divided by {:.6g}", *best);
  ladder.parameters = {{"factor", *best}};
  return ladder;
}

/// Fast pairs stay, slow ones are divided, and between them the divisor grows: llama3, YaRN and their kin.
std::optional<Ladder> by_parts(const Ladder& planned, const TokenPositions& due,
                               const std::vector<double>& inv_freq) {
  std::int64_t farthest = 1;
  for (const std::int64_t position : due.values) farthest = std::max(farthest, position);
  Ladder ladder = planned;
  double before = 1;
  for (std::size_t p = 0; p < inv_freq.size(); ++p) {
    if (planned.inv_freq[p] <= 0) return std::nullopt;
    // a frequency is known to within a small share of one turn over the text
    const double error = 0.02 / static_cast<double>(farthest);
    if (inv_freq[p] <= 0) return std::nullopt;
    const double ratio = planned.inv_freq[p] / inv_freq[p];
    const double slack = 0.02 + error / inv_freq[p];
    if (ratio < before * (1 - slack) || ratio < 1 - slack || ratio > 1024) return std::nullopt;
    before = std::max(before, ratio);
    ladder.inv_freq[p] = inv_freq[p];
  }
  if (std::abs(planned.inv_freq[0] / inv_freq[0] - 1) > 0.02 || before < 1.05) return std::nullopt;
  ladder.cause = Cause::scaling;
  ladder.text = fmt::format(
      "fast pairs stay and slow ones are divided, the slowest by {:.4g}: a schedule by "
      "parts, as llama3 or yarn, that the config does not ask for",
      planned.inv_freq.back() / inv_freq.back());
  ladder.parameters = {{"factor", planned.inv_freq.back() / inv_freq.back()}};
  return ladder;
}

}  // namespace

std::vector<Ladder> fitted_ladders(const Turns& turns, const CandidateQuery& query, const TokenPositions& due,
                                   const Ladder& planned) {
  std::vector<Ladder> fitted;
  const std::vector<double> inv_freq = fit_frequencies(turns, due);
  if (inv_freq.empty()) return fitted;
  const auto add = [&](std::optional<Ladder> ladder) {
    if (!ladder || ladder->inv_freq.size() != planned.inv_freq.size()) return;
    if (planned.axis.empty()) ladder->axis.clear();
    fitted.push_back(std::move(*ladder));
  };
  add(with_length(turns, query, due));
  add(with_factor(turns, query, due));
  add(with_theta(turns, query, due));
  add(divided(turns, planned, due, inv_freq));
  add(by_parts(planned, due, inv_freq));
  return fitted;
}

}  // namespace locant::check_room

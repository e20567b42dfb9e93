// SPDX-License-Identifier: Apache-2.0
// Rounding or not: two ways to the same logits, and which cause reproduces the one that is wrong.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "check/live.h"

namespace locant::check_room {
namespace {

/// Where the growth with the position is judged there are this many tokens at least.
constexpr std::size_t kGrowth = 8;
/// Rounding is of one size along a row: its second half stays within this of its first quarter.
constexpr double kFlat = 16;
/// Some tokens are this much more sensitive than most: where a norm is small, or two keys weigh alike.
constexpr double kTail = 8;

double mean_square_root(std::span<const double> values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return values.empty() ? 0 : std::sqrt(squares / static_cast<double>(values.size()));
}

double largest_of(const Logits& logits) {
  double largest = 0;
  for (const float value : logits.data) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(static_cast<double>(value)));
  }
  return largest;
}

}  // namespace

Gap gap(const Logits& got, const Logits& due) {
  Gap result;
  const double scale = std::max(largest_of(due), std::numeric_limits<double>::min());
  double squares = 0;
  double size = 0;
  for (std::int64_t t = 0; t < due.tokens(); ++t) {
    const auto a = got.at(t);
    const auto b = due.at(t);
    double worst = 0;
    for (std::size_t i = 0; i < b.size(); ++i) {
      // equal infinities too: masked columns of a vocabulary
      if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) {
        if (std::isfinite(b[i])) size += static_cast<double>(b[i]) * b[i];
        continue;
      }
      const double difference = std::abs(static_cast<double>(a[i]) - b[i]);
      worst = std::isfinite(difference) ? std::max(worst, difference / scale)
                                        : std::numeric_limits<double>::infinity();
      squares += difference * difference;
      size += static_cast<double>(b[i]) * b[i];
      if (!std::isfinite(difference)) break;
    }
    result.at.push_back(worst);
    result.largest = std::max(result.largest, worst);
  }
  result.spread = std::isfinite(result.largest) ? (squares > 0 ? std::sqrt(squares / size) : 0)
                                                : std::numeric_limits<double>::infinity();
  return result;
}

Verdict judge(const Gap& gap, const LiveBudget& budget, Path path) {
  const double upper = path == Path::cached ? budget.cached : budget.upper;
  Verdict verdict;
  verdict.differs = gap.spread > upper || gap.largest > kTail * upper;
  verdict.open = !verdict.differs && gap.largest > budget.lower;
  // Rounding does not wait for a position, nor grow with it. In 16 bits single steps come and go.
  if (verdict.open && !budget.coarse && gap.at.size() >= kGrowth) {
    const std::span<const double> all(gap.at);
    const double early = mean_square_root(all.first(all.size() / 4));
    if (mean_square_root(all.last(all.size() / 2)) > kFlat * std::max(early, budget.lower)) {
      verdict.differs = true;
      verdict.open = false;
    }
  }
  if (!verdict.differs && !verdict.open) return verdict;
  const double begin = budget.coarse && gap.largest > upper ? upper : budget.lower;
  const auto first =
      std::find_if(gap.at.begin(), gap.at.end(), [&](double difference) { return difference > begin; });
  verdict.first = first == gap.at.end() ? 0 : first - gap.at.begin();
  return verdict;
}

Verdict judge_steps(const Gap& gap, const LiveBudget& budget, std::int64_t prompt) {
  Gap first = gap;
  first.at.resize(static_cast<std::size_t>(prompt));
  first.largest = 0;
  for (const double difference : first.at) first.largest = std::max(first.largest, difference);
  first.spread = mean_square_root(first.at);
  const Verdict verdict = judge(first, budget, Path::same);
  return verdict.differs ? verdict : judge(gap, budget, Path::cached);
}

Explanation explain(const Logits& observed, const Logits& due, const LiveBudget& budget,
                    const std::vector<Candidate>& candidates) {
  struct Fit {
    const Candidate* candidate;
    double residual;
  };
  // A cause has to leave rounding alone, and much less than is there without it.
  const double unexplained = gap(due, observed).spread;
  const double rounding = budget.coarse ? budget.upper : budget.lower;
  std::vector<Fit> fits;
  for (const Candidate& candidate : candidates) {
    try {
      const double residual = gap(candidate.run(), observed).spread;
      if (residual <= std::min(rounding, unexplained / 4)) fits.push_back({&candidate, residual});
    } catch (const std::out_of_range&) {  // past a table's end: not this cause
    } catch (const SpecError&) {          // more than this runtime can be asked
    }
  }
  // Within rounding all are as good: the simpler cause stands first in the list.
  std::stable_sort(fits.begin(), fits.end(), [&](const Fit& a, const Fit& b) {
    return std::max(a.residual, budget.lower) < std::max(b.residual, budget.lower);
  });
  Explanation result;
  for (const Fit& fit : fits)
    result.hypotheses.push_back({fit.candidate->cause, fit.candidate->parameters, fit.residual, rounding});
  if (!fits.empty()) result.best = fits.front().candidate;
  return result;
}

}  // namespace locant::check_room

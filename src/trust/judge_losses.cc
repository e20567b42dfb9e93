// SPDX-License-Identifier: Apache-2.0
// What the losses say. A length does no harm where the upper bound of its difference from the best shorter
// one is at most the margin, and harms where the lower bound is above it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "trust/loss_curve.h"
#include "trust/numbers.h"

namespace locant::trust_room {
namespace {

/// Documents that were measured at all lengths up to `last`.
std::vector<std::size_t> complete(const std::vector<std::vector<double>>& values, std::size_t last) {
  std::vector<std::size_t> documents;
  for (std::size_t i = 0; i < values[last].size(); ++i) {
    bool all = true;
    for (std::size_t length = 0; length <= last; ++length) all = all && !std::isnan(values[length][i]);
    if (all) documents.push_back(i);
  }
  return documents;
}

double mean_of(const std::vector<double>& values, const std::vector<std::size_t>& documents) {
  double sum = 0;
  for (const std::size_t i : documents) sum += values[i] / static_cast<double>(documents.size());
  return sum;
}

std::vector<double> picked(const std::vector<double>& values, const std::vector<std::size_t>& documents) {
  std::vector<double> out;
  out.reserve(documents.size());
  for (const std::size_t i : documents) out.push_back(values[i]);
  return out;
}

std::vector<double> differences_of(const std::vector<double>& a, const std::vector<double>& b,
                                   const std::vector<std::size_t>& documents) {
  std::vector<double> out;
  out.reserve(documents.size());
  for (const std::size_t i : documents) out.push_back(a[i] - b[i]);
  return out;
}

std::size_t best_of(const std::vector<std::vector<double>>& values, std::size_t count,
                    const std::vector<std::size_t>& documents) {
  std::size_t best = 0;
  for (std::size_t length = 1; length < count; ++length) {
    if (mean_of(values[length], documents) < mean_of(values[best], documents)) best = length;
  }
  return best;
}

Judgement judged(const Estimate& difference) {
  if (difference.high <= kMargin) return Judgement::holds;
  return difference.low > kMargin ? Judgement::fails : Judgement::undecided;
}

LossPoint point_at(const CurveQuery& query, std::size_t index) {
  const LossTable& table = *query.table;
  LossPoint point;
  point.length = table.lengths[index];
  const std::vector<std::size_t> documents = complete(table.loss, index);
  point.documents = static_cast<std::int64_t>(documents.size());
  if (point.documents < kLeastDocuments) {
    point.documents = 0;
    point.why_not = "the time ended before enough documents were read";
    return point;
  }
  const std::vector<double> own = picked(table.loss[index], documents);
  point.finite = std::all_of(own.begin(), own.end(), [](double loss) { return std::isfinite(loss); });
  point.loss = bootstrap_mean(own, query.seed);
  if (index == 0) {
    point.no_harm = point.finite ? Judgement::reference : Judgement::fails;
    return point;
  }
  const std::size_t best = best_of(table.loss, index, documents);
  point.compared_with = table.lengths[best];
  if (!point.finite) {
    const double infinite = std::numeric_limits<double>::infinity();
    point.difference = {infinite, infinite, infinite};
    point.no_harm = Judgement::fails;
    return point;
  }
  point.difference =
      bootstrap_mean(differences_of(table.loss[index], table.loss[best], documents), query.seed);
  point.no_harm = judged(point.difference);
  point.falls = point.difference.high < 0 && point.difference.mean < -kLeastBenefit;
  return point;
}

void judge_control(const CurveQuery& query, LossCurve& curve) {
  const double uniform = std::log(static_cast<double>(std::max<std::int64_t>(query.vocab, 2)));
  double best = std::numeric_limits<double>::infinity();
  bool falls = false;
  std::int64_t measured = 0;
  for (const LossPoint& point : curve.points) {
    if (point.documents == 0) continue;
    ++measured;
    if (point.finite) best = std::min(best, point.loss.mean);
    falls = falls || point.falls;
  }
  if (measured < 2) {
    curve.control_text = "fewer than two lengths were measured";
  } else if (!(best < uniform)) {
    curve.control = Judgement::fails;
    curve.control_text = fmt::format(
        "the model does not predict this text: {:.3f} nats at best, a uniform guess has "
        "{:.3f}",
        best, uniform);
  } else if (!falls) {
    curve.control = Judgement::fails;
    curve.control_text =
        "the model does not use context on this text: no length has a lower loss than a shorter one";
  } else {
    curve.control = Judgement::holds;
    curve.control_text =
        fmt::format("context helps, {:.3f} nats at best against {:.3f} of a uniform guess", best, uniform);
  }
}

void judge_lengths(const CurveQuery& query, LossCurve& curve) {
  bool unbroken = true;
  for (const LossPoint& point : curve.points) {
    if (point.documents == 0) break;
    const bool holds = point.no_harm == Judgement::holds || point.no_harm == Judgement::reference;
    // each is held against the best of all shorter ones: an undecided one between says nothing against it
    unbroken = unbroken && point.no_harm != Judgement::fails;
    if (unbroken && holds) curve.no_harm = point.length;
    if (point.no_harm == Judgement::fails && !curve.first_harm) curve.first_harm = point.length;
    if (point.falls) curve.benefit = point.length;
  }
  const std::optional<std::int64_t>& declared = query.facts->declared.tokens;
  if (!declared || !curve.no_harm) return;
  if (*curve.no_harm >= *declared) {
    curve.to_declared = Judgement::holds;
  } else if (curve.first_harm && *curve.first_harm <= *declared) {
    curve.to_declared = Judgement::fails;
  } else {
    curve.to_declared = Judgement::undecided;
  }
}

}  // namespace

LossCurve judge_losses(const CurveQuery& query) {
  LossCurve curve;
  curve.margin = kMargin;
  curve.least_benefit = kLeastBenefit;
  curve.targets = kTargets;
  const LossTable& table = *query.table;
  for (std::size_t i = 0; i < table.lengths.size(); ++i) {
    curve.points.push_back(point_at(query, i));
    curve.documents = std::max(curve.documents, curve.points.back().documents);
  }
  for (const std::int64_t length : query.asked) {
    if (std::find(table.lengths.begin(), table.lengths.end(), length) != table.lengths.end()) continue;
    LossPoint point;
    point.length = length;
    point.why_not = "past what the plan reaches";
    curve.points.push_back(point);
  }
  judge_control(query, curve);
  // without the control nothing follows: no length, whatever the numbers look like
  if (curve.control == Judgement::holds) judge_lengths(query, curve);
  return curve;
}

ScalingTrust judge_scaling(const CurveQuery& query) {
  ScalingTrust scaling;
  const LossTable& table = *query.table;
  scaling.effect = table.effect;
  const std::int64_t trained = query.facts->trained.tokens.value_or(0);
  bool harmful_inside = false;
  bool undecided_inside = false;
  bool any_inside = false;
  bool unbroken = true;
  for (std::size_t i = 0; i < table.lengths.size(); ++i) {
    const std::vector<std::size_t> plain = complete(table.loss, i);
    std::vector<std::size_t> documents;
    for (const std::size_t d : plain) {
      if (!std::isnan(table.scaled[i][d])) documents.push_back(d);
    }
    if (static_cast<std::int64_t>(documents.size()) < kLeastDocuments) break;
    ScalingPoint point;
    point.length = table.lengths[i];
    point.inside = point.length <= trained;
    point.documents = static_cast<std::int64_t>(documents.size());
    point.loss = mean_of(table.loss[i], documents);
    point.scaled = mean_of(table.scaled[i], documents);
    point.difference = bootstrap_mean(differences_of(table.scaled[i], table.loss[i], documents), query.seed);
    point.divergence = mean_of(table.divergence[i], documents);
    point.agreement = mean_of(table.agreement[i], documents);
    point.better = point.difference.high < 0;
    // past the old window the model as it is may be the worse one: its best shorter length is the measure
    const std::size_t best = best_of(table.loss, i + 1, documents);
    const Estimate against =
        bootstrap_mean(differences_of(table.scaled[i], table.loss[best], documents), query.seed);
    const Judgement no_harm = judged(against);
    point.harmful = no_harm == Judgement::fails;
    unbroken = unbroken && no_harm != Judgement::fails;
    if (unbroken && no_harm == Judgement::holds) scaling.no_harm = point.length;
    if (point.inside) {
      any_inside = true;
      harmful_inside = harmful_inside || point.harmful;
      undecided_inside = undecided_inside || no_harm == Judgement::undecided;
    }
    scaling.points.push_back(point);
  }
  if (any_inside) {
    scaling.short_lengths = harmful_inside     ? Judgement::fails
                            : undecided_inside ? Judgement::undecided
                                               : Judgement::holds;
  }
  return scaling;
}

}  // namespace locant::trust_room

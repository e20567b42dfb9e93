// SPDX-License-Identifier: Apache-2.0
#include "trust/shift.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <stdexcept>

#include "trust/loss_curve.h"

namespace locant::trust_room {
namespace {

constexpr std::int64_t kTokens = 64;
constexpr double kLeastBound = 1e-4;  // of the largest logit: f32 sums in another order
constexpr double kPerError = 32;      // error of the tables at the horizon, through layers and softmax

std::vector<float> logits_at(Scorer& scorer, const Ids& window, std::int64_t shift) {
  Ids positions(window.size());
  std::iota(positions.begin(), positions.end(), shift);
  std::vector<float> all;
  scorer.run(
      {window}, static_cast<std::int64_t>(window.size()),
      [&](std::int64_t, std::int64_t, std::span<const float> logits) {
        all.insert(all.end(), logits.begin(), logits.end());
      },
      positions);
  return all;
}

}  // namespace

ShiftTrust measure_shift(const ShiftWork& work) {
  ShiftTrust trust;
  if (work.absolute) {
    trust.text = "not due: positions are added to the token state, they are absolute by design";
    return trust;
  }
  if (work.follows_length) {
    trust.text = "not due: the schedule follows the length";
    return trust;
  }
  trust.tokens = std::min(kTokens, work.documents->longest);
  if (!work.clock->has_time(2 * work.scorer->costs().of(trust.tokens), work.share)) {
    trust.text = "not measured: no time was left";
    return trust;
  }
  double error = 0;
  for (const RotationTrust& rotation : work.facts->rotations) error = std::max(error, rotation.table_error);
  trust.bound = std::max(kLeastBound, kPerError * error);
  const Ids window = window_of(work.documents->ids.front(), trust.tokens, work.lead);
  try {
    const std::vector<float> still = logits_at(*work.scorer, window, 0);
    double largest = 0;
    for (const float logit : still) largest = std::max(largest, std::abs(static_cast<double>(logit)));
    const std::int64_t last = std::max<std::int64_t>(work.facts->to - trust.tokens, 1);
    for (const std::int64_t shift : std::set<std::int64_t>{1, last / 2 + 1, last}) {
      if (!work.clock->has_time(work.scorer->costs().of(trust.tokens), work.share)) break;
      const std::vector<float> moved = logits_at(*work.scorer, window, shift);
      double difference = 0;
      for (std::size_t i = 0; i < still.size(); ++i)
        difference =
            std::max(difference, std::abs(static_cast<double>(still[i]) - static_cast<double>(moved[i])));
      trust.points.push_back({shift, largest > 0 ? difference / largest : difference});
    }
  } catch (const SpecError& error_of_runtime) {
    trust.text = fmt::format("not measured: {}", error_of_runtime.what());
    return trust;
  } catch (const std::out_of_range& error_of_runtime) {
    trust.text = fmt::format("not measured: {}", error_of_runtime.what());
    return trust;
  }
  if (trust.points.empty()) return trust;
  const bool all = std::all_of(trust.points.begin(), trust.points.end(),
                               [&](const ShiftPoint& point) { return point.difference <= trust.bound; });
  trust.holds = all ? Judgement::holds : Judgement::fails;
  return trust;
}

}  // namespace locant::trust_room

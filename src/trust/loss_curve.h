// SPDX-License-Identifier: Apache-2.0
// Fixed-target loss by length: the same targets with more and more context before them, positions from 0
// (DAPE's last-K protocol; Press et al. 2022, appendix B, on why windows of different targets mislead).
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "trust/clock.h"
#include "trust/documents.h"
#include "trust/scorer.h"

namespace locant::trust_room {

/// Losses [length][document], NaN where not measured; under a second runtime too, with what tells them apart.
struct LossTable {
  std::vector<std::int64_t> lengths{};
  std::vector<std::vector<double>> loss{};
  std::vector<std::vector<double>> scaled{};
  std::vector<std::vector<double>> divergence{};  ///< nats, mean over the targets of a document
  std::vector<std::vector<double>> agreement{};   ///< share of the targets
  double effect = 0;                              ///< largest |logit difference| of the two
};

struct LossWork {
  const Documents* documents = nullptr;
  std::vector<std::int64_t> lengths{};  ///< planned
  std::int64_t count = 0;               ///< documents planned
  Ids lead{};
  Scorer* scorer = nullptr;
  Scorer* scaled = nullptr;  ///< null = none
  const Clock* clock = nullptr;
  double share = 1;  ///< of the budget, at which this ends
  std::function<void(std::string_view)> progress{};
};
[[nodiscard]] LossTable measure_losses(const LossWork& work);

/// The window of `length` tokens whose last kTargets tokens predict the document's last ones.
[[nodiscard]] Ids window_of(const Ids& document, std::int64_t length, const Ids& lead);

struct CurveQuery {
  const LossTable* table = nullptr;
  const StaticTrust* facts = nullptr;
  std::vector<std::int64_t> asked{};  ///< every length of the horizon, measured or not
  std::int64_t vocab = 0;
  std::uint64_t seed = 0;
};
[[nodiscard]] LossCurve judge_losses(const CurveQuery& query);
[[nodiscard]] ScalingTrust judge_scaling(const CurveQuery& query);

inline constexpr double kMargin = 0.02;         // nats
inline constexpr double kLeastBenefit = 0.005;  // nats

}  // namespace locant::trust_room

// SPDX-License-Identifier: Apache-2.0
// B109: a bias of buckets (T5), read off recorded scores, against the trained table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "check/scores.h"

namespace locant::check_room {

/// What was added to q.k for one key of one query.
struct BiasSample {
  std::int64_t head = 0;
  std::int64_t query = 0;  ///< samples of one query share a number: the softmax does not see a constant there
  std::int64_t distance = 0;  ///< key - query, tokens
  std::int64_t position = 0;  ///< of the query
  double bias = 0;
};

struct BucketVerdict {
  std::string text;  ///< what the bias is instead, in words
  Fact expected{};
  Fact observed{};
  std::vector<Hypothesis> hypotheses{};
  Curve curve{};  ///< bias by distance, of the head that is furthest off
};

/// Nothing where the plan's buckets of the trained table explain the samples up to `noise` (an absolute root
/// mean square), or where no trained table is among the weights (`asked` stays false).
[[nodiscard]] std::optional<BucketVerdict> judge_buckets(const Evidence& evidence, const Bias& bias,
                                                         Stack stack, std::int64_t layer,
                                                         const std::vector<BiasSample>& samples, double noise,
                                                         bool& asked);

}  // namespace locant::check_room

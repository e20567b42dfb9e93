// SPDX-License-Identifier: Apache-2.0
// What explains recorded turns: the planned ladder, the planned one at other positions, a known change of it,
// a fitted number, or two of these at once.
#pragma once

#include <vector>

#include "check/candidates.h"

namespace locant::check_room {

struct Verdict {
  bool fine = false;               ///< the planned ladder at the due positions
  bool tells = true;               ///< false: every candidate looks the same here (position 0 alone)
  std::optional<Ladder> ladder{};  ///< the one that explains; nothing = unexplained
  std::optional<std::vector<std::int64_t>> positions{};  ///< [N] where others than the due ones explain
  bool as_stated = false;                ///< the planned ladder at the positions that position_ids state
  std::vector<Hypothesis> hypotheses{};  ///< best first
};

struct Question {
  const Turns& turns;
  const CandidateQuery& query;
  const Rotation& planned;
  const TokenPositions& due;
  DType dtype = DType::f32;
  const TokenPositions* stated = nullptr;   ///< what position_ids hold
  std::vector<TokenPositions> elsewhere{};  ///< where other tensors of the pass turned out to stand
  std::vector<Ladder> found{};              ///< what explained other tensors of the trace
  /// The tensor turned as planned in an earlier pass: a single token is then rather at another position than
  /// without its rotation.
  bool turned_before = false;
  bool table = false;  ///< cos and sin: nothing is applied twice there
};
[[nodiscard]] Verdict explain(const Question& question);

}  // namespace locant::check_room

// SPDX-License-Identifier: Apache-2.0
// What explains the first difference of two traces. Each side is fitted by itself (angles of its rotation,
// scale and slopes of its scores, rows of its embeddings), and the two fits are told.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "check/diff_tensors.h"
#include "check/ladder.h"

namespace locant::check_room {

struct Suspect {
  const Pair& pair;
  const TensorComparer& comparer;
  const ModelSpec* spec = nullptr;
  const Recipe* recipe = nullptr;
  std::size_t pass = 0;  ///< of `want`
  FlowName name;
  Divergence first;
  std::int64_t row = 0;
  std::int64_t content = 0;  ///< tokens of the row before the one that differs
  DType dtype = DType::f32;
};

/// Best first: those that leave no more than rounding, then by what they leave.
[[nodiscard]] std::vector<Hypothesis> explain_difference(const Suspect& suspect);

// One kind of tensor each; nothing where the fit does not apply.
[[nodiscard]] std::vector<Hypothesis> rotation_causes(const Suspect& suspect);
[[nodiscard]] std::vector<Hypothesis> score_causes(const Suspect& suspect);
[[nodiscard]] std::vector<Hypothesis> row_causes(const Suspect& suspect);
[[nodiscard]] std::vector<Hypothesis> integer_causes(const Suspect& suspect);
/// A factor, a narrower dtype, noise without structure.
[[nodiscard]] std::vector<Hypothesis> plain_causes(const Suspect& suspect);

/// Content tokens [begin, end) of one row as one pass without padding: its tensors are read from whichever
/// passes hold them.
struct Excerpt {
  std::int64_t row = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  Pass pass;  ///< B = 1; due = the positions that `want` states, else the count

  [[nodiscard]] std::int64_t count() const noexcept { return end - begin; }
};
/// Around the suspect's token, `most` tokens.
[[nodiscard]] Excerpt excerpt_of(const Suspect& suspect, std::int64_t most);
/// [1, n, ...]; nothing when a token is not recorded.
[[nodiscard]] std::optional<Values> values_in(const Side& side, const Excerpt& excerpt, const FlowName& name,
                                              const std::optional<ChannelOrder>& order);
/// [1, n, pairs] of a table.
[[nodiscard]] std::optional<Values> table_in(const Side& side, const Excerpt& excerpt, const FlowName& name);

}  // namespace locant::check_room

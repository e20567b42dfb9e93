// SPDX-License-Identifier: Apache-2.0
// The same thing in two files: how far the numbers are apart, beyond what their storage rounds, and why.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "check/weight_parts.h"

namespace locant::check_room {

/// Squared differences count beyond this many times the squared rounding: twice its root.
inline constexpr double kSlack = 4;

/// A row of the made part -> the stored row of the source that is due there.
using DueRow = std::function<std::int64_t(std::int64_t)>;

/// One thing in two files.
struct PartPair {
  Part source{};
  Part made{};
  double plus = 0;  ///< what the made form adds to every number
};

struct Likeness {
  std::int64_t looked = 0;                ///< rows
  std::vector<std::int64_t> differing{};  ///< rows of the made part, ascending
  double residual = 0;                    ///< relative root mean square over the rows that differ
  double rounding = 0;                    ///< what storage explains there, in the same measure
};

/// Of a big matrix some rows alone: the first and last ones, and others between them at even steps.
[[nodiscard]] std::vector<std::int64_t> sample_rows(std::int64_t rows, std::int64_t columns);

/// Compares the rows that both have.
[[nodiscard]] Likeness compare(const PartPair& pair, const DueRow& due);

/// Why numbers differ.
struct ValueCause {
  std::string text{};  ///< "is that of the source times 8"
  std::vector<std::pair<std::string, double>> parameters{};
  double residual = 0;
  bool rows = false;   ///< the same numbers in another order
  std::string from{};  ///< the tensor that the numbers come from
};

/// `others`: parts of the source that may have been taken instead.
struct CauseQuery {
  const PartPair* pair = nullptr;
  const DueRow* due = nullptr;
  const Likeness* likeness = nullptr;
  const std::vector<Part>* others = nullptr;
};
[[nodiscard]] ValueCause explain_values(const CauseQuery& query);

}  // namespace locant::check_room

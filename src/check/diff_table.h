// SPDX-License-Identifier: Apache-2.0
// Recorded tables of cos and sin in one form: [axes, B, T, pairs], whether the runtime repeats the pairs, and
// whether one row of the batch stands for all.
#pragma once

#include <cstdint>
#include <vector>

#include "check/diff_lines.h"
#include "check/evidence.h"

namespace locant::check_room {

/// How the columns of a table stand for its pairs.
enum class Repeat : std::uint8_t { none, halves, twice };

struct TableShape {
  std::int64_t axes = 1;
  std::int64_t batch = 1;  ///< 1 = one for all rows
  std::int64_t tokens = 0;
  std::int64_t columns = 0;  ///< 0 = the tensor is no table of this pass
  Repeat repeat = Repeat::none;

  [[nodiscard]] std::int64_t pairs() const noexcept { return repeat == Repeat::none ? columns : columns / 2; }
};
[[nodiscard]] TableShape table_shape(const TensorRef& tensor, const Pass& pass);
/// Reads some lines to tell.
void find_repeats(TableShape& shape, LineReader& table, const Pass& pass);
/// Makes two tables read alike: unrepeated where that gives as many pairs, else as they stand. False = their
/// widths differ.
[[nodiscard]] bool agree(TableShape& a, TableShape& b);

struct TablePlace {
  std::int64_t row = 0;
  std::int64_t axis = 0;
  std::int64_t token = 0;
};
void read_table(const TableShape& shape, LineReader& table, const TablePlace& at, std::vector<double>& out);

}  // namespace locant::check_room

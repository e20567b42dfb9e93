// SPDX-License-Identifier: Apache-2.0
#include "check/diff_table.h"

#include <algorithm>

namespace locant::check_room {
namespace {

constexpr std::int64_t kSamples = 64;

void read_columns(const TableShape& shape, LineReader& table, const TablePlace& at,
                  std::vector<double>& out) {
  const std::int64_t row = shape.batch == 1 ? 0 : at.row;
  table.read(((at.axis * shape.batch + row) * shape.tokens + at.token) * shape.columns, shape.columns, out);
}

}  // namespace

TableShape table_shape(const TensorRef& tensor, const Pass& pass) {
  TableShape shape;
  if (tensor.rank < 2 || tensor.rank > 4) return shape;
  shape.tokens = tensor.shape.at(tensor.rank - 2);
  shape.batch = tensor.rank >= 3 ? tensor.shape.at(tensor.rank - 3) : 1;
  shape.axes = tensor.rank == 4 ? tensor.shape[0] : 1;
  if (shape.tokens == pass.tokens && (shape.batch == 1 || shape.batch == pass.rows))
    shape.columns = tensor.shape.at(tensor.rank - 1);
  return shape;
}

void find_repeats(TableShape& shape, LineReader& table, const Pass& pass) {
  if (shape.columns % 2 != 0 || shape.columns < 2) return;
  const auto pairs = static_cast<std::size_t>(shape.columns / 2);
  bool halves = true;
  bool twice = true;
  std::vector<double> line;
  const std::int64_t stride = std::max<std::int64_t>(1, shape.tokens / kSamples);
  for (std::int64_t row = 0; row < shape.batch; ++row) {
    for (std::int64_t token = shape.tokens - 1; token >= 0; token -= stride) {
      if (shape.batch > 1 && !pass.content[pass.at(row, token)]) continue;
      read_columns(shape, table, {row, 0, token}, line);
      for (std::size_t p = 0; p < pairs; ++p) {
        halves = halves && distance(line[p], line[p + pairs]) == 0;
        twice = twice && distance(line[2 * p], line[2 * p + 1]) == 0;
      }
    }
  }
  if (halves) {
    shape.repeat = Repeat::halves;
  } else if (twice) {
    shape.repeat = Repeat::twice;
  }
}

bool agree(TableShape& a, TableShape& b) {
  if (a.pairs() == b.pairs()) return true;
  if (a.columns != b.columns) return false;
  a.repeat = Repeat::none;
  b.repeat = Repeat::none;
  return true;
}

void read_table(const TableShape& shape, LineReader& table, const TablePlace& at, std::vector<double>& out) {
  read_columns(shape, table, at, out);
  if (shape.repeat == Repeat::twice) {
    for (std::size_t p = 0; p < out.size() / 2; ++p) out[p] = out[2 * p];
  }
  if (shape.repeat != Repeat::none) out.resize(out.size() / 2);
}

}  // namespace locant::check_room

// SPDX-License-Identifier: Apache-2.0
#include "check/diff_keys.h"

#include "check/scores.h"

namespace locant::check_room {

Columns columns_of(const Side& side, std::size_t pass, const FlowName& name, std::int64_t count) {
  const Pass& of = side.pass(pass);
  Columns columns(static_cast<std::size_t>(of.rows));
  const std::vector<std::vector<Key>> keys = keys_of(of, count);
  for (std::size_t row = 0; row < columns.size(); ++row) {
    for (const Key& key : keys[row]) columns[row].push_back(key.content ? key.position : kPadding);
  }
  const TensorRef source = of.find(trace_names::layer(name.layer, trace_names::Layer::cache_source));
  if (source.data == nullptr || source.rank != 2 || source.shape[0] != of.rows || source.shape[1] != count)
    return columns;
  const std::vector<std::int64_t> tokens = integers_of(source, of.path + ": cache.source");
  for (std::size_t row = 0; row < columns.size(); ++row) {
    for (std::size_t slot = 0; slot < columns[row].size(); ++slot) {
      const std::int64_t token = tokens[row * static_cast<std::size_t>(count) + slot];
      columns[row][slot] = token < 0 ? kPadding : token;
    }
  }
  return columns;
}

Columns encoder_columns(const Side* encoder, std::int64_t rows, std::int64_t count) {
  Columns columns(static_cast<std::size_t>(rows));
  const bool known = encoder != nullptr && encoder->trace != nullptr && !encoder->trace->passes.empty() &&
                     encoder->pass(0).tokens == count && encoder->pass(0).rows == rows;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < count; ++column)
      columns[static_cast<std::size_t>(row)].push_back(known ? encoder->content_of(0, row, column) : column);
  }
  return columns;
}

Columns inverse(const Columns& columns, const std::vector<std::int64_t>& limit) {
  Columns tokens(columns.size());
  for (std::size_t row = 0; row < columns.size(); ++row) {
    tokens[row].assign(static_cast<std::size_t>(limit[row]), -1);
    for (std::size_t column = 0; column < columns[row].size(); ++column) {
      const std::int64_t token = columns[row][column];
      if (token >= 0 && token < limit[row])
        tokens[row][static_cast<std::size_t>(token)] = static_cast<std::int64_t>(column);
    }
  }
  return tokens;
}

}  // namespace locant::check_room

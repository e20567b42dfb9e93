// SPDX-License-Identifier: Apache-2.0
// Rows of a table by id: token embeddings, learned positions, token types.
#include <algorithm>

#include "kernels/blocks.h"
#include "kernels/rows.h"
#include "locant/ops.h"
#include "ops/check.h"

namespace locant {
namespace {

struct Lookup {
  std::string_view who;
  std::string_view name;   // of the ids
  std::string_view index;  // what one id is called
  std::string_view range;  // what it indexes
};

void check_lookup(const Lookup& lookup, const View<const std::int64_t, 1>& ids, const Matrix& table,
                  const View<float, 2>& out) {
  using namespace check_ops;
  if (ids.extent(0) < 0) fail("{}: {} is {}, an extent is negative", lookup.who, lookup.name, text(ids));
  if (!ids.empty() && ids.data_handle() == nullptr)
    fail("{}: {} is {} without data", lookup.who, lookup.name, text(ids));
  weight(lookup.who, "table", table);
  has_shape(lookup.who, "out", out, {{ids.extent(0), table.columns}, {"tokens", "width"}});
  writable(lookup.who, "out", out);
  if (overlap(extent_of(out), extent_of(table))) fail("{}: out overlaps the table", lookup.who);
  const std::int64_t t = kernels::first_outside(ids.data_handle(), ids.stride(0), ids.extent(0), table.rows);
  if (t < ids.extent(0)) {
    throw std::out_of_range(fmt::format("{}: {} {} at row {} is outside {} {}", lookup.who, lookup.index,
                                        ids(t), t, lookup.range, table.rows));
  }
}

std::int64_t tokens_of_piece(std::int64_t width) {
  return std::max<std::int64_t>(1, 16384 / width);
}

template <class Row>
void each_row(const View<float, 2>& out, ThreadPool& pool, Row row) {
  if (out.empty()) return;
  const std::int64_t rows = tokens_of_piece(out.extent(1));
  const auto body = [&](std::int64_t piece) {
    const std::int64_t end = std::min((piece + 1) * rows, out.extent(0));
    for (std::int64_t t = piece * rows; t < end; ++t) row(t, out.data_handle() + t * out.stride(0));
  };
  check_ops::run_pieces(pool, check_ops::ceil_div(out.extent(0), rows), out.size(), body);
}

}  // namespace

void embed(const EmbedCall& call, ThreadPool& pool) {
  check_lookup({"embed", "ids", "token", "vocab"}, call.ids, call.table, call.out);
  if (call.out.empty()) return;
  const Matrix& table = call.table;
  const kernels::RowsBlock whole{.table = static_cast<const std::byte*>(table.data),
                                 .row_bytes = check_ops::bytes_of(table, table.row_stride),
                                 .ids = call.ids.data_handle(),
                                 .ids_step = call.ids.stride(0),
                                 .tokens = call.ids.extent(0),
                                 .ids_left = call.ids.extent(0),
                                 .width = table.columns,
                                 .scale = call.scale,
                                 .out = call.out.data_handle(),
                                 .out_token = call.out.stride(0),
                                 .stores = check_ops::is_large<float>(call.out.size())
                                               ? kernels::RowStores::around
                                               : kernels::RowStores::cached};
  const std::int64_t tokens = tokens_of_piece(table.columns);
  const auto body = [&](std::int64_t piece) {
    kernels::RowsBlock part = whole;
    const std::int64_t first = piece * tokens;
    part.ids += first * whole.ids_step;
    part.ids_left -= first;
    part.tokens = std::min(tokens, part.ids_left);
    part.out += first * whole.out_token;
    if (table.blocks) {
      kernels::read_blocks(part, *table.blocks);
    } else {
      kernels::read_rows(part, table.dtype);
    }
  };
  check_ops::run_pieces(pool, check_ops::ceil_div(whole.tokens, tokens), call.out.size(), body);
}

void add_rows(const AddRowsCall& call, ThreadPool& pool) {
  check_lookup({"add_rows", "rows", "index", "table"}, call.rows, call.table, call.out);
  const Matrix& table = call.table;
  each_row(call.out, pool, [&](std::int64_t t, float* out) {
    const std::byte* row = check_ops::row_of(table, call.rows(t));
    if (table.blocks) {
      kernels::add_blocks(row, *table.blocks, table.columns, out);
    } else {
      kernels::add_row(row, table.dtype, table.columns, out);
    }
  });
}

}  // namespace locant

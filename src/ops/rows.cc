// SPDX-License-Identifier: Apache-2.0
// Sums, factors, limits, caps and scattered sums of rows: rules, then pieces of rows.
#include <algorithm>
#include <bitset>
#include <cmath>

#include "kernels/elements.h"
#include "locant/ops.h"
#include "ops/check.h"

namespace locant {
namespace {

using namespace check_ops;

void check_rows(std::string_view who, const View<const float, 2>& x, const View<float, 2>& out) {
  readable(who, "x", x);
  has_shape(who, "out", out, {x.shape(), {"tokens", "width"}});
  writable(who, "out", out);
}

void check_in_place(std::string_view who, const View<const float, 2>& x, const View<float, 2>& out) {
  if (!same_place(x, out) && overlap(extent_of(x), extent_of(out)))
    fail("{}: out overlaps x, expected x itself or other memory", who);
}

// Calls body(t, first column, columns) for parts of rows that are worth a thread.
template <class Body>
void each_part(ThreadPool& pool, const std::array<std::int64_t, 2>& shape, std::int64_t cost, Body&& body) {
  const auto [rows, width] = shape;
  if (rows == 0 || width == 0) return;
  constexpr std::int64_t kPart = 16384;
  const std::int64_t cuts = ceil_div(width, kPart);
  const std::int64_t together = std::max<std::int64_t>(1, kPart / width);
  const auto piece = [&, width = width, rows = rows](std::int64_t index) {
    const std::int64_t first = index % cuts * kPart;
    const std::int64_t t0 = index / cuts * together;
    for (std::int64_t t = t0; t < std::min(t0 + together, rows); ++t)
      body(t, first, std::min(kPart, width - first));
  };
  run_pieces(pool, ceil_div(rows, together) * cuts, cost * rows * width, piece);
}

// Finds a row outside `tokens`, or one that comes twice, without memory of its own beyond the stack.
void check_targets(const View<const std::int64_t, 1>& rows, std::int64_t tokens) {
  bool rising = true;
  for (std::int64_t i = 0; i < rows.extent(0); ++i) {
    if (rows(i) < 0 || rows(i) >= tokens) {
      throw std::out_of_range(
          fmt::format("scatter_rows: row {} at {} is outside {} tokens", rows(i), i, tokens));
    }
    rising = rising && (i == 0 || rows(i) > rows(i - 1));
  }
  if (rising) return;
  constexpr std::int64_t kSeen = 1 << 16;
  std::bitset<kSeen> seen;
  for (std::int64_t first = 0; first < tokens; first += kSeen) {
    if (first > 0) seen.reset();
    for (std::int64_t i = 0; i < rows.extent(0); ++i) {
      const std::int64_t at = rows(i) - first;
      if (at < 0 || at >= kSeen) continue;
      if (seen.test(static_cast<std::size_t>(at))) fail("scatter_rows: row {} comes twice", rows(i));
      seen.set(static_cast<std::size_t>(at));
    }
  }
}

}  // namespace

void accumulate(const AccumulateCall& call, ThreadPool& pool) {
  check_rows("accumulate", call.x, call.out);
  if (overlap(extent_of(call.x), extent_of(call.out))) fail("accumulate: out overlaps x");
  each_part(pool, call.x.shape(), 1, [&](std::int64_t t, std::int64_t first, std::int64_t count) {
    kernels::add_scaled(call.x.data_handle() + t * call.x.stride(0) + first, call.scale, count,
                        call.out.data_handle() + t * call.out.stride(0) + first);
  });
}

void scale_rows(const ScaleRowsCall& call, ThreadPool& pool) {
  check_rows("scale_rows", call.x, call.out);
  check_in_place("scale_rows", call.x, call.out);
  vector("scale_rows", "factors", call.factors, call.x.extent(0), "tokens");
  if (overlap(extent_of(call.factors), extent_of(call.out))) fail("scale_rows: out overlaps factors");
  each_part(pool, call.x.shape(), 1, [&](std::int64_t t, std::int64_t first, std::int64_t count) {
    kernels::scale(call.x.data_handle() + t * call.x.stride(0) + first, call.factors(t), count,
                   call.out.data_handle() + t * call.out.stride(0) + first);
  });
}

void clamp(const ClampCall& call, ThreadPool& pool) {
  check_rows("clamp", call.x, call.out);
  check_in_place("clamp", call.x, call.out);
  if (!(call.limit > 0)) fail("clamp: limit is {}, expected above 0", call.limit);
  each_part(pool, call.x.shape(), 1, [&](std::int64_t t, std::int64_t first, std::int64_t count) {
    kernels::clamp(call.x.data_handle() + t * call.x.stride(0) + first, call.limit, count,
                   call.out.data_handle() + t * call.out.stride(0) + first);
  });
}

void scatter_rows(const ScatterRowsCall& call, ThreadPool& pool) {
  const std::int64_t count = call.x.extent(0);
  readable("scatter_rows", "x", call.x);
  writable("scatter_rows", "out", call.out);
  if (call.out.extent(1) != call.x.extent(1))
    fail("scatter_rows: out is {}, expected [tokens, width={}]", text(call.out), call.x.extent(1));
  if (call.rows.extent(0) != count || (count > 0 && call.rows.data_handle() == nullptr))
    fail("scatter_rows: rows is {}, expected [rows={}]", text(call.rows), count);
  vector("scatter_rows", "factors", call.factors, count, "rows");
  const Extent out = extent_of(call.out);
  if (overlap(extent_of(call.x), out)) fail("scatter_rows: out overlaps x");
  if (overlap(extent_of(call.rows), out) || overlap(extent_of(call.factors), out))
    fail("scatter_rows: out overlaps rows or factors");
  check_targets(call.rows, call.out.extent(0));
  each_part(pool, call.x.shape(), 1, [&](std::int64_t i, std::int64_t first, std::int64_t columns) {
    kernels::add_scaled(call.x.data_handle() + i * call.x.stride(0) + first, call.factors(i), columns,
                        call.out.data_handle() + call.rows(i) * call.out.stride(0) + first);
  });
}

void softcap(const SoftcapCall& call, ThreadPool& pool) {
  writable("softcap", "x", call.x);
  if (!(call.cap > 0) || std::isinf(call.cap)) fail("softcap: cap is {}, expected above 0", call.cap);
  each_part(pool, call.x.shape(), 8, [&](std::int64_t t, std::int64_t first, std::int64_t count) {
    float* x = call.x.data_handle() + t * call.x.stride(0) + first;
    kernels::softcap(x, call.cap, count, x);
  });
}

}  // namespace locant

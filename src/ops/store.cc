// SPDX-License-Identifier: Apache-2.0
// Keys and values into the cache: rules, then pieces of (kv head, rows).
#include <algorithm>

#include "kernels/rows.h"
#include "ops/attend.h"

namespace locant {

using namespace check_ops;
using namespace attend_ops;

void store(const StoreCall& call, ThreadPool& pool) {
  readable("store", "x", call.x);
  check_cache("store", "cache", call.cache);
  if (call.x.extent(1) != call.cache.heads || call.x.extent(2) != call.cache.width)
    fail("store: x is {}, expected [tokens, kv_heads={}, width={}]", text(call.x), call.cache.heads,
         call.cache.width);
  check_slots("store", call.first_slot, call.x.extent(0), call.cache.capacity);
  if (overlap(extent_of(call.x), extent_of_cache(call.cache))) fail("store: x overlaps the cache");
  const std::int64_t tokens = call.x.extent(0);
  const auto item = static_cast<std::int64_t>(size_of(call.cache.dtype));
  const std::int64_t rows = std::max<std::int64_t>(1, 16384 / call.cache.width);
  const std::int64_t cuts = ceil_div(tokens, rows);
  const auto body = [&](std::int64_t piece) {
    const std::int64_t head = piece / cuts;
    const std::int64_t first = piece % cuts * rows;
    for (std::int64_t t = first; t < std::min(first + rows, tokens); ++t) {
      kernels::write_row(
          call.x.data_handle() + t * call.x.stride(0) + head * call.x.stride(1), call.cache.width,
          head_of(call.cache, head) + (call.first_slot + t) * call.cache.width * item, call.cache.dtype);
    }
  };
  run_pieces(pool, cuts * call.cache.heads, call.x.size(), body);
}

}  // namespace locant

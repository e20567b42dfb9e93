// SPDX-License-Identifier: Apache-2.0
// Keys and values into the cache: rules, then pieces of (kv head, rows).
#include "ops/keep.h"

namespace locant {

using namespace check_ops;
using namespace attend_ops;
using namespace keep_ops;
using check_ops::overlap;
using keep_ops::overlap;

void store(const StoreCall& call, ThreadPool& pool) {
  readable("store", "x", call.x);
  attend_ops::check_cache("store", "cache", call.cache);
  if (call.x.extent(1) != call.cache.heads || call.x.extent(2) != call.cache.width)
    fail("store: x is {}, expected [tokens, kv_heads={}, width={}]", text(call.x), call.cache.heads,
         call.cache.width);
  check_slots("store", call.first_slot, call.x.extent(0), call.cache.capacity);
  if (overlap(memory_of(call.cache), extent_of(call.x))) fail("store: x overlaps the cache");
  const SlotCuts cuts = cuts_of(call.first_slot, call.x.extent(0), call.cache.width);
  const auto body = [&](std::int64_t piece) {
    const std::int64_t head = piece / cuts.count();
    const std::int64_t cut = piece % cuts.count();
    const float* const x = call.x.data_handle() + head * call.x.stride(1);
    for (std::int64_t t = cuts.begin(cut); t < cuts.end(cut); ++t)
      keep_row(call.cache, head, call.first_slot + t, x + t * call.x.stride(0));
  };
  run_pieces(pool, cuts.count() * call.cache.heads, call.x.size(), body);
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// q rotated in place, k rotated into the cache, v stored. Pieces: runs of slots with the keys and values of
// all their heads, then runs of tokens with their queries.
#include <algorithm>

#include "ops/keep.h"
#include "ops/rotate.h"

namespace locant {
namespace {

using namespace check_ops;
using namespace attend_ops;
using namespace keep_ops;
using check_ops::overlap;
using keep_ops::overlap;
using namespace rotate_ops;

constexpr std::string_view kWho = "rotate_store";

void check_overlaps(const RotateStoreCall& call) {
  const Extent q = extent_of(call.q);
  const KeptMemory keys = memory_of(call.keys);
  const KeptMemory values = memory_of(call.values);
  const auto in_cache = [&](const Extent& x) { return overlap(keys, x) || overlap(values, x); };
  for (const View<const float, 3>* x : {&call.k, &call.v}) {
    const Extent read = extent_of(*x);
    if (overlap(q, read)) fail("{}: q overlaps k or v", kWho);
    if (in_cache(read)) fail("{}: k or v overlap the cache", kWho);
  }
  if (in_cache(q)) fail("{}: q overlaps the cache", kWho);
  for (std::size_t i = 0; i < values.count; ++i) {
    if (overlap(keys, values.parts[i])) fail("{}: keys overlap values", kWho);
  }
  for (const View<const float, 2>* table : {&call.cos, &call.sin}) {
    const Extent read = extent_of(*table);
    if (overlap(q, read) || in_cache(read)) fail("{}: q or the cache overlap the tables", kWho);
  }
}

void check_call(const RotateStoreCall& call) {
  const std::int64_t tokens = call.q.extent(0);
  writable(kWho, "q", call.q);
  readable(kWho, "k", call.k);
  readable(kWho, "v", call.v);
  attend_ops::check_cache(kWho, "keys", call.keys);
  attend_ops::check_cache(kWho, "values", call.values);
  has_shape(kWho, "q", call.q,
            {{tokens, call.q.extent(1), call.keys.width}, {"tokens", "heads", "head_dim"}});
  has_shape(kWho, "k", call.k,
            {{tokens, call.keys.heads, call.keys.width}, {"tokens", "kv_heads", "head_dim"}});
  has_shape(kWho, "v", call.v,
            {{tokens, call.values.heads, call.values.width}, {"tokens", "kv_heads", "width"}});
  const Tables tables{call.cos, call.sin, call.shape};
  check_tables(kWho, tables, tokens, call.keys.width);
  check_in_place(kWho, tables);
  if (call.keys.dtype == DType::i8 && call.keys.width > kernels::kRotateInPlaceWidth)
    fail("{}: keys of i8 hold {} channels at most, width is {}", kWho, kernels::kRotateInPlaceWidth,
         call.keys.width);
  check_slots(kWho, call.first_slot, tokens, std::min(call.keys.capacity, call.values.capacity));
  check_overlaps(call);
}

struct Run {
  std::int64_t first, count;  // tokens
};

// Rows of f32, f16 or bf16: rotation writes them where they stay.
template <class T>
void keep_floats(kernels::RotateBlock<float, T> block, const CacheTensor& cache, std::int64_t first_slot,
                 const Run& run) {
  block.out = reinterpret_cast<T*>(row_at(cache, 0, first_slot));
  block.out_token = cache.width;
  block.out_head = cache.capacity * cache.width;
  kernels::rotate(part_of(block, run.first, run.count));
  if (cache.norms == nullptr) return;
  for (std::int64_t t = run.first; t < run.first + run.count; ++t) {
    for (std::int64_t head = 0; head < cache.heads; ++head) keep_norm(cache, head, first_slot + t);
  }
}

// x [tokens, heads, width] by the tables; without pairs it passes.
void keep_floats_of(const View<const float, 3>& x, const Tables& tables, const CacheTensor& cache,
                    std::int64_t first_slot, const Run& run) {
  if (cache.dtype == DType::f16) {
    keep_floats(block_of<float, Half>(x, tables), cache, first_slot, run);
  } else if (cache.dtype == DType::bf16) {
    keep_floats(block_of<float, BFloat16>(x, tables), cache, first_slot, run);
  } else {
    keep_floats(block_of<float, float>(x, tables), cache, first_slot, run);
  }
}

// Keys of i8: a head's scale is known when all of it is rotated.
void keep_rounded_keys(const RotateStoreCall& call, const Run& run) {
  float rotated[kernels::kRotateInPlaceWidth];
  const auto all = block_of<float, float>(call.k, {call.cos, call.sin, call.shape});
  for (std::int64_t t = run.first; t < run.first + run.count; ++t) {
    for (std::int64_t head = 0; head < call.keys.heads; ++head) {
      kernels::RotateBlock<float> one = part_of(all, t, 1);
      one.x += head * one.x_head;
      one.heads = 1;
      one.out = rotated;
      kernels::rotate(one);
      keep_row(call.keys, head, call.first_slot + t, rotated);
    }
  }
}

void keep_rounded_values(const RotateStoreCall& call, const Run& run) {
  for (std::int64_t t = run.first; t < run.first + run.count; ++t) {
    const float* const v = call.v.data_handle() + t * call.v.stride(0);
    for (std::int64_t head = 0; head < call.values.heads; ++head)
      keep_row(call.values, head, call.first_slot + t, v + head * call.v.stride(1));
  }
}

void keep_slots(const RotateStoreCall& call, const Run& run) {
  const View<const float, 2> no_pairs;
  const RotateShape whole;
  if (call.keys.dtype == DType::i8) {
    keep_rounded_keys(call, run);
  } else {
    keep_floats_of(call.k, {call.cos, call.sin, call.shape}, call.keys, call.first_slot, run);
  }
  if (call.values.dtype == DType::i8) {
    keep_rounded_values(call, run);
  } else {
    keep_floats_of(call.v, {no_pairs, no_pairs, whole}, call.values, call.first_slot, run);
  }
}

}  // namespace

void rotate_store(const RotateStoreCall& call, ThreadPool& pool) {
  check_call(call);
  const std::int64_t total = call.q.extent(0);
  if (total == 0) return;
  auto queries = block_of<float, float>(call.q, {call.cos, call.sin, call.shape});
  queries.out = call.q.data_handle();
  queries.out_token = queries.x_token;
  queries.out_head = queries.x_head;
  const std::int64_t kv_elements = call.k.size() + call.v.size();
  const SlotCuts cuts = cuts_of(call.first_slot, total, std::max<std::int64_t>(1, kv_elements / total));
  const std::int64_t kept = cuts.count();
  const std::int64_t tokens = tokens_of_piece(std::max<std::int64_t>(1, queries.heads * queries.head_dim));
  const auto body = [&](std::int64_t piece) {
    if (piece < kept) {
      keep_slots(call, {cuts.begin(piece), cuts.end(piece) - cuts.begin(piece)});
    } else if (queries.heads > 0) {
      kernels::rotate(part_of(queries, (piece - kept) * tokens, tokens));
    }
  };
  run_pieces(pool, kept + ceil_div(total, tokens), call.q.size() + kv_elements, body);
}

}  // namespace locant

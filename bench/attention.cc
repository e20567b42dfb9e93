// SPDX-License-Identifier: Apache-2.0
// Causal attention of 32 query heads over 8 key-value heads of 128: prompts, single tokens over caches of
// every dtype, and ALiBi, with all slots and with those passed over that are too far to count.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <numeric>

#include "budgets.h"
#include "frame.h"
#include "locant/ops.h"
#include "locant/positions.h"
#include "reference/reference.h"

namespace locant::bench {
namespace {

constexpr std::int64_t kHeads = 32, kKvHeads = 8, kWidth = 128, kGroup = kHeads / kKvHeads;
constexpr std::int64_t kChecked = 2;  // queries, the last ones

enum class Slopes : std::uint8_t { none, all_slots, near_slots };

struct Shape {
  std::int64_t tokens, slots;
  DType dtype = DType::f32;
  Slopes slopes = Slopes::none;
};

const char* operation_of(const Shape& shape) {
  return shape.tokens == 1 ? "decode attention" : "prompt attention";
}

struct Attention {
  Shape shape;
  std::vector<float> q, out, slopes, scales, norms;
  std::vector<std::byte> keys_bytes, values_bytes;
  std::vector<std::int64_t> positions;
  CacheTensor keys, values;

  [[nodiscard]] double at(const CacheTensor& cache, std::int64_t head, std::int64_t i) const {
    const std::int64_t n = head * shape.slots * kWidth + i;
    switch (cache.dtype) {
      case DType::f16:
        return static_cast<double>(f32_from(static_cast<const Half*>(cache.data)[n]));
      case DType::bf16:
        return static_cast<double>(f32_from(static_cast<const BFloat16*>(cache.data)[n]));
      case DType::i8:
        return static_cast<double>(cache.scales[n / kWidth]) * static_cast<const std::int8_t*>(cache.data)[n];
      default:
        return static_cast<double>(static_cast<const float*>(cache.data)[n]);
    }
  }
};

// The last queries of the first and the last group of heads, against what the cache holds.
double error_of(const Attention& data) {
  const std::int64_t slots = data.shape.slots;
  const std::int64_t queries = std::min(kChecked, data.shape.tokens);
  const std::int64_t first = data.shape.tokens - queries;
  double worst = 0;
  for (const std::int64_t group : {std::int64_t{0}, kKvHeads - 1}) {
    std::vector<double> k(static_cast<std::size_t>(slots * kWidth)), v(k.size());
    for (std::size_t i = 0; i < k.size(); ++i) {
      k[i] = data.at(data.keys, group, static_cast<std::int64_t>(i));
      v[i] = data.at(data.values, group, static_cast<std::int64_t>(i));
    }
    std::vector<double> q, slopes, want(static_cast<std::size_t>(queries * kGroup * kWidth));
    const auto row = [&](std::int64_t t, std::int64_t h) {
      return static_cast<std::size_t>(((first + t) * kHeads + group * kGroup + h) * kWidth);
    };
    for (std::int64_t t = 0; t < queries; ++t) {
      for (std::int64_t i = 0; i < kGroup * kWidth; ++i)
        q.push_back(static_cast<double>(data.q[row(t, 0) + static_cast<std::size_t>(i)]));
    }
    reference::Attention attention{.q = {q.data(), {queries, kGroup, kWidth}},
                                   .keys = {k.data(), {1, slots, kWidth}},
                                   .values = {v.data(), {1, slots, kWidth}},
                                   .first_slot = slots - queries,
                                   .scale = 1 / std::sqrt(static_cast<double>(kWidth))};
    if (data.shape.slopes != Slopes::none) {
      for (std::int64_t h = 0; h < kGroup; ++h)
        slopes.push_back(static_cast<double>(data.slopes[static_cast<std::size_t>(group * kGroup + h)]));
      attention.slopes = {slopes.data(), {kGroup}};
      attention.query_positions = {data.positions.data() + slots - queries, {queries}};
      attention.key_positions = {data.positions.data(), {slots}};
    }
    reference::attend(attention, {want.data(), {queries, kGroup, kWidth}});
    for (std::size_t i = 0; i < want.size(); ++i) {
      const auto t = static_cast<std::int64_t>(i) / (kGroup * kWidth);
      const double got =
          static_cast<double>(data.out[row(t, 0) + i % static_cast<std::size_t>(kGroup * kWidth)]);
      worst = std::max(worst, std::fabs(got - want[i]));
    }
  }
  return worst / (budgets::kAttend + budgets::kAttendSkipped);
}

std::shared_ptr<Attention> attention_of(const Shape& shape, ThreadPool& pool) {
  auto data = std::make_shared<Attention>();
  data->shape = shape;
  data->q = values(static_cast<std::size_t>(shape.tokens * kHeads * kWidth), 3);
  data->out.resize(data->q.size());
  const std::int64_t rows = kKvHeads * shape.slots;
  const std::size_t bytes = static_cast<std::size_t>(rows * kWidth) * size_of(shape.dtype);
  data->keys_bytes.resize(bytes);
  data->values_bytes.resize(bytes);
  data->scales.resize(2 * static_cast<std::size_t>(rows));
  data->norms.resize(static_cast<std::size_t>(kKvHeads * ((shape.slots - 1) / kNormSlots + 1)));
  data->keys = {.data = data->keys_bytes.data(),
                .dtype = shape.dtype,
                .heads = kKvHeads,
                .capacity = shape.slots,
                .width = kWidth};
  data->values = data->keys;
  data->values.data = data->values_bytes.data();
  if (shape.dtype == DType::i8) {
    data->keys.scales = data->scales.data();
    data->values.scales = data->scales.data() + rows;
  }
  if (shape.slopes == Slopes::near_slots) data->keys.norms = data->norms.data();
  for (const auto& [cache, seed] : {std::pair{&data->keys, 4}, {&data->values, 5}}) {
    std::vector<float> x = values(static_cast<std::size_t>(rows * kWidth), static_cast<std::uint64_t>(seed));
    store({.x = {x.data(), {shape.slots, kKvHeads, kWidth}}, .cache = *cache}, pool);
  }
  data->positions.resize(static_cast<std::size_t>(shape.slots));
  std::iota(data->positions.begin(), data->positions.end(), 0);
  for (const double slope : alibi_slopes(kHeads)) data->slopes.push_back(static_cast<float>(slope));
  return data;
}

// `row` has the number and the goals of docs/speed.md. Decoding is read, prompts are arithmetic; where slots
// are passed over, all of them are counted.
Row row_of(ThreadPool& pool, const Shape& shape, Row row) {
  const auto data = attention_of(shape, pool);
  const std::int64_t tokens = shape.tokens, slots = shape.slots;
  AttendCall call{.q = View<const float, 3>(data->q.data(), {tokens, kHeads, kWidth}),
                  .keys = data->keys,
                  .values = data->values,
                  .first_slot = slots - tokens,
                  .scale = 1 / std::sqrt(static_cast<float>(kWidth)),
                  .slopes = {},
                  .query_positions = {},
                  .key_positions = {},
                  .out = {data->out.data(), {tokens, kHeads, kWidth}},
                  .scores = {}};
  if (shape.slopes != Slopes::none) {
    call.slopes = {data->slopes.data(), {kHeads}};
    call.query_positions = {data->positions.data() + slots - tokens, {tokens}};
    call.key_positions = {data->positions.data(), {slots}};
  }
  const double seen = static_cast<double>(tokens) * static_cast<double>(slots - tokens) +
                      static_cast<double>(tokens) * static_cast<double>(tokens + 1) / 2;
  const bool decode = tokens == 1;
  const auto scales = shape.dtype == DType::i8 ? data->scales.size() * sizeof(float) : 0;
  const auto cache_bytes = static_cast<std::int64_t>(2 * data->keys_bytes.size() + scales);
  const bool alibi = shape.slopes != Slopes::none;
  row.operation = operation_of(shape);
  row.shape = fmt::format("T={}, S={}, {} heads over {} of {}{}{}", tokens, slots, kHeads, kKvHeads, kWidth,
                          alibi ? ", ALiBi" : "",
                          shape.slopes == Slopes::near_slots ? ", far slots passed over" : "");
  row.dtype = shape.dtype == DType::i8 ? "int8" : name_of(shape.dtype);
  row.limit = decode ? Limit::read : Limit::fma;
  const double flop = 4.0 * seen * kHeads * kWidth;
  row.amount = decode ? static_cast<double>(cache_bytes) : flop;
  if (decode) row.flop = flop;
  // What is passed over is neither read nor multiplied.
  if (shape.slopes == Slopes::near_slots) row.amount = row.flop = 0;
  row.working_set = cache_bytes;
  row.run = [data, call, &pool] { attend({&call, 1}, pool); };
  row.error = [data] { return error_of(*data); };
  row.peer = fmt::format(
      R"({{"op": "attention", "tokens": {}, "slots": {}, "heads": {}, "kv_heads": {}, "width": {}, "alibi": {}, "dtype": "{}"}})",
      tokens, slots, kHeads, kKvHeads, kWidth, alibi, row.dtype);
  return row;
}

}  // namespace

void attention_rows(ThreadPool& pool, RowPlans& plans) {
  const auto add = [&](const Shape& shape, int number, Goal avx2, Goal avx512) {
    plans.push_back({number, operation_of(shape), [=, &pool] {
                       Row row;
                       row.number = number;
                       row.avx2 = avx2;
                       row.avx512 = avx512;
                       return row_of(pool, shape, row);
                     }});
  };
  add({512, 512}, 8, {1.5, 77}, {1.9, 70});
  add({2048, 2048}, 8, {1.45, 85}, {1.4, 75});
  add({2048, 2048, DType::f32, Slopes::all_slots}, 10, {1.8, 83}, {2.6, 73});
  add({8192, 8192, DType::f32, Slopes::all_slots}, 11, {}, {});
  add({8192, 8192, DType::f32, Slopes::near_slots}, 11, {4, 0}, {4, 0});
  add({1, 32768, DType::bf16, Slopes::all_slots}, 11, {}, {});
  add({1, 32768, DType::bf16, Slopes::near_slots}, 11, {15, 0}, {15, 0});
  add({1, 512}, 12, {}, {});
  add({1, 4096}, 12, {}, {1.3, 88});
  for (const DType dtype : {DType::f16, DType::bf16}) {
    add({1, 512, dtype}, 12, {1.7, 0}, {2.1, 0});
    add({1, 4096, dtype}, 12, {3.5, 81}, {2.4, 75});
    add({1, 32768, dtype}, 12, {3, 85}, {2.2, 87});
  }
  add({1, 32768, DType::i8}, 13, {2.4, 85}, {4, 80});
}

}  // namespace locant::bench

// SPDX-License-Identifier: Apache-2.0
// Causal attention of 32 query heads over 8 key-value heads of 128: prompts, single tokens over a cache, and
// ALiBi.
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

constexpr std::int64_t kHeads = 32, kKvHeads = 8, kWidth = 128;
constexpr std::int64_t kChecked = 2;  // queries, the last ones

struct Attention {
  std::int64_t tokens, slots;
  std::vector<float> q, k, v, out, slopes;
  std::vector<std::int64_t> positions;
};

double error_of(const Attention& data) {
  const std::int64_t queries = std::min(kChecked, data.tokens);
  const std::int64_t first = data.tokens - queries;
  const std::vector<double> q(data.q.begin() + first * kHeads * kWidth, data.q.end());
  const std::vector<double> k(data.k.begin(), data.k.end()), v(data.v.begin(), data.v.end());
  const std::vector<double> slopes(data.slopes.begin(), data.slopes.end());
  std::vector<double> want(q.size());
  reference::Attention attention{.q = {q.data(), {queries, kHeads, kWidth}},
                                 .keys = {k.data(), {kKvHeads, data.slots, kWidth}},
                                 .values = {v.data(), {kKvHeads, data.slots, kWidth}},
                                 .first_slot = data.slots - queries,
                                 .scale = 1 / std::sqrt(static_cast<double>(kWidth))};
  if (!slopes.empty()) {
    attention.slopes = {slopes.data(), {kHeads}};
    attention.query_positions = {data.positions.data() + data.slots - queries, {queries}};
    attention.key_positions = {data.positions.data(), {data.slots}};
  }
  reference::attend(attention, {want.data(), {queries, kHeads, kWidth}});
  double worst = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double got = static_cast<double>(data.out[static_cast<std::size_t>(first * kHeads * kWidth) + i]);
    worst = std::max(worst, std::fabs(got - want[i]));
  }
  return worst / budgets::kAttend;
}

Row row_of(ThreadPool& pool, std::int64_t tokens, std::int64_t slots, bool alibi) {
  auto data = std::make_shared<Attention>();
  data->tokens = tokens;
  data->slots = slots;
  data->q = values(static_cast<std::size_t>(tokens * kHeads * kWidth), 3);
  data->k = values(static_cast<std::size_t>(slots * kKvHeads * kWidth), 4);
  data->v = values(static_cast<std::size_t>(slots * kKvHeads * kWidth), 5);
  data->out.resize(data->q.size());
  data->positions.resize(static_cast<std::size_t>(slots));
  std::iota(data->positions.begin(), data->positions.end(), 0);
  const CacheTensor keys{
      .data = data->k.data(), .dtype = DType::f32, .heads = kKvHeads, .capacity = slots, .width = kWidth};
  CacheTensor cached_values = keys;
  cached_values.data = data->v.data();
  AttendCall call{.q = View<const float, 3>(data->q.data(), {tokens, kHeads, kWidth}),
                  .keys = keys,
                  .values = cached_values,
                  .first_slot = slots - tokens,
                  .scale = 1 / std::sqrt(static_cast<float>(kWidth)),
                  .slopes = {},
                  .query_positions = {},
                  .key_positions = {},
                  .out = {data->out.data(), {tokens, kHeads, kWidth}},
                  .scores = {}};
  if (alibi) {
    for (const double slope : alibi_slopes(kHeads)) data->slopes.push_back(static_cast<float>(slope));
    call.slopes = {data->slopes.data(), {kHeads}};
    call.query_positions = {data->positions.data() + slots - tokens, {tokens}};
    call.key_positions = {data->positions.data(), {slots}};
  }
  const double seen = static_cast<double>(tokens) * static_cast<double>(slots - tokens) +
                      static_cast<double>(tokens) * static_cast<double>(tokens + 1) / 2;
  const bool decode = tokens == 1;
  const auto cache_bytes = static_cast<std::int64_t>((data->k.size() + data->v.size()) * sizeof(float));
  return {
      .operation = decode ? "decode attention" : "prompt attention",
      .shape = fmt::format("T={}, S={}, {} heads over {} of {}{}", tokens, slots, kHeads, kKvHeads, kWidth,
                           alibi ? ", ALiBi" : ""),
      .dtype = "f32",
      .limit = decode ? Limit::read : Limit::fma,
      .amount = decode ? static_cast<double>(cache_bytes) : 4.0 * seen * kHeads * kWidth,
      .working_set = cache_bytes,
      .run =
          [data, call, &pool] {
            attend({&call, 1}, pool);
          },
      .error = [data] { return error_of(*data); },
      .peer = fmt::format(
          R"({{"op": "attention", "tokens": {}, "slots": {}, "heads": {}, "kv_heads": {}, "width": {}, "alibi": {}}})",
          tokens, slots, kHeads, kKvHeads, kWidth, alibi)};
}

}  // namespace

void attention_rows(ThreadPool& pool, Rows& rows) {
  rows.push_back(row_of(pool, 512, 512, false));
  rows.push_back(row_of(pool, 2048, 2048, false));
  rows.push_back(row_of(pool, 2048, 2048, true));
  rows.push_back(row_of(pool, 1, 512, false));
  rows.push_back(row_of(pool, 1, 4096, false));
}

}  // namespace locant::bench

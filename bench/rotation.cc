// SPDX-License-Identifier: Apache-2.0
// Rotation of 32 heads of 128 in place; the call alternates direction so that values stay where they were.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "budgets.h"
#include "frame.h"
#include "locant/ops.h"
#include "locant/positions.h"
#include "reference/reference.h"

namespace locant::bench {
namespace {

constexpr std::int64_t kHeads = 32, kWidth = 128, kPairs = kWidth / 2;

struct Rotated {
  std::int64_t tokens;
  std::vector<float> x, original, cos, sin;
};

// Largest error of one forward rotation of the original, over the pair norm and the budget.
double error_of(const Rotated& data, Pairing pairing, ThreadPool& pool) {
  std::vector<float> out(data.original.size());
  const View<const float, 3> x(data.original.data(), {data.tokens, kHeads, kWidth});
  const View<const float, 2> cos(data.cos.data(), {data.tokens, kPairs});
  const View<const float, 2> sin(data.sin.data(), {data.tokens, kPairs});
  rotate(RotateCall<float>{.x = x,
                           .cos = cos,
                           .sin = sin,
                           .shape = {.read = pairing, .write = pairing},
                           .out = {out.data(), {data.tokens, kHeads, kWidth}}},
         pool);
  std::vector<double> wide(data.original.begin(), data.original.end()), want(wide.size());
  const std::vector<double> wide_cos(data.cos.begin(), data.cos.end()),
      wide_sin(data.sin.begin(), data.sin.end());
  const auto layout = pairing == Pairing::half ? reference::Layout::half : reference::Layout::interleaved;
  reference::rotate({wide.data(), {data.tokens, kHeads, kWidth}}, {wide_cos.data(), {data.tokens, kPairs}},
                    {wide_sin.data(), {data.tokens, kPairs}}, {.read = layout, .write = layout},
                    {want.data(), {data.tokens, kHeads, kWidth}});
  double worst = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const std::size_t channel = i % kWidth;
    const std::size_t other = pairing == Pairing::half ? i - channel + (channel + kPairs) % kWidth : i ^ 1U;
    const double norm = std::hypot(wide[i], wide[other]);
    worst = std::max(worst, std::fabs(static_cast<double>(out[i]) - want[i]) / norm);
  }
  return worst / budgets::kRotateF32;
}

Row row_of(ThreadPool& pool, std::int64_t tokens, Pairing pairing) {
  auto data = std::make_shared<Rotated>();
  data->tokens = tokens;
  data->x = values(static_cast<std::size_t>(tokens * kHeads * kWidth), 2);
  data->original = data->x;
  data->cos.resize(static_cast<std::size_t>(tokens * kPairs));
  data->sin.resize(data->cos.size());
  PositionSpec spec{.mechanism = "rope", .parameters = {}};
  spec.set("head_dim", kWidth);
  const Recipe& exact = find_recipe("exact");
  const auto rotation = std::get<Rotation>(find_mechanism("rope").plan(spec, exact, {}));
  const std::vector<std::int64_t> positions = text_positions(tokens);
  const View<float, 2> cos(data->cos.data(), {tokens, kPairs}), sin(data->sin.data(), {tokens, kPairs});
  rotation_table(rotation, exact.numerics, {positions.data(), {1, tokens}}, cos, sin);
  const View<float, 3> x(data->x.data(), {tokens, kHeads, kWidth});
  RotateCall<float> call{
      .x = x, .cos = cos, .sin = sin, .shape = {.read = pairing, .write = pairing}, .out = x};
  const auto bytes = static_cast<std::int64_t>(data->x.size() * sizeof(float));
  return {
      .operation = "rotation",
      .shape = fmt::format("T={}, {} heads of {}, {}, in place", tokens, kHeads, kWidth, name_of(pairing)),
      .dtype = "f32",
      .limit = Limit::in_place,
      .amount = 2.0 * static_cast<double>(bytes),
      .working_set = bytes,
      .run =
          [data, call, &pool]() mutable {
            rotate(call, pool);
            call.shape.direction =
                call.shape.direction == Direction::forward ? Direction::inverse : Direction::forward;
          },
      .error = [data, pairing, &pool] { return error_of(*data, pairing, pool); },
      .peer = pairing == Pairing::half
                  ? fmt::format(R"({{"op": "rotation", "tokens": {}, "heads": {}, "width": {}}})", tokens,
                                kHeads, kWidth)
                  : ""};
}

}  // namespace

void rotation_rows(ThreadPool& pool, Rows& rows) {
  for (const std::int64_t tokens : {std::int64_t{1}, std::int64_t{512}, std::int64_t{4096}}) {
    rows.push_back(row_of(pool, tokens, Pairing::half));
    rows.push_back(row_of(pool, tokens, Pairing::interleaved));
  }
}

}  // namespace locant::bench

// SPDX-License-Identifier: Apache-2.0
// Rotation of heads of 128, in place and out of place, of one token's q and k, and with the write into the
// cache. In place the call alternates direction so that values stay where they were.
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

constexpr std::int64_t kHeads = 32, kKvHeads = 8, kWidth = 128, kPairs = kWidth / 2;
constexpr int kKeptNumber = 7;
constexpr const char* kOperation = "rotation";
constexpr const char* kKeptOperation = "rotation and cache";

template <class T>
T stored(float x) {
  if constexpr (std::is_same_v<T, Half>) return half_from_f32(x);
  if constexpr (std::is_same_v<T, BFloat16>) return bfloat16_from_f32(x);
  if constexpr (std::is_same_v<T, float>) return x;
}
double wide(float x) {
  return static_cast<double>(x);
}
template <class T>
double wide(T x) {
  return static_cast<double>(f32_from(x));
}
template <class T>
double budget() {
  if constexpr (std::is_same_v<T, Half>) return budgets::kRotateF16;
  return std::is_same_v<T, float> ? budgets::kRotateF32 : budgets::kRotateBf16;
}

// cos and sin of positions 0 ... tokens - 1.
struct Table {
  Buffer memory;
  View<float, 2> cos, sin;

  explicit Table(std::int64_t tokens)
      : memory(static_cast<std::size_t>(2 * tokens * kPairs) * sizeof(float)),
        cos(memory.as<float>(), {tokens, kPairs}),
        sin(memory.as<float>() + tokens * kPairs, {tokens, kPairs}) {
    PositionSpec spec{.mechanism = "rope", .parameters = {}};
    spec.set("head_dim", kWidth);
    const Recipe& exact = find_recipe("exact");
    const auto rotation = std::get<Rotation>(find_mechanism("rope").plan(spec, exact, {}));
    const std::vector<std::int64_t> positions = text_positions(tokens);
    rotation_table(rotation, exact.numerics, {positions.data(), {1, tokens}}, cos, sin);
  }
};

template <class T>
struct Rotated {
  std::int64_t tokens, heads;
  Buffer x, out;
  Table table;

  Rotated(std::int64_t t, std::int64_t h) : tokens(t), heads(h), x(bytes()), out(bytes()), table(t) {
    const std::vector<float> from = values(bytes() / sizeof(T), 2);
    for (std::size_t i = 0; i < from.size(); ++i) x.as<T>()[i] = stored<T>(from[i]);
  }
  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(tokens * heads * kWidth) * sizeof(T);
  }
  [[nodiscard]] View<T, 3> view(const Buffer& memory) const {
    return {memory.as<T>(), {tokens, heads, kWidth}};
  }
};

// Largest error of one forward rotation out of place, over the pair norm and the budget.
template <class T>
double error_of(const Rotated<T>& data, Pairing pairing, ThreadPool& pool) {
  rotate(RotateCall<T>{.x = data.view(data.x),
                       .cos = data.table.cos,
                       .sin = data.table.sin,
                       .shape = {.read = pairing, .write = pairing},
                       .out = data.view(data.out)},
         pool);
  const std::size_t count = data.bytes() / sizeof(T);
  std::vector<double> from(count), want(count);
  for (std::size_t i = 0; i < count; ++i) from[i] = wide(data.x.template as<T>()[i]);
  const auto entries = static_cast<std::size_t>(data.tokens * kPairs);
  const std::vector<double> cos(data.table.cos.data_handle(), data.table.cos.data_handle() + entries),
      sin(data.table.sin.data_handle(), data.table.sin.data_handle() + entries);
  const auto layout = pairing == Pairing::half ? reference::Layout::half : reference::Layout::interleaved;
  const View<const double, 3>::Shape shape{data.tokens, data.heads, kWidth};
  reference::rotate({from.data(), shape}, {cos.data(), {data.tokens, kPairs}},
                    {sin.data(), {data.tokens, kPairs}}, {.read = layout, .write = layout},
                    {want.data(), shape});
  double worst = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t channel = i % kWidth;
    const std::size_t other = pairing == Pairing::half ? i - channel + (channel + kPairs) % kWidth : i ^ 1U;
    const double norm = std::max(std::hypot(from[i], from[other]), 0x1p-14);
    worst = std::max(worst, std::fabs(wide(data.out.template as<T>()[i]) - want[i]) / norm);
  }
  return worst / budget<T>();
}

struct Kind {
  int number;
  Goal avx2, avx512;
  std::int64_t tokens, heads;
  Pairing pairing;
  bool in_place = true;
};

template <class T>
Row row_of(ThreadPool& pool, const Kind& kind) {
  auto data = std::make_shared<Rotated<T>>(kind.tokens, kind.heads);
  const View<T, 3> x = data->view(data->x);
  RotateCall<T> call{.x = x,
                     .cos = data->table.cos,
                     .sin = data->table.sin,
                     .shape = {.read = kind.pairing, .write = kind.pairing},
                     .out = kind.in_place ? x : data->view(data->out)};
  const auto bytes = static_cast<std::int64_t>(data->bytes());
  const std::string_view dtype = name_of(DTypeOf<T>::value);
  return {
      .number = kind.number,
      .avx2 = kind.avx2,
      .avx512 = kind.avx512,
      .operation = kOperation,
      .shape = fmt::format("T={}, {} heads of {}, {}{}", kind.tokens, kind.heads, kWidth,
                           name_of(kind.pairing), kind.in_place ? ", in place" : ""),
      .dtype = std::string(dtype),
      .limit = kind.in_place ? Limit::in_place : Limit::copy,
      .amount = 2.0 * static_cast<double>(bytes),
      .working_set = kind.in_place ? bytes : 2 * bytes,
      .run =
          [data, call, &pool]() mutable {
            rotate(call, pool);
            call.shape.direction =
                call.shape.direction == Direction::forward ? Direction::inverse : Direction::forward;
          },
      .error = [data, pairing = kind.pairing, &pool] { return error_of(*data, pairing, pool); },
      .peer = fmt::format(
          R"({{"op": "rotation", "tokens": {}, "heads": {}, "width": {}, "pairing": "{}", "dtype": "{}"}})",
          kind.tokens, kind.heads, kWidth, name_of(kind.pairing), dtype)};
}

// One token's q and k rotated, k and v stored in the middle of a cache.
template <class T>
struct Kept {
  static constexpr std::int64_t kCapacity = 512, kSlot = 200;
  Buffer q, k, v, keys, values;
  Table table;

  Kept()
      : q(kHeads * kWidth * sizeof(float)),
        k(kKvHeads * kWidth * sizeof(float)),
        v(kKvHeads * kWidth * sizeof(float)),
        keys(kKvHeads * kCapacity * kWidth * sizeof(T)),
        values(keys.bytes()),
        table(1) {
    std::uint64_t seed = 3;
    for (const Buffer* memory : {&q, &k, &v}) {
      const std::vector<float> some = locant::bench::values(memory->bytes() / sizeof(float), seed++);
      std::copy(some.begin(), some.end(), memory->template as<float>());
    }
  }
  [[nodiscard]] CacheTensor cache(const Buffer& memory) const {
    return {.data = memory.data(),
            .dtype = DTypeOf<T>::value,
            .heads = kKvHeads,
            .capacity = kCapacity,
            .width = kWidth};
  }
  [[nodiscard]] RotateStoreCall call() const {
    return {.q = {q.as<float>(), {1, kHeads, kWidth}},
            .k = {k.as<float>(), {1, kKvHeads, kWidth}},
            .v = {v.as<float>(), {1, kKvHeads, kWidth}},
            .cos = table.cos,
            .sin = table.sin,
            .keys = cache(keys),
            .values = cache(values),
            .first_slot = kSlot};
  }
  // The stored key against k turned in f64.
  [[nodiscard]] double error(ThreadPool& pool) const {
    rotate_store(call(), pool);
    double worst = 0;
    for (std::int64_t head = 0; head < kKvHeads; ++head) {
      const float* const x = k.as<float>() + head * kWidth;
      const T* const got = keys.as<T>() + (head * kCapacity + kSlot) * kWidth;
      for (std::int64_t i = 0; i < kPairs; ++i) {
        const double a = wide(x[i]), b = wide(x[i + kPairs]);
        const double c = wide(table.cos(0, i)), s = wide(table.sin(0, i));
        const double norm = std::max(std::hypot(a, b), 0x1p-14);
        worst = std::max({worst, std::fabs(wide(got[i]) - (a * c - b * s)) / norm,
                          std::fabs(wide(got[i + kPairs]) - (b * c + a * s)) / norm});
      }
    }
    return worst / budget<T>();
  }
};

template <class T>
Row kept_row_of(ThreadPool& pool) {
  auto data = std::make_shared<Kept<T>>();
  const std::int64_t moved = 2 * kHeads * kWidth * static_cast<std::int64_t>(sizeof(float)) +
                             2 * kKvHeads * kWidth * static_cast<std::int64_t>(sizeof(float) + sizeof(T));
  return {.number = kKeptNumber,
          .avx2 = {},
          .avx512 = {},
          .operation = kKeptOperation,
          .shape = fmt::format("T=1, {} q and {} kv heads of {}", kHeads, kKvHeads, kWidth),
          .dtype = std::string(name_of(DTypeOf<T>::value)),
          .limit = Limit::in_place,
          .amount = static_cast<double>(moved),
          .working_set = moved / 2,
          .run =
              [data, call = data->call(), &pool]() mutable {
                rotate_store(call, pool);
                call.shape.direction =
                    call.shape.direction == Direction::forward ? Direction::inverse : Direction::forward;
              },
          .error = [data, &pool] { return data->error(pool); },
          .peer = ""};
}

}  // namespace

// Calls in place and out of it follow each other: peers prepare one for both.
void rotation_rows(ThreadPool& pool, RowPlans& plans) {
  constexpr auto kHalf = Pairing::half, kNeighbours = Pairing::interleaved;
  constexpr std::int64_t kShort = 512, kLong = 4096;
  const auto add = [&]<class T>(T /*element*/, const Kind& kind) {
    plans.push_back({kind.number, kOperation, [&pool, kind] { return row_of<T>(pool, kind); }});
  };
  add(float{}, {4, {2.5, 80}, {1.9, 85}, kShort, kHeads, kHalf});
  add(float{}, {4, {}, {}, kShort, kHeads, kHalf, false});
  add(float{}, {4, {2.7, 75}, {1.75, 85}, kShort, kHeads, kNeighbours});
  add(float{}, {4, {}, {}, kShort, kHeads, kNeighbours, false});
  add(Half{}, {5, {3.2, 0}, {2.9, 0}, kShort, kHeads, kHalf});
  add(Half{}, {5, {6, 0}, {3.4, 0}, kShort, kHeads, kNeighbours});
  add(BFloat16{}, {5, {2, 0}, {12, 78}, kShort, kHeads, kHalf});
  add(BFloat16{}, {5, {2, 0}, {12, 78}, kShort, kHeads, kNeighbours});
  add(float{}, {6, {1.7, 92}, {1.9, 90}, kLong, kHeads, kHalf});
  add(float{}, {6, {}, {}, kLong, kHeads, kHalf, false});
  add(float{}, {6, {1.7, 92}, {1.9, 90}, kLong, kHeads, kNeighbours});
  add(Half{}, {6, {}, {}, kLong, kHeads, kHalf});
  add(BFloat16{}, {6, {}, {}, kLong, kHeads, kHalf});
  add(float{}, {7, {8, 0}, {6, 0}, 1, kHeads + kKvHeads, kHalf});
  add(float{}, {7, {8, 0}, {6, 0}, 1, kHeads + kKvHeads, kNeighbours});
  plans.push_back({kKeptNumber, kKeptOperation, [&pool] { return kept_row_of<float>(pool); }});
  plans.push_back({kKeptNumber, kKeptOperation, [&pool] { return kept_row_of<Half>(pool); }});
}

}  // namespace locant::bench

// SPDX-License-Identifier: Apache-2.0
// Attention against the double reference: heads over kv heads, widths, dtypes, lengths, ALiBi far out,
// scores, chunks against the whole, threads, NaN kept where it belongs.
#include <limits>
#include <memory>
#include <utility>

#include "budgets.h"
#include "kernels/targets_and_memory.h"
#include "locant/ops.h"
#include "reference/reference.h"

namespace locant {
namespace {

using testing::Spread;

struct Shape {
  std::int64_t tokens = 1;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t width = 64;
  std::int64_t value_width = 0;  // 0 = width
  std::int64_t first_slot = 0;
  DType keys = DType::f32;
  DType values = DType::f32;
  bool alibi = false;
  std::int64_t start = 0;  // position of slot 0
  double reach = 4;        // standard deviation of a score
};

std::size_t size(std::int64_t n) {
  return static_cast<std::size_t>(n);
}

// One problem with its caches, as stored and as doubles.
struct Problem {
  explicit Problem(const Shape& shape_)
      : shape(shape_), slots(shape.first_slot + shape.tokens), capacity(slots + 3), pool(1) {
    if (shape.value_width == 0) shape.value_width = shape.width;
    testing::Random random(static_cast<std::uint64_t>(shape.heads * 1000 + shape.width + shape.tokens));
    q.resize(size(shape.tokens * shape.heads * shape.width));
    for (float& x : q) x = static_cast<float>(shape.reach) * random.next();
    k.resize(size(slots * shape.kv_heads * shape.width));
    v.resize(size(slots * shape.kv_heads * shape.value_width));
    for (float& x : k) x = random.next();
    for (float& x : v) x = random.next();
    keys = cache(shape.keys, shape.width, key_memory);
    values = cache(shape.values, shape.value_width, value_memory);
    store({.x = {k.data(), {slots, shape.kv_heads, shape.width}}, .cache = keys}, pool);
    store({.x = {v.data(), {slots, shape.kv_heads, shape.value_width}}, .cache = values}, pool);
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      slopes.push_back(static_cast<float>(
          std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(shape.heads))));
    }
    for (std::int64_t s = 0; s < slots; ++s) key_positions.push_back(shape.start + s);
    query_positions.assign(key_positions.end() - shape.tokens, key_positions.end());
  }

  CacheTensor cache(DType dtype, std::int64_t width, std::vector<std::uint8_t>& memory) const {
    memory.assign(size(shape.kv_heads * capacity * width) * size_of(dtype), 0xFF);  // NaN beyond the slots
    return {
        .data = memory.data(), .dtype = dtype, .heads = shape.kv_heads, .capacity = capacity, .width = width};
  }

  [[nodiscard]] float scale() const { return 1.0f / std::sqrt(static_cast<float>(shape.width)); }

  AttendCall call(View<float, 3> out) {
    AttendCall c{.q = {q.data(), {shape.tokens, shape.heads, shape.width}},
                 .keys = keys,
                 .values = values,
                 .first_slot = shape.first_slot,
                 .scale = scale(),
                 .out = out};
    if (shape.alibi) {
      c.slopes = {slopes.data(), {shape.heads}};
      c.query_positions = {query_positions.data(), {shape.tokens}};
      c.key_positions = {key_positions.data(), {slots}};
    }
    return c;
  }

  [[nodiscard]] std::vector<float> run(ThreadPool& on) {
    std::vector<float> out(size(shape.tokens * shape.heads * shape.value_width));
    const AttendCall c = call({out.data(), {shape.tokens, shape.heads, shape.value_width}});
    attend({&c, 1}, on);
    return out;
  }

  // The reference reads what the cache holds, so that storage is not part of the error.
  static std::vector<double> stored(const CacheTensor& c, std::int64_t slots) {
    std::vector<double> values;
    for (std::int64_t g = 0; g < c.heads; ++g) {
      for (std::int64_t i = 0; i < slots * c.width; ++i) {
        const std::int64_t at = g * c.capacity * c.width + i;
        if (c.dtype == DType::f32) values.push_back(testing::wide(static_cast<const float*>(c.data)[at]));
        if (c.dtype == DType::f16) values.push_back(testing::wide(static_cast<const Half*>(c.data)[at]));
        if (c.dtype == DType::bf16) values.push_back(testing::wide(static_cast<const BFloat16*>(c.data)[at]));
      }
    }
    return values;
  }

  struct Truth {
    std::vector<double> q, k, v, slopes, out;
    reference::Attention attention;
    double largest = 0;
  };
  [[nodiscard]] std::unique_ptr<Truth> truth() const {
    auto t = std::make_unique<Truth>();
    t->q.assign(q.begin(), q.end());
    t->k = stored(keys, slots);
    t->v = stored(values, slots);
    t->slopes.assign(slopes.begin(), slopes.end());
    t->attention = {.q = {t->q.data(), {shape.tokens, shape.heads, shape.width}},
                    .keys = {t->k.data(), {shape.kv_heads, slots, shape.width}},
                    .values = {t->v.data(), {shape.kv_heads, slots, shape.value_width}},
                    .first_slot = shape.first_slot,
                    .scale = testing::wide(scale())};
    if (shape.alibi) {
      t->attention.slopes = {t->slopes.data(), {shape.heads}};
      t->attention.query_positions = {query_positions.data(), {shape.tokens}};
      t->attention.key_positions = {key_positions.data(), {slots}};
    }
    t->out.resize(size(shape.tokens * shape.heads * shape.value_width));
    reference::attend(t->attention, {t->out.data(), {shape.tokens, shape.heads, shape.value_width}});
    for (const double x : t->v) t->largest = std::max(t->largest, std::abs(x));
    return t;
  }

  Shape shape;
  std::int64_t slots;
  std::int64_t capacity;
  ThreadPool pool;
  std::vector<float> q, k, v, slopes;
  std::vector<std::uint8_t> key_memory, value_memory;
  CacheTensor keys, values;
  std::vector<std::int64_t> query_positions, key_positions;
};

void expect_reference(const Shape& shape) {
  SCOPED_TRACE(::testing::Message() << shape.tokens << " tokens, " << shape.heads << "/" << shape.kv_heads
                                    << " heads x " << shape.width << ", first slot " << shape.first_slot
                                    << ", alibi " << shape.alibi);
  Problem p(shape);
  const auto truth = p.truth();
  testing::on_every_target([&] {
    const std::vector<float> out = p.run(p.pool);
    for (std::size_t i = 0; i < out.size(); ++i) {
      ASSERT_LE(std::abs(testing::wide(out[i]) - truth->out[i]), budgets::kAttend * truth->largest)
          << "element " << i;
    }
  });
}

TEST(Attend, HeadsOverKvHeadsAndWidths) {
  for (const auto& [heads, kv_heads] : {std::pair{9, 3}, {5, 5}, {5, 1}, {7, 1}, {1, 1}, {12, 2}, {71, 1}}) {
    for (const std::int64_t width : {8, 10, 24, 64, 80, 128}) {
      const Shape shape{.heads = heads, .kv_heads = kv_heads, .width = width};
      Shape one = shape;
      one.first_slot = 97;
      expect_reference(one);
      Shape some = shape;
      some.tokens = 19;
      some.first_slot = 60;
      some.alibi = width == 80;
      expect_reference(some);
    }
  }
}

TEST(Attend, EveryWidthUpToTwoVectors) {
  for (std::int64_t width = 1; width <= 2 * testing::kMaxLanes + 1; ++width) {
    expect_reference(
        {.tokens = 1 + width % 5, .heads = 3, .kv_heads = 3, .width = width, .value_width = 34 - width});
    expect_reference({.tokens = 13, .heads = 2, .kv_heads = 1, .width = width, .value_width = 34 - width});
  }
}

TEST(Attend, StoredDtypes) {
  for (const DType keys : {DType::f32, DType::f16, DType::bf16}) {
    for (const DType values : {DType::f32, DType::f16, DType::bf16}) {
      for (const std::int64_t width : {10, 64}) {
        for (const std::int64_t tokens : {1, 40}) {
          expect_reference({.tokens = tokens,
                            .heads = 6,
                            .kv_heads = 2,
                            .width = width,
                            .first_slot = 70,
                            .keys = keys,
                            .values = values});
        }
      }
    }
  }
}

TEST(Attend, WideHeads) {
  for (const std::int64_t width : {192, 256, 500, 512, 576, 1024}) {
    expect_reference({.tokens = 1, .heads = 4, .kv_heads = 2, .width = width, .first_slot = 40});
    expect_reference(
        {.tokens = 21, .heads = 4, .kv_heads = 2, .width = width, .value_width = width / 2, .first_slot = 5});
  }
}

TEST(Attend, LongPrompt) {
  expect_reference({.tokens = 300, .heads = 9, .kv_heads = 3, .width = 24});
  expect_reference({.tokens = 300, .heads = 4, .kv_heads = 4, .width = 10, .alibi = true, .start = -150});
}

TEST(Attend, LongCaches) {
  expect_reference({.heads = 9, .kv_heads = 3, .width = 64, .first_slot = 4999});
  expect_reference(
      {.heads = 5, .kv_heads = 1, .width = 64, .first_slot = 2047, .keys = DType::f16, .values = DType::f16});
  expect_reference({.tokens = 3, .heads = 7, .kv_heads = 1, .width = 40, .first_slot = 3000, .alibi = true});
  expect_reference({.tokens = 20, .heads = 2, .kv_heads = 1, .width = 16, .first_slot = 1015, .alibi = true});
}

TEST(Attend, ScoresUpToFifty) {
  expect_reference({.tokens = 4, .heads = 4, .kv_heads = 2, .width = 64, .first_slot = 500, .reach = 14});
  expect_reference({.tokens = 24, .heads = 4, .kv_heads = 2, .width = 64, .first_slot = 500, .reach = 14});
}

TEST(Attend, AlibiFarOutIsAlibiAtZero) {
  for (const std::int64_t tokens : {1, 30}) {
    Problem near(
        {.tokens = tokens, .heads = 6, .kv_heads = 3, .width = 16, .first_slot = 1500, .alibi = true});
    Problem far({.tokens = tokens,
                 .heads = 6,
                 .kv_heads = 3,
                 .width = 16,
                 .first_slot = 1500,
                 .alibi = true,
                 .start = 1000000});
    testing::on_every_target([&] { ASSERT_EQ(near.run(near.pool), far.run(far.pool)); });
    expect_reference(far.shape);
  }
}

TEST(Attend, ScoresAreThoseOfTheOutput) {
  for (const std::int64_t tokens : {1, 7, 30}) {
    for (const std::int64_t first : {0, 90, 2100}) {
      Problem p({.tokens = tokens,
                 .heads = 4,
                 .kv_heads = 2,
                 .width = 24,
                 .first_slot = first,
                 .alibi = true,
                 .start = 5});
      const auto truth = p.truth();
      testing::on_every_target([&] {
        const std::vector<float> plain = p.run(p.pool);
        std::vector<float> out(plain.size());
        std::vector<float> scores(size(4 * tokens * p.slots), 7.0f);
        AttendCall call = p.call({out.data(), {tokens, 4, 24}});
        call.scores = {scores.data(), {4, tokens, p.slots}};
        attend({&call, 1}, p.pool);
        ASSERT_EQ(out, plain);
        for (std::int64_t h = 0; h < 4; ++h) {
          for (std::int64_t t = 0; t < tokens; ++t) {
            for (std::int64_t s = 0; s < p.slots; ++s) {
              const float got = call.scores(h, t, s);
              if (s > first + t) {
                ASSERT_EQ(got, -std::numeric_limits<float>::infinity()) << h << "," << t << "," << s;
                continue;
              }
              double magnitude = testing::wide(p.slopes[size(h)]) * static_cast<double>(first + t - s);
              for (std::int64_t c = 0; c < 24; ++c) {
                magnitude += truth->attention.scale *
                             std::abs(truth->attention.q(t, h, c) * truth->attention.keys(h / 2, s, c));
              }
              ASSERT_NEAR(testing::wide(got), reference::score(truth->attention, t, h, s),
                          budgets::kScore * magnitude);
            }
          }
        }
      });
    }
  }
}

TEST(Attend, PromptInPiecesIsThePromptAtOnce) {
  Problem p({.tokens = 300, .heads = 9, .kv_heads = 3, .width = 64, .alibi = true});
  double largest = 0;
  for (const float x : p.v) largest = std::max(largest, std::abs(testing::wide(x)));
  testing::on_every_target([&] {
    const std::vector<float> whole = p.run(p.pool);
    std::vector<float> pieces(whole.size());
    std::int64_t first = 0;
    for (const std::int64_t count : {1, 2, 61, 64, 1, 100, 71}) {
      AttendCall call = p.call({pieces.data(), {300, 9, 64}});
      call.q = call.q.rows(first, count);
      call.out = call.out.rows(first, count);
      call.first_slot = first;
      call.query_positions = call.query_positions.rows(first, count);
      call.key_positions = call.key_positions.rows(0, first + count);
      attend({&call, 1}, p.pool);
      first += count;
    }
    ASSERT_EQ(first, 300);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      ASSERT_NEAR(testing::wide(whole[i]), testing::wide(pieces[i]), budgets::kAttendPrompt * largest) << i;
    }
  });
}

TEST(Attend, UnevenSequencesInOneCall) {
  Problem a({.tokens = 1, .heads = 6, .kv_heads = 2, .width = 32, .first_slot = 2500});
  Problem b({.tokens = 9, .heads = 6, .kv_heads = 2, .width = 32, .first_slot = 0});
  Problem c({.tokens = 40, .heads = 6, .kv_heads = 2, .width = 32, .first_slot = 70});
  std::vector<float> out_a(size(1 * 6 * 32)), out_b(size(9 * 6 * 32)), out_c(size(40 * 6 * 32)), none;
  AttendCall empty = b.call({none.data(), {0, 6, 32}});
  empty.q = empty.q.rows(0, 0);
  const std::vector<AttendCall> calls{a.call({out_a.data(), {1, 6, 32}}), empty,
                                      b.call({out_b.data(), {9, 6, 32}}),
                                      c.call({out_c.data(), {40, 6, 32}})};
  attend(calls, a.pool);
  attend({calls.data(), 2}, a.pool);
  for (const auto& [problem, out] : {std::pair{&a, &out_a}, {&b, &out_b}, {&c, &out_c}}) {
    const auto truth = problem->truth();
    for (std::size_t i = 0; i < out->size(); ++i) {
      ASSERT_LE(std::abs(testing::wide((*out)[i]) - truth->out[i]), budgets::kAttend * truth->largest);
    }
  }
}

TEST(Attend, AnyNumberOfThreadsGivesTheSameBits) {
  ThreadPool two(2);
  ThreadPool three(3);
  for (const Shape& shape : {Shape{.heads = 9, .kv_heads = 3, .width = 64, .first_slot = 4999},
                             Shape{.tokens = 300, .heads = 9, .kv_heads = 3, .width = 64, .alibi = true},
                             Shape{.tokens = 2,
                             .heads = 5,
                             .kv_heads = 1,
                             .width = 80,
                             .first_slot = 3333,
                             .keys = DType::bf16,
                             .values = DType::bf16}}) {
    Problem p(shape);
    testing::on_every_target([&] {
      const std::vector<float> one = p.run(p.pool);
      ASSERT_EQ(one, p.run(two));
      ASSERT_EQ(one, p.run(three));
    });
  }
}

// What a token cannot see cannot spoil it, not even through 0 * infinity.
TEST(Attend, NanOfALaterTokenStaysThere) {
  for (const std::int64_t tokens : {3, 40}) {
    Problem p({.tokens = tokens, .heads = 4, .kv_heads = 2, .width = 20, .first_slot = 30});
    const std::vector<float> clean = p.run(p.pool);
    const std::int64_t bad = p.slots - 1;
    for (std::int64_t g = 0; g < 2; ++g) {
      for (std::int64_t c = 0; c < 20; ++c) {
        static_cast<float*>(p.values.data)[(g * p.capacity + bad) * 20 + c] =
            std::numeric_limits<float>::infinity();
        static_cast<float*>(p.keys.data)[(g * p.capacity + bad) * 20 + c] =
            std::numeric_limits<float>::quiet_NaN();
      }
    }
    testing::on_every_target([&] {
      const std::vector<float> out = p.run(p.pool);
      const std::size_t last = size((tokens - 1) * 4 * 20);
      for (std::size_t i = 0; i < last; ++i) ASSERT_NEAR(out[i], clean[i], budgets::kAttend * 10) << i;
      for (std::size_t i = last; i < out.size(); ++i) ASSERT_TRUE(std::isnan(out[i])) << i;
    });
  }
}

}  // namespace
}  // namespace locant

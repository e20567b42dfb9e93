// SPDX-License-Identifier: Apache-2.0
// Attention against the double reference: heads over kv heads, widths, dtypes, lengths, ALiBi far out,
// scores, chunks against the whole, threads, NaN kept where it belongs.
#include <limits>
#include <utility>

#include "ops/attend_problem.h"

namespace locant {
namespace {

using testing::expect_reference;
using testing::size;
using Problem = testing::AttendProblem;
using Shape = testing::AttendShape;

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
  for (const DType keys : {DType::f32, DType::f16, DType::bf16, DType::i8}) {
    for (const DType values : {DType::f32, DType::f16, DType::bf16, DType::i8}) {
      for (const std::int64_t width : {10, 64}) {
        for (const std::int64_t tokens : {1, 40}) {
          expect_reference({.tokens = tokens,
                            .heads = tokens == 1 && width == 10 ? 2 : 6,
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

// A row that is no number has NaN for its scale: what sees it is NaN, what does not is untouched.
TEST(Attend, NanScaleOfALaterTokenStaysThere) {
  for (const std::int64_t tokens : {3, 40}) {
    Problem p({.tokens = tokens,
               .heads = 4,
               .kv_heads = 2,
               .width = 20,
               .first_slot = 30,
               .keys = DType::i8,
               .values = DType::i8});
    const std::vector<float> clean = p.run(p.pool);
    for (const std::int64_t g : {0, 1}) p.values.scales[g * p.capacity + p.slots - 1] = std::nanf("");
    testing::on_every_target([&] {
      const std::vector<float> out = p.run(p.pool);
      const std::size_t last = size((tokens - 1) * 4 * 20);
      for (std::size_t i = 0; i < last; ++i) ASSERT_NEAR(out[i], clean[i], budgets::kAttend * 10) << i;
      for (std::size_t i = last; i < out.size(); ++i) ASSERT_TRUE(std::isnan(out[i])) << i;
    });
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

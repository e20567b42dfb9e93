// SPDX-License-Identifier: Apache-2.0
// Slots that slopes make too far to count: what is left out stays below its bound, is really left out, and
// what might count never is.
#include <cmath>
#include <limits>

#include "ops/attend_problem.h"

namespace locant {
namespace {

using testing::size;
using testing::wide;
using Problem = testing::AttendProblem;
using Shape = testing::AttendShape;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Far enough for slots to be left out by every slope of 4 heads, for one token and for many.
Shape far_shape(std::int64_t tokens) {
  return {.tokens = tokens,
          .heads = 4,
          .kv_heads = 2,
          .width = 24,
          .first_slot = 12000 - tokens,
          .alibi = true,
          .reach = 2,
          .norms = true};
}

// Calls change with every slot [first, end) of k or v, over both heads.
template <class Change>
void each_slot(Problem& p, std::vector<float>& x, std::int64_t first, std::int64_t end, Change change) {
  const std::int64_t row = p.shape.kv_heads * p.shape.width;
  for (std::int64_t i = first * row; i < end * row; ++i) change(x[size(i)], i % p.shape.width);
}

void expect_bound(Problem& p) {
  const auto truth = p.truth();
  testing::on_every_target([&] {
    const std::vector<float> out = p.run(p.pool);
    for (std::size_t i = 0; i < out.size(); ++i) {
      ASSERT_LE(std::abs(wide(out[i]) - truth->out[i]),
                budgets::kAttendSkipped * truth->largest + budgets::kAttend * truth->largest)
          << i;
    }
  });
}

// Values are zero but for far ones, so that an output is the share of the weights that these have: nothing
// but what is left out can move it.
TEST(AttendSkip, WhatIsLeftOutIsBelowItsBound) {
  for (const std::int64_t tokens : {1, 3, 40}) {
    for (const std::int64_t near : {200, 1000, 3000}) {
      Problem p(far_shape(tokens));
      each_slot(p, p.v, 0, p.slots, [](float& x, std::int64_t) { x = 0; });
      each_slot(p, p.v, 0, p.slots - near, [](float& x, std::int64_t) { x = 1; });
      p.keep();
      const auto truth = p.truth();
      testing::on_every_target([&] {
        const std::vector<float> out = p.run(p.pool);
        for (std::size_t i = 0; i < out.size(); ++i) {
          ASSERT_LE(std::abs(wide(out[i]) - truth->out[i]),
                    budgets::kAttendSkipped + budgets::kAttend * truth->out[i])
              << i;
        }
      });
    }
  }
}

TEST(AttendSkip, FarSlotsAreNotLookedAt) {
  for (const std::int64_t tokens : {1, 3, 40}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::i8}) {
      Shape shape = far_shape(tokens);
      shape.keys = shape.values = dtype;
      shape.reach = 1;
      Problem p(shape);
      const auto truth = p.truth();
      const std::vector<float> norms = p.norms;
      each_slot(p, p.v, 0, 2000, [](float& x, std::int64_t) { x = kNan; });
      each_slot(p, p.k, 0, 2000, [](float& x, std::int64_t) { x = kNan; });
      p.keep();
      p.norms = norms;  // as if nothing had happened
      p.keys.norms = p.norms.data();
      testing::on_every_target([&] {
        const std::vector<float> out = p.run(p.pool);
        for (std::size_t i = 0; i < out.size(); ++i)
          ASSERT_NEAR(out[i], truth->out[i], budgets::kAttend * truth->largest) << i;
      });
    }
  }
}

TEST(AttendSkip, WhatIsNoNumberIsNeverLeftOut) {
  for (const std::int64_t tokens : {1, 40}) {
    for (const float bad : {kNan, kInf}) {
      Problem p(far_shape(tokens));
      each_slot(p, p.k, 100, 101, [&](float& x, std::int64_t) { x = bad; });
      p.keep();
      testing::on_every_target([&] {
        for (const float x : p.run(p.pool)) ASSERT_TRUE(std::isnan(x));
      });
      Problem q(far_shape(tokens));
      for (float& x : q.q) x = bad;
      testing::on_every_target([&] {
        for (const float x : q.run(q.pool)) ASSERT_TRUE(std::isnan(x));
      });
    }
  }
}

// Keys far away that point where every query does, and are long enough to win over the distance.
TEST(AttendSkip, LongKeysFarAwayAreFound) {
  for (const std::int64_t tokens : {1, 40}) {
    for (const float length : {300.0f, 30000.0f}) {
      Problem p(far_shape(tokens));
      for (std::size_t i = 0; i < p.q.size(); ++i) p.q[i] = i % 24 == 0 ? 40.0f : 0.1f;
      each_slot(p, p.k, 777, 778, [&](float& x, std::int64_t c) { x = c == 0 ? length : 0.0f; });
      p.keep();
      expect_bound(p);
    }
  }
}

TEST(AttendSkip, PositionsThatJumpStandStillOrComeLater) {
  for (const std::int64_t tokens : {1, 40}) {
    Problem jumps(far_shape(tokens));
    for (std::int64_t s = 0; s < jumps.slots; ++s)
      jumps.key_positions[size(s)] = s < 6000 ? 11000 + s % 977 : s - 6000;
    expect_bound(jumps);
    Problem still(far_shape(tokens));
    std::fill(still.key_positions.begin(), still.key_positions.end(), 5);
    expect_bound(still);
    // Every key is a million tokens away: the nearest of them still share the weights.
    Problem away(far_shape(tokens));
    for (std::int64_t& position : away.query_positions) position += 1000000;
    const auto truth = away.truth();
    testing::on_every_target([&] {
      const std::vector<float> out = away.run(away.pool);
      for (std::size_t i = 0; i < out.size(); ++i) ASSERT_TRUE(std::isfinite(out[i])) << i;
    });
    Problem later(far_shape(tokens));
    for (std::int64_t s = 0; s < later.slots; ++s) later.key_positions[size(s)] = 24000 - s;
    expect_bound(later);
  }
}

TEST(AttendSkip, NegativeSlopesLeaveNothingOut) {
  for (const std::int64_t tokens : {1, 40}) {
    Shape shape = far_shape(tokens);
    shape.first_slot = 900;
    Problem p(shape);
    for (float& slope : p.slopes) slope = -slope / 64;
    expect_bound(p);
  }
}

TEST(AttendSkip, WindowsSinksCapsAndStoredDtypes) {
  for (const std::int64_t tokens : {1, 5, 40}) {
    for (const DType dtype : {DType::f16, DType::i8}) {
      Shape shape = far_shape(tokens);
      shape.keys = shape.values = dtype;
      shape.sinks = true;
      shape.softcap = 12;
      Problem past(shape);
      expect_bound(past);
      shape.sees = Sees::window;
      shape.window = 5000;
      Problem window(shape);
      expect_bound(window);
      shape.sees = Sees::all;
      shape.window = 0;
      shape.slots = 12000;
      shape.first_slot = 6000;
      Problem all(shape);
      expect_bound(all);
    }
  }
}

// Spans of one head, and blocks of many rows.
TEST(AttendSkip, AnyNumberOfThreadsGivesTheSameBits) {
  ThreadPool two(2);
  ThreadPool three(3);
  for (const std::int64_t tokens : {1, 300}) {
    Shape shape = far_shape(tokens);
    shape.kv_heads = 1;
    Problem p(shape);
    testing::on_every_target([&] {
      const std::vector<float> one = p.run(p.pool);
      ASSERT_EQ(one, p.run(two));
      ASSERT_EQ(one, p.run(three));
    });
    expect_bound(p);
  }
}

// All scores, tables and a bias tensor: what norms say is not asked for.
TEST(AttendSkip, ScoresTablesAndBiasesLeaveNothingOut) {
  for (const std::int64_t tokens : {1, 20}) {
    Shape shape = far_shape(tokens);
    shape.distances = 5;
    Problem with_table(shape);
    shape.distances = 0;
    shape.first_slot = 3000;
    shape.bias = true;
    Problem with_bias(shape);
    shape.bias = false;
    Problem with_scores(shape);
    std::vector<float> scores(size(4 * tokens * with_scores.slots));
    testing::on_every_target([&] {
      for (Problem* p : {&with_table, &with_bias, &with_scores}) {
        std::vector<float> out(size(tokens * 4 * 24)), plain(out.size());
        AttendCall call = p->call({out.data(), {tokens, 4, 24}});
        if (p == &with_scores) call.scores = {scores.data(), {4, tokens, p->slots}};
        attend({&call, 1}, p->pool);
        call.keys.norms = nullptr;
        call.out = {plain.data(), {tokens, 4, 24}};
        attend({&call, 1}, p->pool);
        ASSERT_EQ(out, plain);
      }
    });
  }
}

}  // namespace
}  // namespace locant

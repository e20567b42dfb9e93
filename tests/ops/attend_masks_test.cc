// SPDX-License-Identifier: Apache-2.0
// What a query sees, softcaps, sinks, relative tables and biases against the double reference; what is not
// seen is not touched; the same bits on any number of threads.
#include <limits>
#include <utility>

#include "ops/attend_problem.h"

namespace locant {
namespace {

using testing::expect_reference;
using testing::size;
using Problem = testing::AttendProblem;
using Shape = testing::AttendShape;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr Sees kWindowed[] = {Sees::window, Sees::chunk, Sees::around};

TEST(AttendMasks, WindowEdgesFewAndManyRows) {
  for (const Sees sees : kWindowed) {
    for (const std::int64_t window : {1, 2, 3, 7, 16, 63, 64, 65, 128, 129, 500}) {
      for (const auto& [tokens, first] : {std::pair{1, 0}, {1, 63}, {1, 300}, {3, 62}, {70, 0}, {70, 190}}) {
        expect_reference({.tokens = tokens,
                          .heads = 4,
                          .kv_heads = 2,
                          .width = 16,
                          .first_slot = first,
                          .sees = sees,
                          .window = window});
      }
    }
  }
}

TEST(AttendMasks, GroupsAndStoredDtypes) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const auto& [heads, kv_heads] : {std::pair{6, 6}, {6, 2}, {5, 1}, {14, 2}}) {
      for (const Sees sees : {Sees::past, Sees::window, Sees::chunk, Sees::all, Sees::around}) {
        for (const std::int64_t tokens : {1, 21}) {
          for (const std::int64_t first : {0, 130}) {
            expect_reference({.tokens = tokens,
                              .heads = heads,
                              .kv_heads = kv_heads,
                              .width = 20,
                              .first_slot = first,
                              .keys = dtype,
                              .values = dtype,
                              .sees = sees,
                              .window = sees == Sees::past || sees == Sees::all ? 0 : 37});
          }
        }
      }
    }
  }
}

// Cross-attention: queries over a cache that has nothing to do with their own slots.
TEST(AttendMasks, AllTakesAnyNumberOfSlots) {
  for (const std::int64_t slots : {1, 5, 64, 129, 3000}) {
    for (const std::int64_t tokens : {1, 4, 33}) {
      expect_reference({.tokens = tokens,
                        .heads = 6,
                        .kv_heads = 3,
                        .width = 12,
                        .sees = Sees::all,
                        .slots = slots,
                        .sinks = tokens == 4});
      expect_reference({.tokens = tokens,
                        .heads = 6,
                        .kv_heads = 3,
                        .width = 12,
                        .first_slot = 700,
                        .sees = Sees::all,
                        .slots = slots,
                        .distances = 9,
                        .zero = 4});
    }
  }
}

TEST(AttendMasks, EveryMixOfWhatEntersAScore) {
  for (const Sees sees : {Sees::past, Sees::window, Sees::chunk, Sees::all, Sees::around}) {
    for (unsigned mix = 0; mix < 32; ++mix) {
      for (const std::int64_t tokens : {1, 30}) {
        expect_reference({.tokens = tokens,
                          .heads = 6,
                          .kv_heads = 2,
                          .width = 24,
                          .first_slot = tokens == 1 ? 140 : 50,
                          .alibi = (mix & 1u) != 0,
                          .sees = sees,
                          .window = sees == Sees::past || sees == Sees::all ? 0 : 40,
                          .softcap = (mix & 2u) != 0 ? 5.0f : 0,
                          .sinks = (mix & 4u) != 0,
                          .distances = (mix & 8u) != 0 ? 33 : 0,
                          .zero = 16,
                          .bias = (mix & 16u) != 0,
                          .start = 4000});
      }
    }
  }
}

TEST(AttendMasks, SpansOfALongCache) {
  for (const Sees sees : {Sees::past, Sees::window, Sees::chunk, Sees::all, Sees::around}) {
    for (const std::int64_t window : {100, 1024, 2500}) {
      const bool windowed = sees != Sees::past && sees != Sees::all;
      if (!windowed && window != 100) continue;
      for (const std::int64_t tokens : {1, 2, 6}) {
        expect_reference({.tokens = tokens,
                          .heads = 2,
                          .kv_heads = 1,
                          .width = 32,
                          .first_slot = 5000,
                          .alibi = tokens == 2,
                          .sees = sees,
                          .window = windowed ? window : 0,
                          .softcap = tokens == 6 ? 20.0f : 0,
                          .sinks = true,
                          .distances = tokens == 6 ? 4000 : 0,
                          .zero = 3000,
                          .bias = tokens == 2});
      }
    }
  }
}

TEST(AttendMasks, SinksFarAboveAndFarBelow) {
  for (const float sink : {-kInf, -1000.0f, 40.0f}) {
    for (const std::int64_t first : {20, 4000}) {
      Problem p({.tokens = 2, .heads = 3, .kv_heads = 1, .width = 8, .first_slot = first, .sinks = true});
      for (float& s : p.sinks) s = sink;
      const auto truth = p.truth();
      testing::on_every_target([&] {
        const std::vector<float> out = p.run(p.pool);
        for (std::size_t i = 0; i < out.size(); ++i)
          ASSERT_NEAR(testing::wide(out[i]), truth->out[i], budgets::kAttend * truth->largest) << sink;
      });
    }
  }
}

// A sink as a last key without a value gives what a sink does.
TEST(AttendMasks, ASinkIsAKeyWithoutAValue) {
  Problem p(
      {.tokens = 5, .heads = 2, .kv_heads = 2, .width = 8, .first_slot = 30, .sinks = true, .bias = true});
  Problem q(
      {.tokens = 5, .heads = 2, .kv_heads = 2, .width = 8, .sees = Sees::all, .slots = 36, .bias = true});
  q.q = p.q;
  for (std::int64_t g = 0; g < 2; ++g) {
    for (std::int64_t s = 0; s < 36; ++s) {
      for (std::int64_t c = 0; c < 8; ++c) {
        const auto at = [&](const Problem& of) { return (g * of.capacity + s) * 8 + c; };
        const bool sink = s == 35;
        static_cast<float*>(q.keys.data)[at(q)] = sink ? 0 : static_cast<const float*>(p.keys.data)[at(p)];
        static_cast<float*>(q.values.data)[at(q)] =
            sink ? 0 : static_cast<const float*>(p.values.data)[at(p)];
      }
    }
  }
  for (std::int64_t h = 0; h < 2; ++h) {
    for (std::int64_t t = 0; t < 5; ++t) {
      for (std::int64_t s = 0; s < 36; ++s) {
        const float own = s < 35 ? p.bias[size((h * 5 + t) * 35 + s)] : 0;
        q.bias[size((h * 5 + t) * 36 + s)] = s == 35 ? p.sinks[size(h)] : s > 30 + t ? -kInf : own;
      }
    }
  }
  const std::vector<float> a = p.run(p.pool);
  const std::vector<float> b = q.run(q.pool);
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], budgets::kAttendPrompt * 5) << i;
}

TEST(AttendMasks, ScoresHoldEveryBiasAndHideWhatIsUnseen) {
  for (const Sees sees : {Sees::past, Sees::window, Sees::chunk, Sees::all, Sees::around}) {
    for (const std::pair<int, int>& size_and_first : {std::pair{1, 200}, {30, 90}, {2, 4200}}) {
      const std::int64_t tokens = size_and_first.first;  // no binding: lambdas of clang 14 cannot hold one
      Problem p({.tokens = tokens,
                 .heads = 4,
                 .kv_heads = 2,
                 .width = 24,
                 .first_slot = size_and_first.second,
                 .alibi = true,
                 .sees = sees,
                 .window = sees == Sees::past || sees == Sees::all ? 0 : 50,
                 .softcap = 6,
                 .sinks = true,
                 .distances = 20,
                 .zero = 12,
                 .bias = true});
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
              if (!reference::sees(truth->attention, t, s)) {
                ASSERT_EQ(got, -kInf) << h << "," << t << "," << s;
                continue;
              }
              double magnitude = 6 + 16 + testing::wide(p.slopes[size(h)]) * static_cast<double>(p.slots);
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

// NaN and infinity outside what any query sees, in the caches, the bias and the relative table's use.
TEST(AttendMasks, WhatNobodySeesMayBeAnything) {
  for (const Sees sees : kWindowed) {
    for (const auto& [tokens, first] : {std::pair{1, 300}, {3, 301}, {40, 330}, {2, 5000}}) {
      Problem p({.tokens = tokens,
                 .heads = 4,
                 .kv_heads = 2,
                 .width = 20,
                 .first_slot = first,
                 .sees = sees,
                 .window = 33,
                 .bias = true});
      const auto truth = p.truth();
      for (std::int64_t t = 0; t < tokens; ++t) {
        for (std::int64_t s = 0; s < p.slots; ++s) {
          if (reference::sees(truth->attention, t, s)) continue;
          for (std::int64_t h = 0; h < 4; ++h) p.bias[size((h * tokens + t) * p.slots + s)] = kNan;
        }
      }
      for (std::int64_t s = 0; s < p.slots; ++s) {
        bool seen = false;
        for (std::int64_t t = 0; t < tokens; ++t) seen = seen || reference::sees(truth->attention, t, s);
        if (seen) continue;
        for (std::int64_t g = 0; g < 2; ++g) {
          for (std::int64_t c = 0; c < 20; ++c) {
            static_cast<float*>(p.values.data)[(g * p.capacity + s) * 20 + c] = kInf;
            static_cast<float*>(p.keys.data)[(g * p.capacity + s) * 20 + c] = kNan;
          }
        }
      }
      testing::on_every_target([&] {
        const std::vector<float> out = p.run(p.pool);
        for (std::size_t i = 0; i < out.size(); ++i)
          ASSERT_NEAR(testing::wide(out[i]), truth->out[i], budgets::kAttend * truth->largest) << i;
      });
    }
  }
}

// A slot that some rows of a block see spoils those alone.
TEST(AttendMasks, NanInAWindowStaysWithThoseWhoSeeIt) {
  for (const Sees sees : kWindowed) {
    for (const std::int64_t heads : {1, 3, 4}) {
      Problem p({.tokens = 90, .heads = heads, .kv_heads = 1, .width = 8, .sees = sees, .window = 10});
      const auto truth = p.truth();
      constexpr std::int64_t kBad = 41;
      for (std::int64_t c = 0; c < 8; ++c) {
        static_cast<float*>(p.values.data)[kBad * 8 + c] = kInf;
        static_cast<float*>(p.keys.data)[kBad * 8 + c] = kNan;
      }
      testing::on_every_target([&] {
        const std::vector<float> out = p.run(p.pool);
        for (std::int64_t t = 0; t < 90; ++t) {
          for (std::int64_t i = t * heads * 8; i < (t + 1) * heads * 8; ++i) {
            if (reference::sees(truth->attention, t, kBad)) {
              ASSERT_TRUE(std::isnan(out[size(i)])) << t;
            } else {
              ASSERT_NEAR(testing::wide(out[size(i)]), truth->out[size(i)], budgets::kAttend * truth->largest)
                  << t;
            }
          }
        }
      });
    }
  }
}

TEST(AttendMasks, AnyNumberOfThreadsGivesTheSameBits) {
  ThreadPool two(2);
  ThreadPool three(3);
  for (const Sees sees : {Sees::past, Sees::window, Sees::chunk, Sees::all, Sees::around}) {
    for (const auto& [tokens, first] : {std::pair{1, 4999}, {300, 0}, {4, 3333}}) {
      Problem p({.tokens = tokens,
                 .heads = 6,
                 .kv_heads = 2,
                 .width = 64,
                 .first_slot = first,
                 .alibi = tokens == 4,
                 .sees = sees,
                 .window = sees == Sees::past || sees == Sees::all ? 0 : 1500,
                 .softcap = 30,
                 .sinks = true,
                 .bias = tokens == 300});
      testing::on_every_target([&] {
        const std::vector<float> one = p.run(p.pool);
        ASSERT_EQ(one, p.run(two));
        ASSERT_EQ(one, p.run(three));
      });
    }
  }
}

}  // namespace
}  // namespace locant

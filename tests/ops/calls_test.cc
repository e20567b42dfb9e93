// SPDX-License-Identifier: Apache-2.0
// The public calls on strided views and empty ones, what lies behind the head, and the same bits on any
// number of threads.
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>

#include "budgets.h"
#include "kernels/targets_and_memory.h"
#include "locant/ops.h"
#include "reference/reference.h"

namespace locant {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> numbers(std::size_t n, std::uint64_t seed) {
  testing::Random random(seed);
  std::vector<float> values(n);
  for (float& v : values) v = random.next();
  return values;
}

class Calls : public ::testing::Test {
 protected:
  ThreadPool pool{1};
};

TEST_F(Calls, TargetsAreThoseOfTheKernels) {
  const std::vector<std::string> names = cpu_targets();
  ASSERT_EQ(names.size(), kernels::targets().size());
  EXPECT_EQ(names.front(), kernels::targets().front().name);
}

TEST_F(Calls, ATargetIsForcedByName) {
  use_cpu_target("");
  const std::vector<std::string> names = cpu_targets();
  use_cpu_target(names.back());
  EXPECT_EQ(cpu_targets(), std::vector<std::string>{names.back()});
  try {
    use_cpu_target("AVX9");
    FAIL() << "accepted";
  } catch (const SpecError& error) {
    EXPECT_THAT(error.what(), ::testing::StartsWith("cpu target: expected one of " + names.front()));
    EXPECT_THAT(error.what(), ::testing::EndsWith(", got AVX9"));
  }
  EXPECT_EQ(cpu_targets(), names) << "a refused name leaves the best in use";
  use_cpu_target("");
  EXPECT_EQ(cpu_targets(), names);
}

TEST_F(Calls, EmbedIsExactAndAddsPositions) {
  const std::vector<float> table = numbers(7 * 20, 1);
  std::vector<BFloat16> narrow(7 * 20);
  for (std::size_t i = 0; i < narrow.size(); ++i) narrow[i] = bfloat16_from_f32(table[i]);
  const std::vector<std::int64_t> ids{6, -9, 0, -9, 6, -9, 3};  // every second one
  std::vector<float> out(4 * 25, 1.0f);
  const View<float, 2> rows(out.data(), {4, 20}, {25, 1});
  const View<const std::int64_t, 1> every_second(ids.data(), {4}, {2});
  embed({.ids = every_second, .table = matrix(View<const float, 2>(table.data(), {7, 20})), .out = rows},
        pool);
  for (std::int64_t t = 0; t < 4; ++t) {
    for (std::int64_t c = 0; c < 20; ++c) {
      ASSERT_EQ(rows(t, c), table[static_cast<std::size_t>(every_second(t) * 20 + c)]);
    }
  }
  ASSERT_EQ(out[20], 1.0f);
  add_rows(
      {.rows = every_second, .table = matrix(View<const BFloat16, 2>(narrow.data(), {7, 20})), .out = rows},
      pool);
  for (std::int64_t t = 0; t < 4; ++t) {
    for (std::int64_t c = 0; c < 20; ++c) {
      const auto at = static_cast<std::size_t>(every_second(t) * 20 + c);
      ASSERT_EQ(rows(t, c), table[at] + f32_from(narrow[at]));
    }
  }
}

// q and k are slices of one row-major qkv matrix: rows interleave without touching.
TEST_F(Calls, RotateInsideAFusedMatrix) {
  constexpr std::int64_t kRow = 4 * 16 + 2 * 16 + 2 * 16;
  std::vector<float> qkv = numbers(3 * kRow, 2);
  const std::vector<float> before = qkv;
  const std::vector<float> cos = numbers(3 * 8, 3);
  const std::vector<float> sin = numbers(3 * 8, 4);
  const View<float, 3> q(qkv.data(), {3, 4, 16}, {kRow, 16, 1});
  const View<float, 3> k(qkv.data() + 64, {3, 2, 16}, {kRow, 16, 1});
  const View<float, 3> v(qkv.data() + 96, {3, 2, 16}, {kRow, 16, 1});
  const View<const float, 2> vc(cos.data(), {3, 8});
  const View<const float, 2> vs(sin.data(), {3, 8});
  rotate({.x = q, .cos = vc, .sin = vs, .out = q}, pool);
  rotate({.x = k, .cos = vc, .sin = vs, .out = v}, pool);  // out of place beside it
  for (std::int64_t t = 0; t < 3; ++t) {
    for (std::int64_t h = 0; h < 4; ++h) {
      for (std::int64_t i = 0; i < 8; ++i) {
        const auto at = static_cast<std::size_t>(t * kRow + h * 16 + i);
        const double a = testing::wide(before[at]);
        const double b = testing::wide(before[at + 8]);
        const double c = testing::wide(vc(t, i));
        const double s = testing::wide(vs(t, i));
        ASSERT_NEAR(testing::wide(q(t, h, i)), a * c - b * s,
                    budgets::kRotateF32 * std::hypot(a, b) * std::hypot(c, s));
      }
    }
    for (std::size_t i = 64; i < 96; ++i) {
      ASSERT_EQ(qkv[static_cast<std::size_t>(t * kRow) + i], before[static_cast<std::size_t>(t * kRow) + i]);
    }
  }
}

TEST_F(Calls, InverseUndoesRotation) {
  std::vector<float> x = numbers(5 * 9 * 80, 5);
  const std::vector<float> before = x;
  std::vector<float> cos(5 * 20);
  std::vector<float> sin(5 * 20);
  for (std::size_t i = 0; i < cos.size(); ++i) {
    const double angle = 2500.0 + static_cast<double>(i);
    cos[i] = static_cast<float>(std::cos(angle));
    sin[i] = static_cast<float>(std::sin(angle));
  }
  for (const Pairing read : {Pairing::half, Pairing::interleaved}) {
    for (const Pairing write : {Pairing::half, Pairing::interleaved}) {
      std::vector<float> y = before;
      const View<float, 3> view(y.data(), {5, 9, 80});
      RotateCall<float> call{.x = view,
                             .cos = {cos.data(), {5, 20}},
                             .sin = {sin.data(), {5, 20}},
                             .shape = {.read = read, .write = write, .offset = 13},
                             .out = view};
      rotate(call, pool);
      ASSERT_NE(y, before);
      call.shape.read = write;
      call.shape.write = read;
      call.shape.direction = Direction::inverse;
      rotate(call, pool);
      for (std::size_t i = 0; i < y.size(); ++i) {
        // Twice the rotation's bound, and cos^2 + sin^2 of rounded tables; pair norms stay below 8.
        ASSERT_NEAR(testing::wide(y[i]), testing::wide(before[i]),
                    8 * (2 * budgets::kRotateF32 + 2 * budgets::kTableExact))
            << i;
      }
    }
  }
}

TEST_F(Calls, NormsWithoutGainAreThoseWithOnes) {
  const std::vector<float> x = numbers(3 * 37, 14);
  const std::vector<float> ones(37, 1.0f);
  const std::vector<float> bias = numbers(37, 15);
  testing::on_every_target([&] {
    for (const NormKind kind : {NormKind::rms, NormKind::layer}) {
      std::vector<float> with(x.size());
      std::vector<float> without(x.size());
      NormCall call{.kind = kind,
                    .x = {x.data(), {3, 37}},
                    .bias = {bias.data(), {37}},
                    .out = {without.data(), {3, 37}}};
      normalize(call, pool);
      call.gain = {ones.data(), {37}};
      call.out = {with.data(), {3, 37}};
      normalize(call, pool);
      ASSERT_EQ(with, without);
    }
  });
}

TEST_F(Calls, NamesOfRouterScores) {
  EXPECT_EQ(name_of(RouterScore::softmax), "softmax");
  EXPECT_EQ(name_of(RouterScore::softmax_chosen), "softmax_chosen");
  EXPECT_EQ(name_of(RouterScore::sigmoid), "sigmoid");
}

TEST_F(Calls, EmptyCallsDoNothing) {
  const std::vector<float> w = numbers(12, 6);
  embed({.ids = {}, .table = matrix(View<const float, 2>(w.data(), {3, 4})), .out = {nullptr, {0, 4}}}, pool);
  rotate({.x = View<const float, 3>(nullptr, {0, 2, 8}),
          .cos = {nullptr, {0, 4}},
          .sin = {nullptr, {0, 4}},
          .out = {nullptr, {0, 2, 8}}},
         pool);
  normalize({.x = {nullptr, {0, 4}}, .gain = {w.data(), {4}}, .out = {nullptr, {0, 4}}}, pool);
  activate({.x = {nullptr, {0, 4}}, .out = {nullptr, {0, 4}}}, pool);
  project({.x = {nullptr, {0, 4}},
           .weight = matrix(View<const float, 2>(w.data(), {3, 4})),
           .out = {nullptr, {0, 3}}},
          pool);
  attend({}, pool);
  EXPECT_EQ(first_non_finite(TensorRef(nullptr, DType::f32, {0, 3})), std::nullopt);
  // A width of 0 pairs copies.
  const std::vector<float> x = numbers(8, 7);
  std::vector<float> out(8);
  rotate({.x = View<const float, 3>(x.data(), {1, 1, 8}),
          .cos = {nullptr, {1, 0}},
          .sin = {nullptr, {1, 0}},
          .out = {out.data(), {1, 1, 8}}},
         pool);
  EXPECT_EQ(out, x);
}

TEST_F(Calls, ProjectReadsWeightsFromAnyByte) {
  const std::vector<float> x = numbers(2 * 30, 8);
  const std::vector<float> w = numbers(5 * 30, 9);
  std::vector<std::uint8_t> file(3 + w.size() * sizeof(float));
  std::memcpy(file.data() + 3, w.data(), w.size() * sizeof(float));
  std::vector<float> out(10);
  std::vector<float> expected(10);
  const auto run = [&](const void* data, std::vector<float>& to) {
    project({.x = {x.data(), {2, 30}},
             .weight = {.data = data, .dtype = DType::f32, .rows = 5, .columns = 30, .row_stride = 30},
             .out = {to.data(), {2, 5}}},
            pool);
  };
  run(w.data(), expected);
  run(file.data() + 3, out);
  EXPECT_EQ(out, expected);
}

TEST_F(Calls, StoreWritesItsSlotsAlone) {
  const std::vector<float> x = numbers(3 * 2 * 5, 10);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    std::vector<std::uint8_t> memory(2 * 7 * 5 * size_of(dtype), 0x33);
    const std::vector<std::uint8_t> untouched = memory;
    const CacheTensor cache{.data = memory.data(), .dtype = dtype, .heads = 2, .capacity = 7, .width = 5};
    store({.x = {x.data(), {3, 2, 5}}, .cache = cache, .first_slot = 2}, pool);
    for (std::size_t g = 0; g < 2; ++g) {
      for (std::size_t slot = 0; slot < 7; ++slot) {
        for (std::size_t c = 0; c < 5; ++c) {
          const std::size_t at = (g * 7 + slot) * 5 + c;
          if (slot < 2 || slot >= 5) {
            ASSERT_EQ(memory[at * size_of(dtype)], 0x33);
            continue;
          }
          const float value = x[((slot - 2) * 2 + g) * 5 + c];
          if (dtype == DType::f32) {
            ASSERT_EQ(reinterpret_cast<float*>(memory.data())[at], value);
          } else if (dtype == DType::f16) {
            ASSERT_EQ(reinterpret_cast<Half*>(memory.data())[at].bits, half_from_f32(value).bits);
          } else {
            ASSERT_EQ(reinterpret_cast<BFloat16*>(memory.data())[at].bits, bfloat16_from_f32(value).bits);
          }
        }
      }
    }
  }
}

TEST_F(Calls, LogSumExp) {
  for (const std::size_t n : {1u, 5u, 1000u, 50257u}) {
    const std::vector<float> x = numbers(n, n);
    const std::vector<double> wide(x.begin(), x.end());
    const double expected = reference::log_sum_exp(wide);
    testing::on_every_target([&] {
      ASSERT_NEAR(log_sum_exp({x.data(), {static_cast<std::int64_t>(n)}}), expected,
                  budgets::kLogSumExp * std::max(1.0, expected));
    });
  }
  std::vector<float> x{1, 9, 2, 9, 1000, 9};
  EXPECT_EQ(log_sum_exp({x.data(), {6}}), 1000.0);
  EXPECT_NEAR(log_sum_exp({x.data(), {2}, {2}}), 2 + std::log1p(std::exp(-1.0)), budgets::kLogSumExp * 3);
  EXPECT_EQ(log_sum_exp({x.data(), {0}}), -std::numeric_limits<double>::infinity());
  x[0] = kInf;
  EXPECT_EQ(log_sum_exp({x.data(), {6}}), std::numeric_limits<double>::infinity());
  x[5] = kNan;
  EXPECT_TRUE(std::isnan(log_sum_exp({x.data(), {6}})));
  const std::vector<float> none(40, -kInf);
  EXPECT_EQ(log_sum_exp({none.data(), {40}}), -std::numeric_limits<double>::infinity());
}

// Candidates by a full sort, ties by id, NaN left out.
std::vector<Candidate> sorted(View<const float, 1> x) {
  std::vector<Candidate> all;
  for (std::int64_t i = 0; i < x.extent(0); ++i) {
    if (!std::isnan(x(i))) all.push_back({i, x(i)});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Candidate& a, const Candidate& b) { return a.logit > b.logit; });
  return all;
}

TEST_F(Calls, TopCandidates) {
  for (const std::int64_t n : {1, 2, 40, 3000, 32003}) {
    for (const int kind : {0, 1, 2, 3}) {
      std::vector<float> x = numbers(static_cast<std::size_t>(n) * 2, static_cast<std::uint64_t>(n + kind));
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (kind == 1) x[i] = std::round(x[i]);  // many ties
        if (kind == 2 && i % 3 == 0) x[i] = kNan;
        if (kind == 3) x[i] = static_cast<float>(i);  // every element enters
      }
      for (const std::int64_t stride : {1, 2}) {
        const View<const float, 1> logits(x.data(), {n}, {stride});
        const std::vector<Candidate> expected = sorted(logits);
        for (const std::size_t k : {std::size_t{0}, std::size_t{1}, std::size_t{5}, std::size_t{50}}) {
          testing::on_every_target([&] {
            std::vector<Candidate> best(k);
            ASSERT_EQ(top_candidates(logits, best), std::min(k, expected.size()));
            for (std::size_t i = 0; i < std::min(k, expected.size()); ++i) {
              ASSERT_EQ(best[i].id, expected[i].id) << i;
              ASSERT_EQ(best[i].logit, expected[i].logit) << i;
            }
          });
        }
      }
    }
  }
  const std::vector<float> none(20, kNan);
  std::vector<Candidate> best(3);
  EXPECT_EQ(top_candidates({none.data(), {20}}, best), 0u);
}

TEST_F(Calls, FirstNonFiniteInRowMajorOrder) {
  std::vector<float> x(3 * 4 * 6, 1.0f);
  const View<float, 3> whole(x.data(), {3, 4, 6});
  const View<float, 3> padded(x.data(), {3, 4, 5}, {24, 6, 1});
  const View<float, 3> turned(x.data(), {6, 4, 3}, {1, 6, 24});
  EXPECT_EQ(first_non_finite(whole), std::nullopt);
  whole(1, 2, 5) = kNan;  // outside `padded`
  EXPECT_EQ(first_non_finite(padded), std::nullopt);
  whole(2, 0, 3) = -kInf;
  EXPECT_EQ(first_non_finite(whole), (1 * 4 + 2) * 6 + 5);
  EXPECT_EQ(first_non_finite(padded), (2 * 4 + 0) * 5 + 3);
  EXPECT_EQ(first_non_finite(turned), (3 * 4 + 0) * 3 + 2);
  const double one = std::numeric_limits<double>::infinity();
  EXPECT_EQ(first_non_finite(TensorRef(&one, DType::f64, {})), 0);
}

// Shapes above the threshold of a fork, so that threads really share the work.
TEST_F(Calls, AnyNumberOfThreadsGivesTheSameBits) {
  const std::vector<float> x = numbers(70 * 1500, 11);
  const std::vector<float> w = numbers(300 * 1500, 12);
  const std::vector<float> cos = numbers(70 * 50, 13);
  std::vector<std::int64_t> ids(70);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i * 37 % 300);
  const View<const float, 2> rows(x.data(), {70, 1500});
  const Matrix weight = matrix(View<const float, 2>(w.data(), {300, 1500}));
  const auto all = [&](ThreadPool& threads) {
    std::vector<std::vector<float>> outs;
    const auto make = [&](std::int64_t t, std::int64_t n) {
      outs.emplace_back(static_cast<std::size_t>(t * n));
      return View<float, 2>(outs.back().data(), {t, n});
    };
    outs.reserve(10);
    embed({.ids = {ids.data(), {70}}, .table = weight, .scale = 1.7f, .out = make(70, 1500)}, threads);
    add_rows({.rows = {ids.data(), {70}}, .table = weight, .out = {outs.back().data(), {70, 1500}}}, threads);
    normalize({.kind = NormKind::layer, .x = rows, .gain = {w.data(), {1500}}, .out = make(70, 1500)},
              threads);
    activate({.activation = Activation::gelu_erf, .x = rows, .up = rows, .out = make(70, 1500)}, threads);
    project({.x = rows, .weight = weight, .bias = {w.data(), {300}}, .out = make(70, 300)}, threads);
    project({.x = rows.rows(0, 1), .weight = weight, .out = make(1, 300)}, threads);
    rotate({.x = View<const float, 3>(x.data(), {70, 15, 100}),
            .cos = {cos.data(), {70, 50}},
            .sin = {cos.data(), {70, 50}},
            .out = {make(70, 1500).data_handle(), {70, 15, 100}}},
           threads);
    const View<float, 2> cache = make(15 * 70, 100);
    store({.x = {x.data(), {70, 15, 100}},
           .cache =
               {.data = cache.data_handle(), .dtype = DType::f32, .heads = 15, .capacity = 70, .width = 100}},
          threads);
    return outs;
  };
  ThreadPool two(2);
  ThreadPool three(3);
  testing::on_every_target([&] {
    const auto one = all(pool);
    ASSERT_EQ(one, all(two));
    ASSERT_EQ(one, all(three));
  });
}

}  // namespace
}  // namespace locant

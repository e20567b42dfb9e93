// SPDX-License-Identifier: Apache-2.0
// Sums, factors, limits, caps and scattered sums of rows: the roundings promised, strided rows, NaN, threads,
// rules.
#include <algorithm>
#include <limits>
#include <numeric>

#include "budgets.h"
#include "kernels/targets_and_memory.h"
#include "locant/ops.h"

namespace locant {
namespace {

using testing::wide;

std::vector<float> numbers(std::int64_t n, std::uint64_t seed) {
  testing::Random random(seed);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& v : values) v = random.next();
  return values;
}

template <class Body>
std::string sentence(Body body) {
  try {
    body();
  } catch (const SpecError& e) {
    return e.what();
  } catch (const std::out_of_range& e) {
    return e.what();
  }
  return "nothing was thrown";
}

class Rows : public ::testing::Test {
 protected:
  ThreadPool pool{1};
};

TEST_F(Rows, EveryWidthOnStridedRows) {
  for (std::int64_t width = 1; width <= 2 * testing::kMaxLanes + 1; ++width) {
    const std::vector<float> x = numbers(3 * (width + 2), 1);
    const std::vector<float> before = numbers(3 * (width + 1), 2);
    const std::vector<float> factors{0.5f, -3.0f, 0.3f};
    const View<const float, 2> rows(x.data(), {3, width}, {width + 2, 1});
    const std::vector<std::int64_t> order{2, 0, 1};
    testing::on_every_target([&] {
      std::vector<float> old = before;
      std::vector<float> sum = before;
      std::vector<float> scaled = before;
      std::vector<float> held = before;
      std::vector<float> scattered = before;
      std::vector<float> capped = before;
      const auto to = [&](std::vector<float>& v) {
        return View<float, 2>(v.data(), {3, width}, {width + 1, 1});
      };
      accumulate({.x = rows, .scale = 0.22f, .out = to(sum)}, pool);
      scale_rows({.x = rows, .factors = {factors.data(), {3}}, .out = to(scaled)}, pool);
      clamp({.x = rows, .limit = 0.7f, .out = to(held)}, pool);
      scatter_rows(
          {.x = rows, .rows = {order.data(), {3}}, .factors = {factors.data(), {3}}, .out = to(scattered)},
          pool);
      softcap({.x = to(capped), .cap = 0.9f}, pool);
      for (std::int64_t t = 0; t < 3; ++t) {
        const auto at = static_cast<std::size_t>(t);
        for (std::int64_t i = 0; i < width; ++i) {
          const float product = 0.22f * rows(t, i);
          ASSERT_EQ(to(sum)(t, i), to(old)(t, i) + product);
          ASSERT_EQ(to(scaled)(t, i), factors[at] * rows(t, i));
          ASSERT_EQ(to(held)(t, i), std::clamp(rows(t, i), -0.7f, 0.7f));
          const std::int64_t row = order[at];
          const float part = factors[at] * rows(t, i);
          ASSERT_EQ(to(scattered)(row, i), to(old)(row, i) + part);
          const double cap = wide(0.9f);
          ASSERT_NEAR(wide(to(capped)(t, i)), cap * std::tanh(wide(to(old)(t, i)) / cap),
                      budgets::kSoftcap * cap);
        }
        if (t == 2) break;
        const auto gap = static_cast<std::size_t>((t + 1) * (width + 1) - 1);
        for (const auto* v : {&sum, &scaled, &held, &scattered, &capped}) ASSERT_EQ((*v)[gap], before[gap]);
      }
    });
  }
}

TEST_F(Rows, SoftcapIsExactNearZeroAndFlatFarOut) {
  for (const float cap : {0.5f, 30.0f, 50.0f}) {
    std::vector<float> x;
    for (int i = -4000; i <= 4000; ++i) x.push_back(static_cast<float>(i) * cap / 500.0f);
    for (const float small : {1e-6f, 1e-20f, -1e-30f}) x.push_back(small);
    for (const float huge : {1e10f, -3e38f, std::numeric_limits<float>::infinity()}) x.push_back(huge);
    testing::on_every_target([&] {
      std::vector<float> y = x;
      softcap({.x = {y.data(), {1, static_cast<std::int64_t>(y.size())}}, .cap = cap}, pool);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double expected = wide(cap) * std::tanh(wide(x[i]) / wide(cap));
        ASSERT_NEAR(wide(y[i]), expected, budgets::kSoftcap * std::abs(expected)) << x[i];
      }
    });
  }
}

TEST_F(Rows, InPlaceAndNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  testing::on_every_target([&] {
    std::vector<float> x{nan, 9, -9, 0.25f, nan};
    const std::vector<float> two{2};
    const View<float, 2> row(x.data(), {1, 5});
    clamp({.x = row, .limit = 1, .out = row}, pool);
    scale_rows({.x = row, .factors = {two.data(), {1}}, .out = row}, pool);
    EXPECT_TRUE(std::isnan(x[0]));
    EXPECT_EQ(x[1], 2);
    EXPECT_EQ(x[2], -2);
    EXPECT_EQ(x[3], 0.5f);
    softcap({.x = row, .cap = 3}, pool);
    EXPECT_TRUE(std::isnan(x[4]));
  });
}

TEST_F(Rows, AnyNumberOfThreadsGivesTheSameBits) {
  ThreadPool three(3);
  const std::vector<float> x = numbers(200 * 1000, 5);
  const std::vector<float> factors = numbers(200, 6);
  std::vector<std::int64_t> order(200);
  std::iota(order.rbegin(), order.rend(), 0);
  const View<const float, 2> rows(x.data(), {200, 1000});
  const auto all = [&](ThreadPool& threads) {
    std::vector<std::vector<float>> outs(4, numbers(200 * 1000, 7));
    const auto to = [&](std::size_t i) { return View<float, 2>(outs[i].data(), {200, 1000}); };
    accumulate({.x = rows, .scale = 0.3f, .out = to(0)}, threads);
    scale_rows({.x = rows, .factors = {factors.data(), {200}}, .out = to(1)}, threads);
    scatter_rows({.x = rows, .rows = {order.data(), {200}}, .factors = {factors.data(), {200}}, .out = to(2)},
                 threads);
    softcap({.x = View<float, 2>(outs[3].data(), {2, 100000}), .cap = 2}, threads);
    return outs;
  };
  EXPECT_EQ(all(pool), all(three));
}

TEST_F(Rows, NothingToDo) {
  accumulate({.x = {nullptr, {0, 4}}, .out = {nullptr, {0, 4}}}, pool);
  scatter_rows({.x = {nullptr, {0, 4}}, .out = {nullptr, {0, 4}}}, pool);
  softcap({.x = {nullptr, {3, 0}}, .cap = 1}, pool);
}

TEST_F(Rows, Rules) {
  std::vector<float> a(64, 0.5f);
  std::vector<float> out(64, 3.0f);
  const View<const float, 2> x(a.data(), {2, 8});
  const View<float, 2> to(out.data(), {2, 8});
  const std::vector<std::int64_t> ids{1, 0, 1, 7, -1};
  const View<const float, 1> factors(a.data(), {2});
  EXPECT_EQ(sentence([&] {
              accumulate({.x = x, .out = {out.data(), {2, 7}}}, pool);
            }),
            "accumulate: out is [2,7], expected [tokens=2, width=8]");
  EXPECT_EQ(sentence([&] { accumulate({.x = to, .out = to}, pool); }), "accumulate: out overlaps x");
  EXPECT_EQ(sentence([&] {
              scale_rows({.x = x, .factors = {a.data(), {3}}, .out = to}, pool);
            }),
            "scale_rows: factors is [3], expected [tokens=2]");
  EXPECT_EQ(
      sentence([&] {
        scale_rows({.x = View<const float, 2>(out.data() + 1, {2, 8}), .factors = factors, .out = to}, pool);
      }),
      "scale_rows: out overlaps x, expected x itself or other memory");
  EXPECT_EQ(sentence([&] {
              scale_rows({.x = x, .factors = {out.data(), {2}}, .out = to}, pool);
            }),
            "scale_rows: out overlaps factors");
  EXPECT_EQ(sentence([&] { clamp({.x = x, .out = to}, pool); }), "clamp: limit is 0, expected above 0");
  EXPECT_EQ(
      sentence([&] { clamp({.x = x, .limit = std::numeric_limits<float>::quiet_NaN(), .out = to}, pool); }),
      "clamp: limit is nan, expected above 0");
  EXPECT_EQ(sentence([&] {
              clamp({.x = View<const float, 2>(out.data() + 1, {2, 8}), .limit = 1, .out = to}, pool);
            }),
            "clamp: out overlaps x, expected x itself or other memory");
  EXPECT_EQ(sentence([&] { softcap({.x = to, .cap = -2}, pool); }), "softcap: cap is -2, expected above 0");
  EXPECT_EQ(sentence([&] { softcap({.x = to, .cap = std::numeric_limits<float>::infinity()}, pool); }),
            "softcap: cap is inf, expected above 0");
  const auto scatter = [&](auto change) {
    return sentence([&] {
      ScatterRowsCall call{.x = x, .rows = {ids.data(), {2}}, .factors = factors, .out = to};
      change(call);
      scatter_rows(call, pool);
    });
  };
  EXPECT_EQ(scatter([&](auto& c) {
              c.out = {out.data(), {2, 7}};
            }),
            "scatter_rows: out is [2,7], expected [tokens, width=8]");
  EXPECT_EQ(scatter([&](auto& c) {
              c.rows = {ids.data(), {3}};
            }),
            "scatter_rows: rows is [3], expected [rows=2]");
  EXPECT_EQ(scatter([&](auto& c) {
              c.factors = {a.data(), {1}};
            }),
            "scatter_rows: factors is [1], expected [rows=2]");
  EXPECT_EQ(scatter([&](auto& c) {
              c.rows = {ids.data() + 2, {2}};
            }),
            "scatter_rows: row 7 at 1 is outside 2 tokens");
  EXPECT_EQ(scatter([&](auto& c) {
              c.rows = {ids.data() + 4, {2}, {-4}};
            }),
            "scatter_rows: row -1 at 0 is outside 2 tokens");
  EXPECT_EQ(scatter([&](auto& c) { c.rows = {ids.data(), {2}, {2}}; }), "scatter_rows: row 1 comes twice");
  EXPECT_EQ(scatter([&](auto& c) { c.x = {out.data() + 20, {2, 8}}; }), "nothing was thrown");
  std::fill(out.begin(), out.end(), 3.0f);
  EXPECT_EQ(scatter([&](auto& c) { c.x = {out.data() + 8, {2, 8}}; }), "scatter_rows: out overlaps x");
  EXPECT_EQ(scatter([&](auto& c) {
              c.factors = {out.data() + 8, {2}};
            }),
            "scatter_rows: out overlaps rows or factors");
  EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](float v) { return v == 3.0f; }));
}

// Rows that repeat far apart, beyond what one look at the rows can hold.
TEST_F(Rows, ARowThatComesTwiceIsFoundAnywhere) {
  constexpr std::int64_t kTokens = 200000;
  std::vector<float> out(kTokens);
  const std::vector<float> x{1, 2, 3};
  const std::vector<float> factors{1, 1, 1};
  std::vector<std::int64_t> rows{150000, 3, 150000};
  const ScatterRowsCall call{.x = {x.data(), {3, 1}},
                             .rows = {rows.data(), {3}},
                             .factors = {factors.data(), {3}},
                             .out = {out.data(), {kTokens, 1}}};
  EXPECT_EQ(sentence([&] { scatter_rows(call, pool); }), "scatter_rows: row 150000 comes twice");
  rows[2] = 150001;
  scatter_rows(call, pool);
  EXPECT_EQ(out[150000], 1);
  EXPECT_EQ(out[3], 2);
  EXPECT_EQ(out[150001], 3);
}

}  // namespace
}  // namespace locant

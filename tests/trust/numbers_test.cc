// SPDX-License-Identifier: Apache-2.0
#include "trust/numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "budgets.h"

namespace locant::trust_room {
namespace {

TEST(Numbers, WilsonAgainstItsFormulaWorkedOut) {
  const Estimate none = wilson_rate(0, 16);
  EXPECT_EQ(none.low, 0);
  EXPECT_NEAR(none.high, 2.70554345 / 18.70554345, budgets::kTrustQuantile);
  const Estimate all = wilson_rate(16, 16);
  EXPECT_NEAR(all.low, 16 / 18.70554345, budgets::kTrustQuantile);
  EXPECT_EQ(all.high, 1);
  const Estimate half = wilson_rate(12, 24);
  EXPECT_NEAR(half.low + half.high, 1, budgets::kTrustQuantile);
  EXPECT_EQ(half.mean, 0.5);
}

TEST(Numbers, StudentsQuantileAgainstTables) {
  EXPECT_NEAR(student_t95(5), 2.0150, budgets::kTrustStudent);
  EXPECT_NEAR(student_t95(7), 1.8946, budgets::kTrustStudent);
  EXPECT_NEAR(student_t95(30), 1.6973, budgets::kTrustStudent);
  EXPECT_NEAR(student_t95(100000), 1.6449, budgets::kTrustStudent);
}

TEST(Numbers, BoundsCoverTheMeanAsOftenAsTheySay) {
  std::mt19937 random(9);
  std::normal_distribution<double> normal(0, 1);
  for (const int count : {8, 24, 96}) {
    int covered = 0;
    constexpr int kRuns = 400;
    for (int run = 0; run < kRuns; ++run) {
      std::vector<double> values(static_cast<std::size_t>(count));
      for (double& value : values) value = normal(random);
      if (bootstrap_mean(values, static_cast<std::uint64_t>(run)).high > 0) ++covered;
    }
    // 380 are due; four deviations of the count are 17
    EXPECT_GE(covered, 360) << count;
    EXPECT_LE(covered, 397) << count;
  }
}

TEST(Numbers, OneSeedGivesOneAnswer) {
  const std::vector<double> values{0.11, 0.43, -0.27, 0.31, 0.97, 0.53, -0.19, 0.71, 0.07};
  const Estimate a = bootstrap_mean(values, 1);
  EXPECT_EQ(a.low, bootstrap_mean(values, 1).low);
  EXPECT_NE(a.low, bootstrap_mean(values, 2).low);
  EXPECT_LT(a.low, a.mean);
  EXPECT_GT(a.high, a.mean);
}

TEST(Numbers, OneValueAndInfiniteOnesHaveNoBounds) {
  const std::vector<double> one{0.5};
  EXPECT_TRUE(std::isinf(bootstrap_mean(one, 1).high));
  const std::vector<double> infinite{0.5, INFINITY, 1};
  EXPECT_TRUE(std::isinf(bootstrap_mean(infinite, 1).mean));
}

TEST(Numbers, ChanceReachesEveryPlace) {
  Chance chance(3);
  std::vector<int> counts(7, 0);
  for (int i = 0; i < 7000; ++i) ++counts[static_cast<std::size_t>(chance.below(7))];
  for (const int count : counts) EXPECT_NEAR(count, 1000, 160);
}

}  // namespace
}  // namespace locant::trust_room

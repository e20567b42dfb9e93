// SPDX-License-Identifier: Apache-2.0
// Steps of a logarithmic ladder: whole at powers, one less just below, for ladders whose powers fit no word.
#include "positions/log_buckets.h"

#include <gtest/gtest.h>

namespace locant {
namespace {

TEST(LogBuckets, WholeStepsAtPowers) {
  // 7 * 3^k up to 7 * 3^12: 12 powers of 3 in 12 * m steps.
  for (const std::int64_t m : {1, 2, 5, 128, 341}) {
    const LogLadder ladder{.unit = 7, .end = 7 * 531441, .count = 12 * m};
    std::int64_t value = 7;
    for (std::int64_t k = 0; k <= 12; ++k) {
      EXPECT_EQ(floor_steps(value, ladder), k * m);
      EXPECT_EQ(ceil_steps(value, ladder), k * m);
      EXPECT_GT(ceil_steps(value + 1, ladder), k * m);
      if (k > 0) {
        EXPECT_LT(floor_steps(value - 1, ladder), k * m);
      }
      value *= 3;
    }
  }
}

TEST(LogBuckets, UnequalBasesAreDecidedToo) {
  // sqrt(2) steps: 1024 = 2^(20/2), and 1023, 1025 beside it.
  const LogLadder ladder{.unit = 1, .end = 1 << 20, .count = 40};
  EXPECT_EQ(floor_steps(1024, ladder), 20);
  EXPECT_EQ(floor_steps(1023, ladder), 19);
  EXPECT_EQ(ceil_steps(1025, ladder), 21);
  // 46340 < sqrt(2^31) < 46341.
  const LogLadder half{.unit = 1, .end = kMaxDistance, .count = 2};
  EXPECT_EQ(floor_steps(46340, half), 0);
  EXPECT_EQ(ceil_steps(46340, half), 1);
  EXPECT_EQ(floor_steps(46341, half), 1);
}

TEST(LogBuckets, TheLargestLadders) {
  const LogLadder largest{.unit = 2048, .end = 2049, .count = kMaxBuckets};
  EXPECT_EQ(floor_steps(2048, largest), 0);
  EXPECT_EQ(floor_steps(2049, largest), kMaxBuckets);
  EXPECT_EQ(ceil_steps(2049, largest), kMaxBuckets);
  EXPECT_GT(floor_steps(kMaxDistance, largest), 2 * kMaxBuckets);
}

}  // namespace
}  // namespace locant

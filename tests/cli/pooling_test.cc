// SPDX-License-Identifier: Apache-2.0
#include "cli/pooling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace locant::cli {
namespace {

using testing::ElementsAre;

/// Rows of 3 and 1 tokens, states [4, 2], given in two pieces.
PooledStates read_with(Pool pool) {
  PooledStates pooled({3, 1}, 2, pool);
  const std::vector<float> states = {1, 2, 3, 6, 5, 1, 0, -2};
  pooled.read(0, {states.data(), {3, 2}});
  pooled.read(3, {states.data() + 6, {1, 2}});
  return pooled;
}

TEST(PooledStates, MeanFirstAndLast) {
  EXPECT_THAT(read_with(Pool::mean).vectors(), ElementsAre(3, 3, 0, -2));
  EXPECT_THAT(read_with(Pool::cls).vectors(), ElementsAre(1, 2, 0, -2));
  EXPECT_THAT(read_with(Pool::last).vectors(), ElementsAre(5, 1, 0, -2));
}

TEST(PooledStates, NormsAndCosines) {
  const PooledStates pooled = read_with(Pool::last);
  EXPECT_DOUBLE_EQ(pooled.norms()[1], 2);
  EXPECT_DOUBLE_EQ(pooled.similarities(1)[1], 1);
  EXPECT_DOUBLE_EQ(pooled.similarities(0)[1], -2 / (2 * pooled.norms()[0]));
  PooledStates zero({1}, 2, Pool::mean);
  EXPECT_DOUBLE_EQ(zero.similarities(0)[0], 0);
}

}  // namespace
}  // namespace locant::cli

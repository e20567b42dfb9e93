// SPDX-License-Identifier: Apache-2.0
// The list of instruction sets, and that forcing one works.
#include "kernels/targets.h"

#include <gtest/gtest.h>

namespace locant {
namespace {

TEST(Targets, BestFirstAndForced) {
  const std::vector<kernels::Target> all = kernels::targets();
  ASSERT_FALSE(all.empty());
  for (std::size_t i = 1; i < all.size(); ++i) EXPECT_LT(all[i - 1].bit, all[i].bit);
  for (const kernels::Target& target : all) {
    EXPECT_FALSE(target.name.empty());
    kernels::use_only_target(target);
    // AVX3_DL runs on what is compiled for AVX3.
    ASSERT_EQ(kernels::targets().size(), target.name == "AVX3_DL" ? 2u : 1u);
    EXPECT_EQ(kernels::targets()[0].bit, target.bit);
    EXPECT_EQ(kernels::has_byte_dots(), target.name == "AVX3_DL");
    EXPECT_TRUE(!kernels::has_pair_dots() || kernels::has_byte_dots());
  }
  kernels::use_best_target();
  EXPECT_EQ(kernels::targets().size(), all.size());
}

}  // namespace
}  // namespace locant

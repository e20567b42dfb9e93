// SPDX-License-Identifier: Apache-2.0
// alibi: what it refuses and the order of its slopes.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "positions/golden.h"
#include "positions/sentences.h"

namespace locant {
namespace {

using golden::planned;
using testing_text::sentence;

std::string refusal(std::string name, ParameterValue value, std::string key = {}) {
  PositionSpec spec{"alibi", {}};
  spec.set("heads", std::int64_t{12}, "n_head");
  spec.set(std::move(name), std::move(value), std::move(key));
  return sentence<SpecError>([&] { (void)planned<Bias>(spec); });
}

TEST(Alibi, EightHeadsAreThePowersOfOneHalf) {
  EXPECT_EQ(alibi_slopes(8),
            (std::vector<double>{0x1p-1, 0x1p-2, 0x1p-3, 0x1p-4, 0x1p-5, 0x1p-6, 0x1p-7, 0x1p-8}));
}

TEST(Alibi, OneHeadHasTheLastSlope) {
  EXPECT_EQ(alibi_slopes(1), std::vector<double>{0x1p-8});
}

TEST(Alibi, OtherCountsBeginWithThePowerOfTwoBelow) {
  for (const std::int64_t heads : {3, 5, 7, 12, 20, 40, 71, 127}) {
    const auto slopes = alibi_slopes(heads);
    std::int64_t power = 1;
    while (2 * power < heads) power *= 2;
    const auto below = alibi_slopes(power);
    const auto above = alibi_slopes(2 * power);
    ASSERT_EQ(slopes.size(), static_cast<std::size_t>(heads));
    for (std::size_t h = 0; h < slopes.size(); ++h) {
      EXPECT_EQ(slopes[h], h < below.size() ? below[h] : above[2 * (h - below.size())]) << heads << " " << h;
    }
  }
}

TEST(Alibi, PlanHoldsWhatTheSpecSays) {
  PositionSpec spec{"alibi", {}};
  spec.set("heads", std::int64_t{20});
  spec.set("bias_max", 16.0);
  spec.set("scale_order", std::string("before_scale"));
  const auto bias = planned<Bias>(spec);
  EXPECT_EQ(bias.form, BiasForm::slopes);
  EXPECT_EQ(bias.heads, 20);
  EXPECT_EQ(bias.slopes, alibi_slopes(20, 16));
  EXPECT_EQ(bias.scale_order, ScaleOrder::before_scale);
  EXPECT_EQ(bias.counts_from, CountsFrom::query);
  EXPECT_FALSE(bias.bidirectional);
  EXPECT_TRUE(bias.roles.empty());
}

TEST(Alibi, Refuses) {
  EXPECT_EQ(refusal("heads", std::int64_t{0}, "n_head"),
            "alibi: heads (n_head) must be a whole number from 1 to 1048576, got 0");
  EXPECT_EQ(refusal("heads", std::int64_t{1} << 40, "n_head"),
            "alibi: heads (n_head) must be a whole number from 1 to 1048576, got 1099511627776");
  EXPECT_EQ(refusal("bias_max", -8.0), "alibi: bias_max must be a finite number above 0, got -8");
  EXPECT_EQ(refusal("scale_order", std::string("after")),
            "alibi: scale_order must be after_scale or before_scale, got \"after\"");
  EXPECT_EQ(sentence<SpecError>([] { (void)alibi_slopes(0); }),
            "alibi: heads must be a whole number from 1 to 1048576, got 0");
  EXPECT_EQ(sentence<SpecError>([] { (void)alibi_slopes(8, std::nan("")); }),
            "alibi: bias_max must be a finite number above 0, got nan");
}

}  // namespace
}  // namespace locant

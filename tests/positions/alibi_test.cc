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

TEST(Alibi, DirectionAndCountingArePlanned) {
  PositionSpec spec{"alibi", {}};
  spec.set("heads", std::int64_t{12});
  spec.set("direction", std::string("bidirectional"));
  const auto jina = planned<Bias>(spec);
  EXPECT_TRUE(jina.bidirectional);
  EXPECT_EQ(jina.slopes, alibi_slopes(12));
  spec.set("direction", std::string("causal"));
  spec.set("counts_from", std::string("sequence_start"));
  EXPECT_EQ(planned<Bias>(spec).counts_from, CountsFrom::sequence_start);
  spec.set("counts_from", std::string("sequence_end"));
  EXPECT_EQ(planned<Bias>(spec).counts_from, CountsFrom::sequence_end);
}

TEST(Alibi, StatedSlopesReplaceTheComputedOnes) {
  PositionSpec spec{"alibi", {}};
  spec.set("heads", std::int64_t{3});
  spec.set("slopes", std::vector<double>{0.3, 0.0, -1.5});
  EXPECT_EQ(planned<Bias>(spec).slopes, (std::vector<double>{0.3, 0.0, -1.5}));
  EXPECT_EQ(planned<Bias>(spec, "hf").slopes, (std::vector<double>{0.3, 0.0, -1.5}));
  spec.set("slope_dtype", std::string("bf16"));
  EXPECT_EQ(planned<Bias>(spec).slopes, (std::vector<double>{0.30078125, 0.0, -1.5}));
  spec.set("slope_dtype", std::string("f16"));
  EXPECT_EQ(planned<Bias>(spec).slopes, (std::vector<double>{0.300048828125, 0.0, -1.5}));
}

TEST(Alibi, RoundedSlopesAreExact) {
  for (const auto& one : golden::cases("alibi_slopes")) {
    SCOPED_TRACE(one.at("parameters").dump());
    EXPECT_EQ(planned<Bias>(golden::spec_of("alibi", one.at("parameters"))).slopes,
              golden::doubles(one.at("slopes")));
  }
  // Falcon in transformers.
  for (const auto& one : golden::cases("hf_falcon_slopes")) {
    SCOPED_TRACE(one.at("parameters").dump());
    const auto bias = planned<Bias>(golden::spec_of("alibi", one.at("parameters")), "hf");
    EXPECT_EQ(bias.slopes, golden::doubles(one.at("slopes")));
    EXPECT_EQ(bias.scale_order, ScaleOrder::before_scale);
  }
}

TEST(Alibi, Refuses) {
  EXPECT_EQ(refusal("heads", std::int64_t{0}, "n_head"),
            "alibi: heads (n_head) must be a whole number from 1 to 1048576, got 0");
  EXPECT_EQ(refusal("heads", std::int64_t{1} << 40, "n_head"),
            "alibi: heads (n_head) must be a whole number from 1 to 1048576, got 1099511627776");
  EXPECT_EQ(refusal("bias_max", -8.0), "alibi: bias_max must be a finite number above 0, got -8");
  EXPECT_EQ(refusal("scale_order", std::string("after")),
            "alibi: scale_order must be after_scale or before_scale, got \"after\"");
  EXPECT_EQ(refusal("direction", std::string("both")),
            "alibi: direction must be causal or bidirectional, got \"both\"");
  EXPECT_EQ(refusal("slopes", std::vector<double>{1, 2}, "slopes_key"),
            "alibi: slopes (slopes_key) must be a list of 12 numbers, got a list of 2");
  EXPECT_EQ(refusal("slopes", std::int64_t{1}), "alibi: slopes must be a list of 12 numbers, got 1");
  EXPECT_EQ(refusal("slopes", std::vector<double>(12, std::nan(""))),
            "alibi: slopes must hold finite numbers, got nan");
  PositionSpec both{"alibi", {}};
  both.set("heads", std::int64_t{1});
  both.set("slopes", std::vector<double>{1});
  both.set("bias_max", 8.0);
  EXPECT_EQ(sentence<SpecError>([&] { (void)planned<Bias>(both); }),
            "alibi: slopes must not be stated beside bias_max, got both");
  PositionSpec end{"alibi", {}};
  end.set("heads", std::int64_t{1});
  end.set("direction", std::string("bidirectional"));
  end.set("counts_from", std::string("sequence_end"));
  EXPECT_EQ(sentence<SpecError>([&] { (void)planned<Bias>(end); }),
            "alibi: counts_from must be query when the direction is bidirectional, got sequence_end");
  EXPECT_EQ(sentence<SpecError>([] { (void)alibi_slopes(0); }),
            "alibi: heads must be a whole number from 1 to 1048576, got 0");
  EXPECT_EQ(sentence<SpecError>([] { (void)alibi_slopes(8, std::nan("")); }),
            "alibi: bias_max must be a finite number above 0, got nan");
}

}  // namespace
}  // namespace locant

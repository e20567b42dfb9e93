// SPDX-License-Identifier: Apache-2.0
// t5_buckets and deberta: buckets against whole numbers and against the live package, their shape, the plans
// and what is refused.
#include <limits>

#include <gtest/gtest.h>

#include "positions/golden.h"
#include "positions/sentences.h"

namespace locant {
namespace {

using golden::cases;
using golden::integers;
using golden::planned;
using golden::spec_of;
using testing_text::sentence;

constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();

T5Buckets t5_of(const golden::Json& parameters) {
  const auto bias = planned<Bias>(spec_of("t5_buckets", parameters));
  return {.buckets = bias.buckets, .max_distance = bias.max_distance, .bidirectional = bias.bidirectional};
}

DebertaBuckets deberta_of(const golden::Json& parameters) {
  const auto bias = planned<Bias>(spec_of("deberta", parameters));
  return {.buckets = bias.buckets, .max_distance = bias.max_distance};
}

TEST(T5Buckets, AreThoseOfWholeNumbers) {
  for (const auto& one : cases("t5_buckets")) {
    SCOPED_TRACE(one.at("parameters").dump());
    const T5Buckets buckets = t5_of(one.at("parameters"));
    const auto relative = integers(one.at("relative"));
    const auto expected = integers(one.at("buckets"));
    ASSERT_EQ(relative.size(), expected.size());
    for (std::size_t i = 0; i < relative.size(); ++i) {
      EXPECT_EQ(t5_bucket(relative[i], buckets), expected[i]) << relative[i];
    }
  }
}

TEST(T5Buckets, AreThoseOfTransformersSaveWhereItsLogarithmIsRounded) {
  std::size_t differing = 0;
  for (const auto& one : cases("hf_t5_buckets")) {
    SCOPED_TRACE(one.at("parameters").dump());
    const T5Buckets buckets = t5_of(one.at("parameters"));
    const auto relative = integers(one.at("relative"));
    const auto expected = integers(one.at("buckets"));
    std::vector<std::int64_t> found;
    for (std::size_t i = 0; i < relative.size(); ++i) {
      if (t5_bucket(relative[i], buckets) == expected[i]) continue;
      EXPECT_EQ(t5_bucket(relative[i], buckets), expected[i] - 1);
      found.push_back(relative[i]);
    }
    EXPECT_EQ(found, integers(one.at("differing")));
    differing += found.size();
  }
  EXPECT_EQ(differing, 2U);
}

TEST(T5Buckets, NeverFallWithTheDistanceAndReachTheLast) {
  for (const std::int64_t count : {4, 7, 32, 33, 320, 4096}) {
    for (const bool bidirectional : {false, true}) {
      const T5Buckets buckets{.buckets = count, .max_distance = 5000, .bidirectional = bidirectional};
      const std::int64_t side = bidirectional ? count / 2 : count;
      std::int64_t before = 0;
      for (std::int64_t distance = 0; distance <= 5001; ++distance) {
        const std::int64_t bucket = t5_bucket(-distance, buckets);
        EXPECT_GE(bucket, before);
        EXPECT_LT(bucket, side);
        before = bucket;
        const std::int64_t ahead = distance == 0 ? 0 : bidirectional ? side + bucket : 0;
        EXPECT_EQ(t5_bucket(distance, buckets), ahead) << count << " " << distance;
      }
      EXPECT_EQ(before, side - 1);
      EXPECT_EQ(t5_bucket(-kFar - 1, buckets), side - 1);
      EXPECT_EQ(t5_bucket(kFar, buckets), bidirectional ? 2 * side - 1 : 0);
    }
  }
}

TEST(T5Buckets, ExactPowersBeginTheirBucket) {
  // 16 exact distances, then 16 buckets up to 1024 = 16 * 2^6: 3 octaves are 8 buckets.
  const T5Buckets buckets{.buckets = 32, .max_distance = 1024, .bidirectional = false};
  EXPECT_EQ(t5_bucket(-127, buckets), 23);
  EXPECT_EQ(t5_bucket(-128, buckets), 24);
  EXPECT_EQ(t5_bucket(-1023, buckets), 31);
}

TEST(T5Buckets, PlanHoldsWhatTheSpecSays) {
  PositionSpec spec{"t5", {}};
  spec.set("heads", std::int64_t{6});
  const auto plain = planned<Bias>(spec);
  EXPECT_EQ(plain.form, BiasForm::buckets);
  EXPECT_EQ(plain.heads, 6);
  EXPECT_EQ(plain.buckets, 32);
  EXPECT_EQ(plain.max_distance, 128);
  EXPECT_TRUE(plain.bidirectional);
  EXPECT_EQ(plain.roles, std::vector<std::string>{"relative_attention_bias"});
  EXPECT_EQ(plain.scale_order, ScaleOrder::after_scale);
  spec.set("direction", std::string("causal"));
  spec.set("buckets", std::int64_t{2});
  spec.set("max_distance", std::int64_t{2});
  spec.set("role", std::string("decoder.relative_attention_bias"));
  const auto causal = planned<Bias>(spec);
  EXPECT_FALSE(causal.bidirectional);
  EXPECT_EQ(causal.buckets, 2);
  EXPECT_EQ(causal.roles, std::vector<std::string>{"decoder.relative_attention_bias"});
}

TEST(T5Buckets, Refuse) {
  const auto refusal = [](std::string name, ParameterValue value) {
    PositionSpec spec{"t5_buckets", {}};
    spec.set("heads", std::int64_t{6});
    spec.set(std::move(name), std::move(value), "config_key");
    return sentence<SpecError>([&] { (void)planned<Bias>(spec); });
  };
  EXPECT_EQ(refusal("buckets", std::int64_t{3}),
            "t5_buckets: buckets (config_key) must be a whole number from 4 to 4096, got 3");
  EXPECT_EQ(refusal("max_distance", std::int64_t{8}),
            "t5_buckets: max_distance (config_key) must be above 8, the distances with a bucket of their "
            "own, got 8");
  EXPECT_EQ(refusal("direction", std::string("both")),
            "t5_buckets: direction (config_key) must be bidirectional or causal, got \"both\"");
  EXPECT_EQ(refusal("heads", std::int64_t{0}),
            "t5_buckets: heads (config_key) must be a whole number from 1 to 1048576, got 0");
  EXPECT_EQ(sentence<SpecError>([] { (void)t5_bucket(0, {.buckets = 1, .bidirectional = false}); }),
            "t5_bucket: buckets must be from 2 to 4096, got 1");
  EXPECT_EQ(sentence<SpecError>([] { (void)t5_bucket(0, {.buckets = 32, .max_distance = 8}); }),
            "t5_bucket: max_distance must be above 8 and at most 2147483647, got 8");
}

TEST(DebertaBuckets, AreThoseOfWholeNumbersAndOfTransformers) {
  for (const std::string name : {"deberta", "hf_deberta"}) {
    for (const auto& one : cases(name)) {
      SCOPED_TRACE(name + one.at("parameters").dump());
      const DebertaBuckets buckets = deberta_of(one.at("parameters"));
      const auto relative = integers(one.at("relative"));
      for (std::size_t i = 0; i < relative.size(); ++i) {
        EXPECT_EQ(deberta_bucket(relative[i], buckets), one.at("buckets")[i].get<std::int64_t>())
            << relative[i];
        EXPECT_EQ(deberta_row(relative[i], buckets), one.at("rows")[i].get<std::int64_t>()) << relative[i];
      }
      if (one.contains("terms")) {
        EXPECT_EQ(planned<Bias>(spec_of("deberta", one.at("parameters"))).terms,
                  one.at("terms").get<std::int64_t>());
      }
    }
  }
}

TEST(DebertaBuckets, AreOddAndNeverFall) {
  for (const DebertaBuckets buckets :
       {DebertaBuckets{}, DebertaBuckets{0, 512}, DebertaBuckets{4, 5}, DebertaBuckets{4096, 100000}}) {
    std::int64_t before = 0;
    for (std::int64_t distance = 0; distance <= 3000; ++distance) {
      const std::int64_t bucket = deberta_bucket(distance, buckets);
      EXPECT_GE(bucket, before);
      EXPECT_EQ(deberta_bucket(-distance, buckets), -bucket);
      before = bucket;
    }
    EXPECT_EQ(deberta_row(kFar, buckets), 2 * buckets.span() - 1);
    EXPECT_EQ(deberta_row(-kFar - 1, buckets), 0);
  }
}

TEST(DebertaBuckets, PlanHoldsWhatTheSpecSays) {
  PositionSpec spec{"disentangled", {}};
  spec.set("heads", std::int64_t{12});
  spec.set("max_relative_positions", std::int64_t{512});
  const auto plain = planned<Bias>(spec);
  EXPECT_EQ(plain.form, BiasForm::content);
  EXPECT_EQ(plain.buckets, 0);
  EXPECT_EQ(plain.max_distance, 512);
  EXPECT_EQ(plain.function, "c2p|p2c");
  EXPECT_EQ(plain.terms, 3);
  EXPECT_EQ(plain.scale_order, ScaleOrder::before_scale);
  EXPECT_TRUE(plain.bidirectional);
  EXPECT_EQ(plain.roles, (std::vector<std::string>{"rel_embeddings", "pos_key_proj", "pos_query_proj"}));
  spec.set("position_buckets", std::int64_t{256});
  spec.set("pos_att_type", std::string("p2c|c2p"));
  spec.set("projections", std::string("shared"));
  const auto shared = planned<Bias>(spec);
  EXPECT_EQ(shared.buckets, 256);
  EXPECT_EQ(shared.function, "c2p|p2c");
  EXPECT_EQ(shared.roles, std::vector<std::string>{"rel_embeddings"});
  spec.set("pos_att_type", std::string("p2c"));
  spec.set("projections", std::string("own"));
  const auto one = planned<Bias>(spec);
  EXPECT_EQ(one.terms, 2);
  EXPECT_EQ(one.function, "p2c");
  EXPECT_EQ(one.roles, (std::vector<std::string>{"rel_embeddings", "pos_query_proj"}));
}

TEST(DebertaBuckets, Refuse) {
  const auto refusal = [](std::string name, ParameterValue value) {
    PositionSpec spec{"deberta", {}};
    spec.set("heads", std::int64_t{12});
    spec.set("max_relative_positions", std::int64_t{512});
    spec.set("position_buckets", std::int64_t{256});
    spec.set(std::move(name), std::move(value));
    return sentence<SpecError>([&] { (void)planned<Bias>(spec); });
  };
  EXPECT_EQ(refusal("position_buckets", std::int64_t{3}),
            "deberta: position_buckets must be -1, 0 or at least 4, got 3");
  EXPECT_EQ(refusal("max_relative_positions", std::int64_t{128}),
            "deberta: max_relative_positions must be above 129, half of position_buckets and 1, got 128");
  EXPECT_EQ(refusal("pos_att_type", std::string("p2p")),
            "deberta: pos_att_type must be both, c2p|p2c, p2c|c2p, c2p or p2c, got \"p2p\"");
  EXPECT_EQ(refusal("max_relative_positions", std::int64_t{-1}),
            "deberta: max_relative_positions must be a whole number from 1 to 2147483647, got -1");
  EXPECT_EQ(sentence<SpecError>([] { (void)deberta_bucket(0, {.buckets = 2, .max_distance = 512}); }),
            "deberta_bucket: buckets must be 0 or from 4 to 4096, got 2");
  EXPECT_EQ(sentence<SpecError>([] { (void)deberta_bucket(0, {.buckets = 256, .max_distance = 129}); }),
            "deberta_bucket: max_distance must be above 129 and at most 2147483647, got 129");
  EXPECT_EQ(sentence<SpecError>([] { (void)deberta_row(0, {.buckets = 0, .max_distance = 0}); }),
            "deberta_bucket: max_distance must be above 0 and at most 2147483647, got 0");
}

}  // namespace
}  // namespace locant

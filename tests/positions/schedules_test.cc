// SPDX-License-Identifier: Apache-2.0
// Every schedule against 50-digit golden cases under `exact` and against the live transformers package under
// `hf`, and the attention temperature against both.
#include <cmath>

#include <gtest/gtest.h>

#include "budgets.h"
#include "positions/cos_sin.h"
#include "positions/golden.h"

namespace locant {
namespace {

using golden::cases;
using golden::doubles;
using golden::integers;
using golden::planned;
using golden::spec_of;

constexpr std::array<const char*, 8> kSchedules = {"linear",   "ntk",    "dynamic_ntk",  "yarn",
                                                   "longrope", "llama3", "proportional", "by_parts"};

/// transformers has no NTK-by-parts.
constexpr std::array<const char*, 7> kHfSchedules = {"linear",   "ntk",    "dynamic_ntk", "yarn",
                                                     "longrope", "llama3", "proportional"};

class HfSchedules : public testing::TestWithParam<const char*> {};
class RopeSchedules : public testing::TestWithParam<const char*> {};

TEST_P(RopeSchedules, AreExactTo50Digits) {
  for (const auto& one : cases(GetParam())) {
    SCOPED_TRACE(one.at("name").get<std::string>());
    const auto rotation = planned<Rotation>(spec_of(GetParam(), one.at("parameters")), "exact",
                                            {.seen = one.at("seen").get<std::int64_t>()});
    const auto expected = doubles(one.at("inv_freq"));
    ASSERT_EQ(rotation.inv_freq.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_LE(std::abs(rotation.inv_freq[i] - expected[i]), budgets::kScheduleExact * expected[i]) << i;
    }
    const auto amplitude = one.at("amplitude").get<double>();
    EXPECT_LE(std::abs(rotation.amplitude - amplitude), budgets::kAmplitudeExact * amplitude);
    const auto positions = integers(one.at("positions"));
    const auto pairs = integers(one.at("pairs"));
    const auto table = tables::cos_sin(rotation, {}, positions);
    for (std::size_t t = 0; t < positions.size(); ++t) {
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        const auto row = static_cast<std::int64_t>(t);
        EXPECT_NEAR(table.c(row, pairs[i]), one.at("cos")[t][i].get<double>(),
                    budgets::kTableExact * amplitude)
            << positions[t] << " " << pairs[i];
        EXPECT_NEAR(table.s(row, pairs[i]), one.at("sin")[t][i].get<double>(),
                    budgets::kTableExact * amplitude)
            << positions[t] << " " << pairs[i];
      }
    }
  }
}

TEST_P(HfSchedules, AreThoseOfTransformers) {
  for (const auto& one : cases(std::string("hf_") + GetParam())) {
    SCOPED_TRACE(one.at("family").get<std::string>() + " " + one.at("parameters").dump());
    const auto expected = doubles(one.at("inv_freq"));
    for (const std::int64_t seen : integers(one.at("seen"))) {
      const auto rotation =
          planned<Rotation>(spec_of(GetParam(), one.at("parameters")), "hf", {.seen = seen});
      ASSERT_EQ(rotation.inv_freq.size(), expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(rotation.inv_freq[i], static_cast<double>(static_cast<float>(rotation.inv_freq[i])));
        EXPECT_LE(std::abs(rotation.inv_freq[i] - expected[i]), budgets::kFrequencyHf * expected[i])
            << seen << " " << i;
      }
      const auto amplitude = one.at("amplitude").get<double>();
      EXPECT_LE(std::abs(rotation.amplitude - amplitude), budgets::kFrequencyHf * amplitude) << seen;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, RopeSchedules, testing::ValuesIn(kSchedules),
                         [](const auto& one) { return std::string(one.param); });

INSTANTIATE_TEST_SUITE_P(, HfSchedules, testing::ValuesIn(kHfSchedules),
                         [](const auto& one) { return std::string(one.param); });

/// A schedule over 16 of 40 channels, `factor` times.
PositionSpec stretched(std::string mechanism, double factor) {
  PositionSpec spec{std::move(mechanism), {}};
  spec.set("theta", 123456.0);
  spec.set("head_dim", std::int64_t{40});
  spec.set("rotary_dim", std::int64_t{16});
  if (spec.mechanism == "longrope") {
    spec.set("short_factor", std::vector<double>(8, factor));
    spec.set("long_factor", std::vector<double>(8, factor));
  } else {
    spec.set(spec.mechanism == "ntk" ? "alpha" : "factor", factor);
  }
  if (spec.mechanism == "dynamic_ntk") {
    spec.set("max_positions", std::int64_t{2048});
  }
  for (const ParameterDescription& one : find_mechanism(spec.mechanism).parameters) {
    if (one.name == "original_length") spec.set("original_length", std::int64_t{2048});
  }
  return spec;
}

TEST_P(RopeSchedules, AreRopeWhereNothingIsStretched) {
  PositionSpec plain = stretched("linear", 1);
  plain.mechanism = "rope";
  std::erase_if(plain.parameters, [](const Parameter& one) { return one.name == "factor"; });
  for (const Recipe& recipe : recipes()) {
    if (recipe.has(Quirk::yarn_refused) || recipe.has(Quirk::dynamic_ntk_refused)) continue;
    const double budget =
        recipe.numerics.frequency == DType::f32 ? budgets::kFrequencyHf : budgets::kScheduleExact;
    const auto rope = planned<Rotation>(plain, recipe.name);
    const auto rotation = planned<Rotation>(stretched(GetParam(), 1), recipe.name, {.seen = 2000});
    ASSERT_EQ(rotation.inv_freq.size(), rope.inv_freq.size());
    for (std::size_t i = 0; i < rope.inv_freq.size(); ++i) {
      EXPECT_LE(std::abs(rotation.inv_freq[i] - rope.inv_freq[i]), budget * rope.inv_freq[i])
          << recipe.name << " " << i;
    }
    EXPECT_EQ(rotation.amplitude, 1) << recipe.name;
  }
}

TEST_P(RopeSchedules, LieBetweenThePlainAndTheSlowestFrequencies) {
  const auto plain = planned<Rotation>(stretched("linear", 1));
  for (const double factor : {1.5, 4.0, 40.0}) {
    const auto rotation = planned<Rotation>(stretched(GetParam(), factor), "exact", {.seen = 4096});
    // At twice the trained length dynamic NTK has stretched by factor + 1.
    const double most = GetParam() == std::string("dynamic_ntk") ? factor + 1 : factor;
    for (std::size_t i = 0; i < plain.inv_freq.size(); ++i) {
      EXPECT_LE(rotation.inv_freq[i], plain.inv_freq[i] * (1 + budgets::kScheduleExact))
          << factor << " " << i;
      EXPECT_GE(rotation.inv_freq[i] * most, plain.inv_freq[i] * (1 - budgets::kScheduleExact))
          << factor << " " << i;
      if (i > 0) {
        EXPECT_LT(rotation.inv_freq[i], rotation.inv_freq[i - 1]) << factor << " " << i;
      }
    }
    EXPECT_LT(rotation.inv_freq.back(), plain.inv_freq.back());
  }
}

TEST(Hf, PartialRopesOfEveryKindOfFamily) {
  std::size_t families = 0;
  for (const auto& one : cases("hf_partial_ropes")) {
    SCOPED_TRACE(one.at("families").dump());
    families += one.at("families").size();
    const auto rotation = planned<Rotation>(spec_of("rope", one.at("parameters")), "hf");
    const auto expected = doubles(one.at("inv_freq"));
    ASSERT_EQ(rotation.inv_freq.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_LE(std::abs(rotation.inv_freq[i] - expected[i]), budgets::kFrequencyHf * expected[i]) << i;
    }
  }
  EXPECT_GE(families, 10U);
}

TEST(Hf, AxesOfSections) {
  for (const auto& one : cases("hf_sections")) {
    SCOPED_TRACE(one.at("family").get<std::string>());
    for (const char* recipe : {"exact", "hf", "vllm"}) {
      EXPECT_EQ(planned<Rotation>(spec_of("rope", one.at("parameters")), recipe).axis,
                integers(one.at("axis")));
    }
  }
}

TEST(AttentionTemperature, IsExactTo50Digits) {
  for (const auto& one : cases("attention_temperature")) {
    SCOPED_TRACE(one.at("name").get<std::string>());
    const auto scale = planned<QueryScale>(spec_of("attention_temperature", one.at("parameters")));
    EXPECT_EQ(scale.form, "log_floor");
    const auto positions = integers(one.at("positions"));
    for (std::size_t t = 0; t < positions.size(); ++t) {
      const auto expected = one.at("values")[t].get<double>();
      EXPECT_NEAR(query_factor(scale, positions[t]), expected, budgets::kAmplitudeExact * expected)
          << positions[t];
    }
  }
}

TEST(Logn, IsExactTo50Digits) {
  for (const auto& one : cases("logn")) {
    SCOPED_TRACE(one.at("name").get<std::string>());
    const auto scale = planned<QueryScale>(spec_of("logn", one.at("parameters")));
    EXPECT_EQ(scale.form, "log_ratio");
    const auto positions = integers(one.at("positions"));
    for (std::size_t t = 0; t < positions.size(); ++t) {
      const auto expected = one.at("values")[t].get<double>();
      EXPECT_NEAR(query_factor(scale, positions[t]), expected, budgets::kAmplitudeExact * expected)
          << positions[t];
    }
  }
}

TEST(AttentionTemperature, IsThatOfTransformers) {
  for (const auto& one : cases("hf_attention_temperature")) {
    SCOPED_TRACE(one.at("family").get<std::string>());
    const auto scale = planned<QueryScale>(spec_of("attention_temperature", one.at("parameters")), "hf");
    const auto positions = integers(one.at("positions"));
    for (std::size_t t = 0; t < positions.size(); ++t) {
      const auto expected = one.at("values")[t].get<double>();
      EXPECT_NEAR(query_factor(scale, positions[t]), expected, budgets::kFrequencyHf * expected)
          << positions[t];
    }
  }
}

}  // namespace
}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// xlnet: frequencies and relative rows against 50 digits and the live package, and what it refuses.
#include <cmath>

#include <gtest/gtest.h>

#include "budgets.h"
#include "positions/golden.h"
#include "positions/sentences.h"

namespace locant {
namespace {

using golden::cases;
using golden::doubles;
using golden::integers;
using golden::planned;
using golden::spec_of;
using testing_text::sentence;

PositionSpec least() {
  PositionSpec spec{"xlnet", {}};
  spec.set("heads", std::int64_t{3});
  spec.set("width", std::int64_t{16}, "d_model");
  return spec;
}

void expect_cases(const std::string& file, std::string_view recipe, double frequency, double table) {
  for (const auto& one : cases(file)) {
    SCOPED_TRACE(one.at("parameters").dump());
    auto bias = planned<Bias>(spec_of("xlnet", one.at("parameters")), recipe);
    const auto ladder = doubles(one.at("inv_freq"));
    ASSERT_EQ(bias.inv_freq.size(), ladder.size());
    for (std::size_t i = 0; i < ladder.size(); ++i) {
      EXPECT_LE(std::abs(bias.inv_freq[i] - ladder[i]), frequency * ladder[i]) << i;
    }
    if (recipe != "exact") bias.inv_freq = ladder;
    auto distances = integers(one.at("distances"));
    const auto columns = integers(one.at("columns"));
    const auto tokens = static_cast<std::int64_t>(distances.size());
    const auto width = 2 * static_cast<std::int64_t>(ladder.size());
    std::vector<float> out(static_cast<std::size_t>(tokens * width));
    const View<float, 2> rows(out.data(), {tokens, width});
    relative_rows(bias, find_recipe(recipe).numerics, View<std::int64_t, 1>(distances.data(), {tokens}),
                  rows);
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::size_t c = 0; c < columns.size(); ++c) {
        EXPECT_NEAR(rows(t, columns[c]), one.at("rows")[static_cast<std::size_t>(t)][c].get<double>(), table)
            << distances[static_cast<std::size_t>(t)] << " " << columns[c];
      }
    }
  }
}

TEST(Xlnet, IsExactTo50Digits) {
  expect_cases("xlnet", "exact", budgets::kFrequencyExact, budgets::kTableExact);
}

TEST(Xlnet, IsThatOfTransformers) {
  expect_cases("hf_xlnet", "hf", budgets::kFrequencyHf, budgets::kTableHf);
}

TEST(Xlnet, PlansContentWithTwoBiases) {
  const auto bias = planned<Bias>(least());
  EXPECT_EQ(bias.form, BiasForm::content);
  EXPECT_EQ(bias.roles, (std::vector<std::string>{"r", "r_w_bias", "r_r_bias", "r_s_bias", "seg_embed"}));
  EXPECT_TRUE(bias.bidirectional);
  EXPECT_EQ(bias.terms, 1);
  EXPECT_EQ(bias.max_distance, 0);
  PositionSpec spec = least();
  spec.set("segments", std::int64_t{0});
  spec.set("direction", std::string("causal"));
  spec.set("clamp", std::int64_t{400}, "clamp_len");
  const auto other = planned<Bias>(spec);
  EXPECT_EQ(other.roles.size(), 3U);
  EXPECT_FALSE(other.bidirectional);
  EXPECT_EQ(other.max_distance, 400);
  spec.set("clamp", std::int64_t{-1});
  EXPECT_EQ(planned<Bias>(spec).max_distance, 0);
}

TEST(Xlnet, DistancesAreHeldAtTheClamp) {
  PositionSpec spec = least();
  spec.set("clamp", std::int64_t{300});
  const auto bias = planned<Bias>(spec);
  std::vector<std::int64_t> distances = {300, 301, 5000, -300, -301, 299};
  std::vector<float> out(6 * 16);
  const View<float, 2> rows(out.data(), {6, 16});
  relative_rows(bias, {}, View<std::int64_t, 1>(distances.data(), {6}), rows);
  for (std::int64_t c = 0; c < 16; ++c) {
    EXPECT_EQ(rows(0, c), rows(1, c));
    EXPECT_EQ(rows(0, c), rows(2, c));
    EXPECT_EQ(rows(3, c), rows(4, c));
    // sines turn their sign with the distance, cosines do not
    EXPECT_EQ(rows(3, c), c < 8 ? -rows(0, c) : rows(0, c));
  }
  EXPECT_NE(rows(5, 0), rows(0, 0));
}

TEST(Xlnet, Refuses) {
  PositionSpec odd = least();
  odd.set("width", std::int64_t{17}, "d_model");
  EXPECT_EQ(sentence<SpecError>([&] { (void)planned<Bias>(odd); }),
            "xlnet: width (d_model) must be even, got 17");
  PositionSpec tiny = least();
  tiny.set("theta", 1e-60);
  EXPECT_EQ(sentence<SpecError>([&] { (void)planned<Bias>(tiny, "hf"); }),
            "xlnet: theta must give finite frequencies, got 1e-60");
  std::vector<std::int64_t> distances = {1};
  std::vector<float> out(16);
  const View<std::int64_t, 1> at(distances.data(), {1});
  EXPECT_EQ(sentence<SpecError>([&] {
              relative_rows(Bias{.form = BiasForm::slopes}, {}, at, View<float, 2>(out.data(), {1, 16}));
            }),
            "relative_rows: the relative table of a bias is a sinusoid, got slopes without");
}

}  // namespace
}  // namespace locant

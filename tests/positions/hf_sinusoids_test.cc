// SPDX-License-Identifier: Apache-2.0
// Sinusoidal dialects under recipe `hf` against tables of the live package: numpy's in f64, torch's in f32.
#include <cmath>

#include <gtest/gtest.h>

#include "budgets.h"
#include "positions/golden.h"

namespace locant {
namespace {

using golden::cases;
using golden::doubles;
using golden::integers;
using golden::planned;
using golden::spec_of;

TEST(HfSinusoids, AreTheTablesOfThePackage) {
  for (const auto& one : cases("hf_sinusoids")) {
    SCOPED_TRACE(one.at("family").get<std::string>() + one.at("parameters").dump());
    auto embedding = planned<PositionEmbedding>(spec_of("sinusoidal", one.at("parameters")), "hf");
    const bool of_numpy = embedding.arithmetic == Arithmetic::f64;
    EXPECT_EQ(of_numpy, !one.contains("inv_freq"));
    if (!of_numpy) {
      const auto ladder = doubles(one.at("inv_freq"));
      ASSERT_EQ(embedding.inv_freq.size(), ladder.size());
      for (std::size_t i = 0; i < ladder.size(); ++i) {
        EXPECT_LE(std::abs(embedding.inv_freq[i] - ladder[i]), budgets::kFrequencyHf * ladder[i]) << i;
      }
      embedding.inv_freq = ladder;
    }
    auto positions = integers(one.at("positions"));
    const auto columns = integers(one.at("columns"));
    const auto tokens = static_cast<std::int64_t>(positions.size());
    std::vector<float> out(static_cast<std::size_t>(tokens * embedding.width), -9);
    const View<float, 2> rows(out.data(), {tokens, embedding.width});
    sinusoid_rows(embedding, find_recipe("hf").numerics, View<std::int64_t, 1>(positions.data(), {tokens}),
                  rows);
    const double budget = of_numpy ? budgets::kTableExact : budgets::kTableHf;
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::size_t c = 0; c < columns.size(); ++c) {
        const auto expected = one.at("rows")[static_cast<std::size_t>(t)][c].get<double>();
        EXPECT_NEAR(rows(t, columns[c]), expected, budget) << positions[static_cast<std::size_t>(t)];
      }
    }
  }
}

}  // namespace
}  // namespace locant

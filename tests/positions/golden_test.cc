// SPDX-License-Identifier: Apache-2.0
// Plans and tables of recipe `exact` against 50-digit golden cases.
#include "positions/golden.h"

#include <cmath>

#include <gtest/gtest.h>

#include "budgets.h"
#include "positions/cos_sin.h"

namespace locant {
namespace {

using golden::cases;
using golden::doubles;
using golden::integers;
using golden::planned;
using golden::spec_of;

void expect_relative(const std::vector<double>& got, const std::vector<double>& expected, double budget) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_LE(std::abs(got[i] - expected[i]), budget * std::abs(expected[i])) << "at " << i;
  }
}

TEST(Golden, RopeFrequenciesAndTables) {
  for (const auto& one : cases("rope")) {
    SCOPED_TRACE(one.at("parameters").dump());
    const auto rotation = planned<Rotation>(spec_of("rope", one.at("parameters")));
    expect_relative(rotation.inv_freq, doubles(one.at("inv_freq")), budgets::kFrequencyExact);
    EXPECT_EQ(rotation.offset, one.at("parameters").at("rotary_offset").get<std::int64_t>());
    const auto positions = integers(one.at("positions"));
    const auto pairs = integers(one.at("pairs"));
    const auto table = tables::cos_sin(rotation, {}, positions);
    for (std::size_t t = 0; t < positions.size(); ++t) {
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        const auto row = static_cast<std::int64_t>(t);
        EXPECT_NEAR(table.c(row, pairs[i]), one.at("cos")[t][i].get<double>(), budgets::kTableExact);
        EXPECT_NEAR(table.s(row, pairs[i]), one.at("sin")[t][i].get<double>(), budgets::kTableExact);
      }
    }
  }
}

TEST(Golden, AlibiSlopes) {
  for (const auto& one : cases("alibi")) {
    SCOPED_TRACE(one.at("parameters").dump());
    const auto bias = planned<Bias>(spec_of("alibi", one.at("parameters")));
    expect_relative(bias.slopes, doubles(one.at("slopes")), budgets::kSlopeExact);
    EXPECT_EQ(bias.slopes, alibi_slopes(one.at("parameters").at("heads").get<std::int64_t>(),
                                        one.at("parameters").at("bias_max").get<double>()));
  }
}

TEST(Golden, SinusoidalRows) {
  for (const auto& one : cases("sinusoidal")) {
    SCOPED_TRACE(one.at("parameters").dump());
    const auto embedding = planned<PositionEmbedding>(spec_of("sinusoidal", one.at("parameters")));
    expect_relative(embedding.inv_freq, doubles(one.at("inv_freq")), budgets::kFrequencyExact);
    auto positions = integers(one.at("positions"));
    const auto columns = integers(one.at("columns"));
    const auto tokens = static_cast<std::int64_t>(positions.size());
    std::vector<float> out(static_cast<std::size_t>(tokens * embedding.width), -9);
    const View<float, 2> rows(out.data(), {tokens, embedding.width});
    sinusoid_rows(embedding, {}, View<std::int64_t, 1>(positions.data(), {tokens}), rows);
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::size_t c = 0; c < columns.size(); ++c) {
        const auto expected = one.at("rows")[static_cast<std::size_t>(t)][c].get<double>();
        EXPECT_NEAR(rows(t, columns[c]), expected, budgets::kTableExact)
            << positions[static_cast<std::size_t>(t)];
      }
    }
  }
}

TEST(Golden, LearnedRows) {
  for (const auto& one : cases("learned")) {
    SCOPED_TRACE(one.at("parameters").dump());
    const auto embedding = planned<PositionEmbedding>(spec_of("learned", one.at("parameters")));
    const auto positions = integers(one.at("positions"));
    for (std::size_t t = 0; t < positions.size(); ++t) {
      const auto& expected = one.at("rows")[t];
      if (expected.is_null()) {
        EXPECT_THROW((void)table_row(embedding, positions[t]), std::out_of_range) << positions[t];
      } else {
        EXPECT_EQ(table_row(embedding, positions[t]), expected.get<std::int64_t>());
      }
    }
  }
}

}  // namespace
}  // namespace locant

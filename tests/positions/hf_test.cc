// SPDX-License-Identifier: Apache-2.0
// Recipe `hf` against values of the live transformers package (tests/cases/hf_*.json). Tables are compared
// from the package's own frequencies: an ulp of a frequency is a visible angle at position 1,000,000.
#include <cmath>
#include <map>

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

/// Within the budget, and every value a float.
void expect_f32_near(const std::vector<double>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i], static_cast<double>(static_cast<float>(got[i]))) << "not a float at " << i;
    EXPECT_LE(std::abs(got[i] - expected[i]), budgets::kFrequencyHf * expected[i]) << "at " << i;
  }
}

TEST(Hf, RopeFrequenciesAndTables) {
  const std::map<std::string, DType> dtypes = {
      {"f32", DType::f32}, {"bf16", DType::bf16}, {"f16", DType::f16}};
  const std::map<DType, double> steps = {
      {DType::f32, 0}, {DType::bf16, budgets::kTableBf16Step}, {DType::f16, budgets::kTableF16Step}};
  std::size_t differing_f32 = 0;
  std::size_t values_f32 = 0;
  for (const auto& one : cases("hf_rope")) {
    SCOPED_TRACE(one.at("parameters").dump());
    auto rotation = planned<Rotation>(spec_of("rope", one.at("parameters")), "hf");
    expect_f32_near(rotation.inv_freq, doubles(one.at("inv_freq")));
    rotation.inv_freq = doubles(one.at("inv_freq"));
    Numerics numerics = find_recipe("hf").numerics;
    numerics.table = dtypes.at(one.at("table").get<std::string>());
    const auto positions = integers(one.at("positions"));
    const auto pairs = integers(one.at("pairs"));
    const auto table = tables::cos_sin(rotation, numerics, positions);
    const double tolerance = budgets::kTableHf + steps.at(numerics.table);
    std::size_t differing = 0;
    std::size_t values = 0;
    for (std::size_t t = 0; t < positions.size(); ++t) {
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        const auto cos = one.at("cos")[t][i].get<double>();
        const auto sin = one.at("sin")[t][i].get<double>();
        const double got_cos = table.c(static_cast<std::int64_t>(t), pairs[i]);
        const double got_sin = table.s(static_cast<std::int64_t>(t), pairs[i]);
        EXPECT_NEAR(got_cos, cos, tolerance) << positions[t];
        EXPECT_NEAR(got_sin, sin, tolerance) << positions[t];
        differing += static_cast<std::size_t>(got_cos != cos) + static_cast<std::size_t>(got_sin != sin);
        values += 2;
      }
    }
    // An ulp on the f32 value seldom moves a 16-bit one.
    if (numerics.table == DType::f32) {
      differing_f32 += differing;
      values_f32 += values;
    } else {
      EXPECT_LE(static_cast<double>(differing), budgets::kTableNarrowMoved * static_cast<double>(values));
    }
  }
  RecordProperty("differing_f32", static_cast<int>(differing_f32));
  RecordProperty("values_f32", static_cast<int>(values_f32));
}

TEST(Hf, AlibiSlopes) {
  for (const auto& one : cases("hf_alibi")) {
    SCOPED_TRACE(one.at("parameters").dump());
    expect_f32_near(planned<Bias>(spec_of("alibi", one.at("parameters")), "hf").slopes,
                    doubles(one.at("slopes")));
  }
}

TEST(Hf, SinusoidalRows) {
  for (const auto& one : cases("hf_sinusoidal")) {
    SCOPED_TRACE(one.at("parameters").dump());
    auto embedding = planned<PositionEmbedding>(spec_of("sinusoidal", one.at("parameters")), "hf");
    expect_f32_near(embedding.inv_freq, doubles(one.at("inv_freq")));
    embedding.inv_freq = doubles(one.at("inv_freq"));
    auto positions = integers(one.at("positions"));
    const auto columns = integers(one.at("columns"));
    const auto tokens = static_cast<std::int64_t>(positions.size());
    std::vector<float> out(static_cast<std::size_t>(tokens * embedding.width), -9);
    const View<float, 2> rows(out.data(), {tokens, embedding.width});
    sinusoid_rows(embedding, find_recipe("hf").numerics, View<std::int64_t, 1>(positions.data(), {tokens}),
                  rows);
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::size_t c = 0; c < columns.size(); ++c) {
        const auto expected = one.at("rows")[static_cast<std::size_t>(t)][c].get<double>();
        EXPECT_NEAR(rows(t, columns[c]), expected, budgets::kTableHf)
            << positions[static_cast<std::size_t>(t)];
      }
    }
  }
}

TEST(Hf, LearnedRowsOfMaskedBatches) {
  for (const auto& one : cases("hf_learned")) {
    SCOPED_TRACE(one.at("mask").dump());
    const auto embedding = planned<PositionEmbedding>(spec_of("learned", one.at("parameters")), "hf");
    for (std::size_t b = 0; b < one.at("mask").size(); ++b) {
      auto mask = integers(one.at("mask")[b]);
      std::vector<std::int64_t> positions(mask.size());
      const View<std::int64_t, 2> in(mask.data(), {1, static_cast<std::int64_t>(mask.size())});
      // OPT counts over the mask and gives padding position -1, which is row 1.
      masked_positions(in, 0, -1, View<std::int64_t, 2>(positions.data(), in.shape()));
      for (std::size_t t = 0; t < positions.size(); ++t) {
        EXPECT_EQ(table_row(embedding, positions[t]), one.at("rows")[b][t].get<std::int64_t>());
      }
    }
  }
}

TEST(Hf, PositionIdsOfGeneration) {
  for (const auto& one : cases("hf_position_ids")) {
    SCOPED_TRACE(one.at("mask").dump());
    for (std::size_t b = 0; b < one.at("mask").size(); ++b) {
      auto mask = integers(one.at("mask")[b]);
      std::vector<std::int64_t> positions(mask.size(), -9);
      const View<std::int64_t, 2> in(mask.data(), {1, static_cast<std::int64_t>(mask.size())});
      masked_positions(in, 0, 0, View<std::int64_t, 2>(positions.data(), in.shape()));
      EXPECT_EQ(positions, integers(one.at("positions")[b]));
    }
  }
}

}  // namespace
}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// sinusoidal: what it refuses, dialects, the zero row.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "budgets.h"
#include "positions/golden.h"
#include "positions/sentences.h"

namespace locant {
namespace {

using golden::planned;
using testing_text::sentence;

PositionSpec sinusoidal_spec(std::int64_t width, std::string dialect) {
  PositionSpec spec{"sinusoidal", {}};
  spec.set("width", width, "d_model");
  spec.set("dialect", std::move(dialect));
  return spec;
}

std::string refusal(std::string name, ParameterValue value, std::string key = {}) {
  PositionSpec spec = sinusoidal_spec(16, "paper");
  spec.set(std::move(name), std::move(value), std::move(key));
  return sentence<SpecError>([&] { (void)planned<PositionEmbedding>(spec); });
}

std::vector<float> rows_at(const PositionEmbedding& embedding, std::vector<std::int64_t> positions) {
  const auto tokens = static_cast<std::int64_t>(positions.size());
  std::vector<float> rows(static_cast<std::size_t>(tokens * embedding.width), -9);
  sinusoid_rows(embedding, {}, View<std::int64_t, 1>(positions.data(), {tokens}),
                View<float, 2>(rows.data(), {tokens, embedding.width}));
  return rows;
}

TEST(Sinusoidal, RowZeroIsSinesOfZeroAndCosinesOfZero) {
  EXPECT_EQ(rows_at(planned<PositionEmbedding>(sinusoidal_spec(6, "paper")), {0}),
            (std::vector<float>{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(rows_at(planned<PositionEmbedding>(sinusoidal_spec(7, "halves")), {0}),
            (std::vector<float>{0, 0, 0, 1, 1, 1, 0}));
}

TEST(Sinusoidal, OddWidths) {
  EXPECT_EQ(rows_at(planned<PositionEmbedding>(sinusoidal_spec(5, "paper")), {0}),
            (std::vector<float>{0, 1, 0, 1, 0}));
  EXPECT_EQ(rows_at(planned<PositionEmbedding>(sinusoidal_spec(5, "ctrl")), {0}),
            (std::vector<float>{0, 0, 0, 1, 1}));
  EXPECT_EQ(rows_at(planned<PositionEmbedding>(sinusoidal_spec(5, "marian")), {0}),
            (std::vector<float>{0, 0, 1, 1, 0}));
  EXPECT_EQ(rows_at(planned<PositionEmbedding>(sinusoidal_spec(5, "cos_first")), {0}),
            (std::vector<float>{1, 1, 0, 0, 0}));
}

TEST(Sinusoidal, DialectsShareLaddersAndColumns) {
  const auto paper = rows_at(planned<PositionEmbedding>(sinusoidal_spec(10, "paper")), {257, 2049});
  const auto ctrl = rows_at(planned<PositionEmbedding>(sinusoidal_spec(10, "ctrl")), {257, 2049});
  const auto halves = rows_at(planned<PositionEmbedding>(sinusoidal_spec(10, "halves")), {257, 2049});
  const auto cosines = rows_at(planned<PositionEmbedding>(sinusoidal_spec(10, "cos_first")), {257, 2049});
  PositionSpec spec = sinusoidal_spec(10, "xt");
  spec.set("scale", 0.5);
  const auto xt = rows_at(planned<PositionEmbedding>(spec), {257, 2049});
  for (std::size_t t = 0; t < 2; ++t) {
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(paper[10 * t + 2 * i], ctrl[10 * t + i]);
      EXPECT_EQ(paper[10 * t + 2 * i + 1], ctrl[10 * t + 5 + i]);
      EXPECT_EQ(halves[10 * t + i], cosines[10 * t + 5 + i]);
      EXPECT_EQ(halves[10 * t + 5 + i], cosines[10 * t + i]);
      EXPECT_EQ(xt[10 * t + i], ctrl[10 * t + i] / 2);
    }
  }
  EXPECT_NE(halves, ctrl);
  EXPECT_EQ(halves, rows_at(planned<PositionEmbedding>(sinusoidal_spec(10, "marian")), {257, 2049}));
}

TEST(Sinusoidal, TablesOfNumpyAreF64UnderEveryRecipe) {
  PositionSpec spec = sinusoidal_spec(64, "ctrl");
  spec.set("arithmetic", std::string("f64"));
  const auto exact = planned<PositionEmbedding>(spec);
  const auto hf = planned<PositionEmbedding>(spec, "hf");
  EXPECT_EQ(exact, hf);
  std::vector<std::int64_t> positions = {100000};
  std::vector<float> rows(64);
  sinusoid_rows(hf, find_recipe("hf").numerics, View<std::int64_t, 1>(positions.data(), {1}),
                View<float, 2>(rows.data(), {1, 64}));
  EXPECT_EQ(rows, rows_at(exact, {100000}));
}

TEST(Sinusoidal, WhoReadsMarianHow) {
  const auto plain = planned<PositionEmbedding>(sinusoidal_spec(512, "halves"));
  const auto whole = planned<PositionEmbedding>(sinusoidal_spec(512, "ctrl"));
  for (const Recipe& recipe : recipes()) {
    const auto marian = planned<PositionEmbedding>(sinusoidal_spec(512, "marian"), recipe.name);
    const bool by_half = recipe.name == "hf" || recipe.name == "ctranslate2";
    const auto& expected = by_half ? whole : plain;
    EXPECT_NEAR(marian.inv_freq[100], expected.inv_freq[100], budgets::kFrequencyHf) << recipe.name;
    EXPECT_EQ(marian.first_position, 0) << recipe.name;
  }
  // The two ladders part by up to 0.74 rad inside 511 positions, most at column 28.
  double most = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < 256; ++i) {
    const double apart = 511 * std::abs(plain.inv_freq[i] - whole.inv_freq[i]);
    if (apart > most) at = i;
    most = std::max(most, apart);
  }
  EXPECT_EQ(at, 28U);
  // exp(-28 ln(10000)/255) - 10000^(-28/256), 511 times
  EXPECT_EQ(std::lround(1000 * most), 736);
}

TEST(Sinusoidal, RowsMadeAtRunTimeStartAtOneInCtranslate2) {
  PositionSpec spec = sinusoidal_spec(64, "halves");
  for (const Recipe& recipe : recipes()) {
    EXPECT_EQ(planned<PositionEmbedding>(spec, recipe.name).first_position,
              recipe.name == "ctranslate2" ? 1 : 0)
        << recipe.name;
  }
  spec.set("stored", std::int64_t{1});
  EXPECT_EQ(planned<PositionEmbedding>(spec, "ctranslate2").first_position, 0);
  EXPECT_EQ(planned<PositionEmbedding>(sinusoidal_spec(64, "paper"), "ctranslate2").first_position, 0);
  spec.set("first_position", std::int64_t{3});
  spec.set("stored", std::int64_t{0});
  EXPECT_EQ(planned<PositionEmbedding>(spec, "ctranslate2").first_position, 3);
}

TEST(Sinusoidal, FirstPositionAndScaleArePlanned) {
  PositionSpec spec = sinusoidal_spec(64, "halves");
  spec.set("first_position", std::int64_t{1});
  spec.set("scale", 3.0);
  EXPECT_EQ(planned<PositionEmbedding>(spec).first_position, 1);
  EXPECT_EQ(planned<PositionEmbedding>(spec).scale, 3.0);
  EXPECT_EQ(planned<PositionEmbedding>(sinusoidal_spec(64, "halves")).first_position, 0);
}

TEST(Sinusoidal, OffsetShiftsThePosition) {
  PositionSpec shifted = sinusoidal_spec(64, "halves");
  shifted.set("offset", std::int64_t{2});
  const auto plain = planned<PositionEmbedding>(sinusoidal_spec(64, "halves"));
  EXPECT_EQ(rows_at(planned<PositionEmbedding>(shifted), {0, 255, 4097}), rows_at(plain, {2, 257, 4099}));
}

TEST(Sinusoidal, TheZeroRowIsZeroAndOnlyThat) {
  PositionSpec spec = sinusoidal_spec(9, "halves");
  spec.set("offset", std::int64_t{2});
  spec.set("zero_row", std::int64_t{1}, "pad_token_id");
  const auto rows = rows_at(planned<PositionEmbedding>(spec), {-1, 0});
  for (std::size_t i = 0; i < 9; ++i) EXPECT_EQ(rows[i], 0);
  EXPECT_NE(rows[9], 0);
}

TEST(Sinusoidal, ScaleAndCosFirstOfAPlan) {
  auto embedding = planned<PositionEmbedding>(sinusoidal_spec(8, "halves"));
  const auto plain = rows_at(embedding, {257});
  embedding.scale = 4;
  embedding.cos_first = true;
  const auto changed = rows_at(embedding, {257});
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(changed[i], 4 * plain[(i + 4) % 8]);
}

TEST(Sinusoidal, Refuses) {
  PositionSpec xt = sinusoidal_spec(9, "xt");
  EXPECT_EQ(sentence<SpecError>([&] { (void)planned<PositionEmbedding>(xt); }),
            "sinusoidal: width (d_model) must be even in the xt dialect, got 9");
  xt.set("width", std::int64_t{8});
  EXPECT_EQ(sentence<SpecError>([&] { (void)planned<PositionEmbedding>(xt); }),
            "sinusoidal: scale must be stated in the xt dialect, it is learned, got nothing");
  EXPECT_EQ(refusal("scale", -1.0), "sinusoidal: scale must be a finite number above 0, got -1");
  EXPECT_EQ(refusal("arithmetic", std::string("f32")),
            "sinusoidal: arithmetic must be recipe or f64, got \"f32\"");
  EXPECT_EQ(refusal("first_position", std::int64_t{-1}),
            "sinusoidal: first_position must be a whole number from 0 to 281474976710656, got -1");
  EXPECT_EQ(refusal("width", std::int64_t{1}),
            "sinusoidal: width must be a whole number from 2 to 16777216, got 1");
  EXPECT_EQ(refusal("dialect", std::string("fairseq")),
            "sinusoidal: dialect must be paper, halves, marian, ctrl, cos_first or xt, got \"fairseq\"");
  EXPECT_EQ(refusal("theta", 0.0), "sinusoidal: theta must be a finite number above 0, got 0");
  EXPECT_EQ(refusal("zero_row", std::int64_t{-1}),
            "sinusoidal: zero_row must be a whole number from 0 to 281474976710656, got -1");
  EXPECT_EQ(refusal("offset", std::int64_t{1} << 50),
            "sinusoidal: offset must be a whole number from -281474976710656 to 281474976710656, "
            "got 1125899906842624");
  PositionSpec tiny = sinusoidal_spec(16, "halves");
  tiny.set("theta", 1e-60);
  EXPECT_EQ(sentence<SpecError>([&] { (void)planned<PositionEmbedding>(tiny, "hf"); }),
            "sinusoidal: theta must give finite frequencies, got 1e-60");
}

}  // namespace
}  // namespace locant

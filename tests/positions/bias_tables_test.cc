// SPDX-License-Identifier: Apache-2.0
// slope_scores: what ALiBi adds, in the three ways of counting and in the dtypes that transformers adds it
// in; query_factor's refusal.
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "budgets.h"
#include "positions/golden.h"
#include "positions/sentences.h"

namespace locant {
namespace {

using golden::cases;
using golden::integers;
using golden::planned;
using testing_text::sentence;

PositionSpec alibi(std::int64_t heads) {
  PositionSpec spec{"alibi", {}};
  spec.set("heads", heads);
  return spec;
}

/// Of one query, [heads][keys].
std::vector<std::vector<float>> scores(const Bias& bias, const Numerics& numerics, std::int64_t query,
                                       std::vector<std::int64_t> keys) {
  const auto count = static_cast<std::int64_t>(keys.size());
  std::vector<float> out(static_cast<std::size_t>(bias.heads * count));
  slope_scores(bias, numerics, View<std::int64_t, 1>(&query, {1}),
               View<std::int64_t, 1>(keys.data(), {count}),
               View<float, 3>(out.data(), {bias.heads, 1, count}));
  std::vector<std::vector<float>> rows;
  for (auto at = out.begin(); at != out.end(); at += count) rows.emplace_back(at, at + count);
  return rows;
}

TEST(SlopeScores, AreThoseOfTransformers) {
  const std::map<std::string, DType> dtypes = {
      {"f32", DType::f32}, {"bf16", DType::bf16}, {"f16", DType::f16}};
  for (const auto& one : cases("hf_alibi_scores")) {
    const auto family = one.at("family").get<std::string>();
    SCOPED_TRACE(family + one.at("dtype").dump());
    PositionSpec spec = alibi(one.at("heads").get<std::int64_t>());
    spec.set("counts_from", std::string(family == "mpt" ? "sequence_end" : "sequence_start"));
    if (family == "falcon") spec.set("scale_order", std::string("before_scale"));
    const auto bias = planned<Bias>(spec, "hf");
    const Numerics numerics = numerics_of(find_recipe("hf"), dtypes.at(one.at("dtype").get<std::string>()));
    const auto found = scores(bias, numerics, 7, integers(one.at("keys")));
    for (std::size_t h = 0; h < found.size(); ++h) {
      for (std::size_t k = 0; k < found[h].size(); ++k) {
        const auto expected = one.at("scores")[h][k].get<double>();
        EXPECT_NEAR(found[h][k], expected, budgets::kFrequencyHf * std::abs(expected)) << h << " " << k;
      }
    }
  }
}

TEST(SlopeScores, TheWaysOfCountingDifferByOneNumberARow) {
  PositionSpec spec = alibi(12);
  const std::vector<std::int64_t> keys = {0, 1, 257, 2049, 4096};
  const auto query = scores(planned<Bias>(spec), {}, 4096, keys);
  for (const char* from : {"sequence_start", "sequence_end"}) {
    spec.set("counts_from", std::string(from));
    const auto other = scores(planned<Bias>(spec), {}, 4096, keys);
    for (std::size_t h = 0; h < query.size(); ++h) {
      const double apart = double{other[h][0]} - double{query[h][0]};
      for (std::size_t k = 0; k < keys.size(); ++k) {
        EXPECT_NEAR(double{other[h][k]} - double{query[h][k]}, apart, 4096 * budgets::kFrequencyHf);
      }
    }
  }
  PositionSpec both = alibi(12);
  both.set("direction", std::string("bidirectional"));
  EXPECT_EQ(scores(planned<Bias>(both), {}, 257, {255})[3], scores(planned<Bias>(both), {}, 257, {259})[3]);
}

TEST(SlopeScores, Bf16MovesNeighboursByWholeSteps) {
  PositionSpec spec = alibi(16);  // the first slope is 2^-0.5
  spec.set("counts_from", std::string("sequence_start"));
  const auto bias = planned<Bias>(spec, "hf");
  const auto bf16 = scores(bias, numerics_of(find_recipe("hf"), DType::bf16), 0, {2046, 2047})[0];
  const auto f32 = scores(bias, numerics_of(find_recipe("hf"), DType::f32), 0, {2046, 2047})[0];
  EXPECT_EQ(std::fmod(bf16[1] - bf16[0], 8.0F), 0.0F);
  EXPECT_NEAR(f32[1] - f32[0], std::sqrt(0.5), 2047 * budgets::kFrequencyHf);
  EXPECT_EQ(scores(bias, numerics_of(find_recipe("vllm"), DType::bf16), 0, {2046, 2047})[0], f32);
}

TEST(SlopeScores, Refuse) {
  std::int64_t position = 0;
  std::vector<float> out(4);
  const View<std::int64_t, 1> one(&position, {1});
  const auto said = [&](const Bias& bias, const View<float, 3>& into) {
    return sentence<SpecError>([&] { slope_scores(bias, {}, one, one, into); });
  };
  EXPECT_EQ(said(Bias{.form = BiasForm::buckets, .heads = 2}, View<float, 3>(out.data(), {2, 1, 1})),
            "slope_scores: a bias has a slope for each of its heads, got buckets of 2");
  EXPECT_EQ(said(planned<Bias>(alibi(2)), View<float, 3>(out.data(), {1, 2, 1})),
            "slope_scores: out is [heads=2, queries=1, keys=1], got [1,2,1]");
  EXPECT_EQ(sentence<SpecError>([] { (void)query_factor({.form = "linear"}, 1); }),
            "query_factor: a query scale is log_floor or log_ratio, got \"linear\"");
}

}  // namespace
}  // namespace locant

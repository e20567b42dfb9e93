// SPDX-License-Identifier: Apache-2.0
// The fused head against project(), softcap(), top_candidates() and log_sum_exp() on logits in memory, for
// any number of threads; logits that are not finite; every rule as its sentence.
#include "locant/head.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "budgets.h"
#include "ops/head_problem.h"

namespace locant {
namespace {

struct Problem : testing::HeadProblem {
  std::vector<std::uint8_t> stored;
  std::vector<std::int64_t> targets;
  Matrix weight;

  Problem(std::int64_t tokens_, std::int64_t vocab_, std::int64_t width_)
      : HeadProblem(tokens_, vocab_, width_, testing::Random(static_cast<std::uint64_t>(tokens_ + vocab_))),
        weight(table()) {
    testing::Random random(static_cast<std::uint64_t>(vocab));
    for (std::int64_t t = 0; t < tokens; ++t) targets.push_back(t == 0 ? vocab - 1 : random.below(vocab));
  }
  void keep_as_bf16() {
    stored.resize(values.size() * 2);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const BFloat16 value = bfloat16_from_f32(values[i]);
      std::memcpy(stored.data() + 2 * i, &value, 2);
    }
    weight = matrix(TensorRef(stored.data(), DType::bf16, {vocab, width}));
  }
  void keep_as_blocks(GgmlType type) {
    stored.resize(static_cast<std::size_t>(testing::bytes_of(type, vocab * width)));
    testing::Random random(7);
    testing::fill_blocks(random, type, vocab * width, stored.data());
    weight = {.data = stored.data(), .rows = vocab, .columns = width, .row_stride = width, .blocks = type};
  }
};

struct Settings {
  float scale = 1;
  float softcap = 0;
  Activations activations = Activations::f32;
  std::int64_t candidates = 5;
  bool biased = false;
};

struct Answer {
  std::vector<Candidate> candidates;
  std::vector<double> log_sum_exp;
  std::vector<float> target_logits;
};

View<const float, 1> bias_of(const Problem& p, const Settings& s) {
  return s.biased ? View<const float, 1>(p.bias.data(), {p.vocab}) : View<const float, 1>();
}

Answer fused(const Problem& p, const Settings& s, int threads) {
  ThreadPool pool{threads};
  const auto tokens = static_cast<std::size_t>(p.tokens);
  Answer a{std::vector<Candidate>(tokens * static_cast<std::size_t>(s.candidates)),
           std::vector<double>(tokens), std::vector<float>(tokens)};
  HeadSpace space(p.tokens, p.vocab, s.candidates);
  head({.x = {p.x.data(), {p.tokens, p.width}},
        .weight = p.weight,
        .bias = bias_of(p, s),
        .scale = s.scale,
        .softcap = s.softcap,
        .activations = s.activations,
        .targets = {p.targets.data(), {p.tokens}},
        .target_logits = {a.target_logits.data(), {p.tokens}},
        .log_sum_exp = {a.log_sum_exp.data(), {p.tokens}},
        .candidates = {a.candidates.data(), {p.tokens, s.candidates}}},
       space, pool);
  return a;
}

void compare(const Problem& p, const Settings& s) {
  SCOPED_TRACE(::testing::Message() << p.tokens << " tokens, " << p.vocab << " rows, " << p.width
                                    << " columns");
  ThreadPool pool{2};
  std::vector<float> logits(static_cast<std::size_t>(p.tokens * p.vocab));
  const View<float, 2> out(logits.data(), {p.tokens, p.vocab});
  project({.x = {p.x.data(), {p.tokens, p.width}},
           .weight = p.weight,
           .bias = bias_of(p, s),
           .scale = s.scale,
           .activations = s.activations,
           .out = out},
          pool);
  if (s.softcap > 0) softcap({.x = out, .cap = s.softcap}, pool);
  const Answer one = fused(p, s, 1);
  const Answer more = fused(p, s, 3);
  EXPECT_EQ(one.log_sum_exp, more.log_sum_exp);
  for (std::int64_t t = 0; t < p.tokens; ++t) {
    const auto at = static_cast<std::size_t>(t);
    const View<const float, 1> row(&out(t, 0), {p.vocab});
    ASSERT_EQ(one.target_logits[at], row(p.targets[at])) << t;
    const double expected = log_sum_exp(row);
    ASSERT_LE(std::abs(one.log_sum_exp[at] - expected),
              budgets::kLogSumExp * std::max(1.0, std::abs(expected)));
    std::vector<Candidate> best(static_cast<std::size_t>(s.candidates));
    const std::size_t found = top_candidates(row, best);
    for (std::size_t i = 0; i < best.size(); ++i) {
      for (const Answer* answer : {&one, &more}) {
        const Candidate& got = answer->candidates[at * best.size() + i];
        ASSERT_EQ(got.id, i < found ? best[i].id : -1) << t << "," << i;
        ASSERT_EQ(got.logit, i < found ? best[i].logit : -std::numeric_limits<float>::infinity());
      }
    }
  }
}

TEST(Head, IsTheUnfusedHead) {
  compare({1, 5000, 70}, {});
  compare({3, 2048, 33}, {.scale = 0.5F, .softcap = 7, .candidates = 64});
  compare({70, 4400, 40}, {.candidates = 1, .biased = true});
  compare({2, 11, 8}, {.candidates = 20});  // more are wanted than there are
  compare({2, 300, 1030}, {.candidates = 300});
}

TEST(Head, IsTheUnfusedHeadOfOtherWeights) {
  for (const Activations activations : {Activations::f32, Activations::bf16}) {
    Problem p(5, 2300, 96);
    p.keep_as_bf16();
    compare(p, {.activations = activations});
  }
  for (const Activations activations : {Activations::f32, Activations::int8}) {
    Problem p(9, 2300, 64);
    p.keep_as_blocks(GgmlType::q4_0);
    compare(p, {.activations = activations});
  }
}

TEST(Head, EqualLogitsGoById) {
  Problem p(2, 6000, 16);
  std::fill(p.values.begin(), p.values.end(), 0.0F);
  compare(p, {.candidates = 3});
}

TEST(Head, WhatIsNotFiniteStaysVisible) {
  Problem p(1, 4500, 4);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const Settings biased{.candidates = 3, .biased = true};
  p.bias[3000] = -kInfinity;
  compare(p, biased);
  std::fill(p.bias.begin(), p.bias.begin() + 2048, -kInfinity);  // a whole tile
  compare(p, biased);
  p.bias[4000] = kInfinity;
  EXPECT_EQ(fused(p, biased, 1).log_sum_exp[0], kInfinity);
  EXPECT_EQ(fused(p, biased, 1).candidates[0].id, 4000);
  p.bias[7] = kNan;
  EXPECT_TRUE(std::isnan(fused(p, biased, 1).log_sum_exp[0]));
  EXPECT_EQ(fused(p, biased, 1).candidates[0].id, 4000);
  std::fill(p.bias.begin(), p.bias.end(), kNan);
  EXPECT_TRUE(std::isnan(fused(p, biased, 1).log_sum_exp[0]));
  EXPECT_EQ(fused(p, biased, 1).candidates[0].id, -1);
  std::fill(p.bias.begin(), p.bias.end(), -kInfinity);
  EXPECT_EQ(fused(p, biased, 1).log_sum_exp[0], -kInfinity);
}

class HeadRules : public ::testing::Test {
 protected:
  Problem p{2, 40, 8};
  ThreadPool pool{1};
  HeadSpace space{2, 40, 3};
  std::vector<double> sums = std::vector<double>(4, 3.0);
  std::vector<float> logits = std::vector<float>(4, 3.0F);
  std::vector<Candidate> best = std::vector<Candidate>(6, Candidate{9, 3.0F});
  HeadCall call{.x = {p.x.data(), {2, 8}},
                .weight = p.weight,
                .targets = {p.targets.data(), {2}},
                .target_logits = {logits.data(), {2}},
                .log_sum_exp = {sums.data(), {2}},
                .candidates = {best.data(), {2, 3}}};

  [[nodiscard]] std::string sentence() {
    try {
      head(call, space, pool);
    } catch (const std::exception& error) {
      // nothing was written
      EXPECT_EQ(sums, std::vector<double>(4, 3.0));
      EXPECT_EQ(logits, std::vector<float>(4, 3.0F));
      EXPECT_EQ(best[0].id, 9);
      return error.what();
    }
    return "";
  }
};

TEST_F(HeadRules, Shapes) {
  call.x = {p.x.data(), {2, 7}};
  EXPECT_EQ(sentence(), "head: x is [2,7], expected [tokens, columns=8]");
  call.x = {p.x.data(), {2, 8}};
  call.log_sum_exp = {sums.data(), {3}};
  EXPECT_EQ(sentence(), "head: log_sum_exp is [3], expected [tokens=2]");
  call.log_sum_exp = {sums.data(), {2}};
  call.target_logits = {logits.data(), {3}};
  EXPECT_EQ(sentence(), "head: target_logits is [3], expected [tokens=2]");
  call.target_logits = {};
  EXPECT_EQ(sentence(), "head: targets are [2] and their logits [0], expected both or none");
  call.targets = {p.targets.data(), {1}};
  call.target_logits = {logits.data(), {2}};
  EXPECT_EQ(sentence(), "head: targets is [1], expected [tokens=2]");
  call.targets = {p.targets.data(), {2}};
  call.candidates = {best.data(), {1, 3}};
  EXPECT_EQ(sentence(), "head: candidates is [1,3], expected [tokens=2, candidates=3]");
  call.candidates = {best.data(), {2, 3}};
  call.bias = {p.bias.data(), {39}};
  EXPECT_EQ(sentence(), "head: bias is [39], expected [rows=40]");
  call.bias = {};
  call.weight = {.data = p.values.data(), .dtype = DType::f32, .rows = 40, .columns = 0, .row_stride = 0};
  EXPECT_EQ(sentence(), "head: weight is [40,0], expected at least one column");
}

TEST_F(HeadRules, ValuesAndSpace) {
  call.softcap = -1;
  EXPECT_EQ(sentence(), "head: softcap is -1, expected 0 or more");
  call.softcap = 0;
  p.targets[1] = 40;
  EXPECT_EQ(sentence(), "head: target 40 at row 1 is outside vocab 40");
  EXPECT_THROW(head(call, space, pool), std::out_of_range);
  p.targets[1] = -1;
  EXPECT_EQ(sentence(), "head: target -1 at row 1 is outside vocab 40");
  p.targets[1] = 0;
  space = HeadSpace(1, 40, 3);
  EXPECT_EQ(sentence(), "head: space is for 1 tokens, 40 rows and 3 candidates, expected 2, 40 and 3");
  try {
    const HeadSpace none(-1, 40, 3);
    FAIL();
  } catch (const SpecError& error) {
    EXPECT_STREQ(error.what(), "head: space for -1 tokens, 40 rows and 3 candidates, expected none below 0");
  }
}

TEST_F(HeadRules, Overlaps) {
  call.target_logits = {p.x.data(), {2}};
  EXPECT_EQ(sentence(), "head: target_logits overlap x");
  call.target_logits = {p.values.data(), {2}};
  EXPECT_EQ(sentence(), "head: target_logits overlap the weight");
  call.bias = {p.bias.data(), {40}};
  call.target_logits = {p.bias.data() + 2, {2}};
  EXPECT_EQ(sentence(), "head: target_logits overlap bias");
}

TEST_F(HeadRules, NoTokensAndNoAnswers) {
  EXPECT_EQ(sentence(), "");
  HeadCall none{.x = {p.x.data(), {0, 8}}, .weight = p.weight};
  head(none, space, pool);
  none.x = {p.x.data(), {2, 8}};
  head(none, space, pool);
}

}  // namespace
}  // namespace locant

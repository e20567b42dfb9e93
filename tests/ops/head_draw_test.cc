// SPDX-License-Identifier: Apache-2.0
// What the fused head draws against sums of probabilities in f64, for any number of threads; frequencies;
// what cannot be drawn from; every rule as its sentence.
#include <cmath>
#include <limits>
#include <string>

#include "budgets.h"
#include "locant/head.h"
#include "ops/head_problem.h"

namespace locant {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Drawing : testing::HeadProblem {
  float temperature = 1;
  float softcap = 0;
  std::vector<double> draws;

  Drawing(std::int64_t tokens_, std::int64_t vocab_, std::int64_t width_)
      : HeadProblem(tokens_, vocab_, width_,
                    testing::Random(static_cast<std::uint64_t>(3 * tokens_ + vocab_))) {
    testing::Random random(static_cast<std::uint64_t>(vocab));
    for (std::int64_t t = 0; t < tokens; ++t)
      draws.push_back(static_cast<double>(random.below(1 << 20)) / (1 << 20));
    draws.front() = 0;
    draws.back() = std::nextafter(1.0, 0.0);
  }
  [[nodiscard]] HeadCall call() const {
    return {.x = {x.data(), {tokens, width}},
            .weight = table(),
            .bias = {bias.data(), {vocab}},
            .softcap = softcap,
            .draws = {draws.data(), {tokens}},
            .temperature = temperature};
  }
  [[nodiscard]] std::vector<std::int64_t> drawn(int threads = 1) const {
    ThreadPool pool{threads};
    HeadSpace space(tokens, vocab, 0);
    std::vector<std::int64_t> ids(draws.size(), 99);
    HeadCall call = this->call();
    call.drawn = {ids.data(), {tokens}};
    head(call, space, pool);
    return ids;
  }
  // Probabilities of a token's ids.
  [[nodiscard]] std::vector<double> shares(std::int64_t t) const {
    ThreadPool pool{1};
    std::vector<float> logits(static_cast<std::size_t>(vocab));
    const View<float, 2> out(logits.data(), {1, vocab});
    project({.x = {x.data() + t * width, {1, width}},
             .weight = call().weight,
             .bias = {bias.data(), {vocab}},
             .out = out},
            pool);
    if (softcap > 0) locant::softcap({.x = out, .cap = softcap}, pool);
    double sum = 0;
    std::vector<double> all;
    for (const float logit : logits)
      sum += all.emplace_back(std::exp(static_cast<double>(logit) / temperature));
    for (double& share : all) share /= sum;
    return all;
  }
  void check() const {
    SCOPED_TRACE(::testing::Message()
                 << tokens << " tokens, " << vocab << " rows, temperature " << temperature);
    const std::vector<std::int64_t> ids = drawn();
    EXPECT_EQ(ids, drawn(3));
    for (std::int64_t t = 0; t < tokens; ++t) {
      const auto at = static_cast<std::size_t>(t);
      const std::vector<double> all = shares(t);
      ASSERT_GE(ids[at], 0) << t;
      ASSERT_LT(ids[at], vocab) << t;
      double before = 0;
      for (std::int64_t id = 0; id < ids[at]; ++id) before += all[static_cast<std::size_t>(id)];
      EXPECT_LE(before, draws[at] + budgets::kDrawnShare) << t;
      EXPECT_GE(before + all[static_cast<std::size_t>(ids[at])], draws[at] - budgets::kDrawnShare) << t;
    }
  }
};

TEST(HeadDraw, IsWhereTheSumOfSharesPassesTheNumber) {
  Drawing(1, 5000, 40).check();
  Drawing(7, 2048, 33).check();
  Drawing(70, 4500, 24).check();
  Drawing(3, 11, 8).check();
  Drawing warm(20, 6500, 40);
  warm.temperature = 3.5F;
  warm.check();
  warm.temperature = 0.25F;
  warm.softcap = 4;
  warm.check();
}

// Evenly spread numbers find each id as often as its share says, to one number at either end.
TEST(HeadDraw, FrequenciesAreShares) {
  Drawing one(1, 37, 8);
  constexpr int kNumbers = 4096;
  std::vector<int> found(37);
  for (int i = 0; i < kNumbers; ++i) {
    one.draws[0] = (i + 0.5) / kNumbers;
    ++found.at(static_cast<std::size_t>(one.drawn()[0]));
  }
  const std::vector<double> all = one.shares(0);
  for (std::size_t id = 0; id < found.size(); ++id)
    EXPECT_LE(std::abs(found[id] - all[id] * kNumbers), 1 + budgets::kDrawnShare * kNumbers) << id;
}

TEST(HeadDraw, PassesOverWhatHasNoShare) {
  Drawing one(1, 4500, 8);
  std::fill(one.bias.begin(), one.bias.end(), -kInfinity);
  one.bias[2050] = 0;
  for (const double number : {0.0, 0.5, std::nextafter(1.0, 0.0)}) {
    one.draws[0] = number;
    EXPECT_EQ(one.drawn()[0], 2050) << number;
  }
}

TEST(HeadDraw, NothingIsDrawnFromWhatCannotBeCompared) {
  Drawing one(1, 4500, 8);
  const std::vector<float> bias = one.bias;
  for (const float odd : {kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    one.bias = bias;
    one.bias[3000] = odd;
    EXPECT_EQ(one.drawn()[0], -1) << odd;
  }
  std::fill(one.bias.begin(), one.bias.end(), -kInfinity);
  EXPECT_EQ(one.drawn()[0], -1);
}

TEST(HeadDraw, RulesAreSentences) {
  Drawing two(2, 40, 8);
  ThreadPool pool{1};
  HeadSpace space(2, 40, 0);
  std::vector<std::int64_t> ids(3, 99);
  HeadCall call = two.call();
  const auto sentence = [&] {
    try {
      head(call, space, pool);
    } catch (const SpecError& error) {
      EXPECT_EQ(ids, std::vector<std::int64_t>(3, 99));
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(sentence(), "head: draws are [2] and what they draw [0], expected both or none");
  call.drawn = {ids.data(), {3}};
  EXPECT_EQ(sentence(), "head: drawn is [3], expected [tokens=2]");
  call.drawn = {ids.data(), {2}};
  for (const auto& [temperature, shown] :
       {std::pair{0.0F, "0"}, std::pair{-1.0F, "-1"}, std::pair{kInfinity, "inf"}}) {
    call.temperature = temperature;
    EXPECT_EQ(sentence(), std::string("head: temperature is ") + shown + ", expected above 0 and finite");
  }
  call.temperature = 1;
  two.draws[1] = 1;
  EXPECT_EQ(sentence(), "head: draw 1 at row 1, expected in [0, 1)");
  two.draws[1] = 0;
  call.drawn = {reinterpret_cast<std::int64_t*>(two.draws.data()), {2}};
  EXPECT_EQ(sentence(), "head: drawn overlap draws");
}

}  // namespace
}  // namespace locant

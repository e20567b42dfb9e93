// SPDX-License-Identifier: Apache-2.0
// The random numbers against published values, draws against their distribution, the cuts, and that a row's
// draws depend on nothing but seed, row and step.
#include "model/sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <set>

#include "budgets.h"
#include "model/feeding.h"

namespace locant {
namespace {

using namespace tests;
using testing::HasSubstr;

View<const float, 1> view(const std::vector<float>& logits) {
  return {logits.data(), {static_cast<std::int64_t>(logits.size())}};
}

// kat_vectors of Random123 1.14.
TEST(Philox, GivesThePublishedBlocks) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Philox{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Philox{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Philox{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(UniformAt, IsInRangeAndItsOwnForEverySeedRowAndStep) {
  std::set<double> seen;
  for (std::uint64_t seed : {0ULL, 1ULL, 1ULL << 32, ~0ULL}) {
    for (std::int64_t row = 0; row < 5; ++row) {
      for (std::int64_t step : {0LL, 1LL, 2LL, 1LL << 40}) {
        const double u = uniform_at(seed, row, step);
        EXPECT_GE(u, 0);
        EXPECT_LT(u, 1);
        EXPECT_TRUE(seen.insert(u).second);
      }
    }
  }
}

struct Case {
  std::string name;
  Sampling sampling;
  std::vector<double> want;  ///< probabilities by id
};

const std::vector<float> kLogits = {1.5F, -0.5F, 2.25F, 0, 1.5F, -3, std::numeric_limits<float>::quiet_NaN(),
                                    0.75F};

std::vector<double> softmax_of(const std::set<std::size_t>& kept, double temperature) {
  std::vector<double> p(kLogits.size(), 0);
  double sum = 0;
  for (const std::size_t id : kept) sum += p[id] = std::exp(static_cast<double>(kLogits[id]) / temperature);
  for (double& one : p) one /= sum;
  return p;
}

class Draws : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    All, Draws,
    testing::Values(
        Case{"Plain", {.temperature = 1}, softmax_of({0, 1, 2, 3, 4, 5, 7}, 1)},
        Case{"Warm", {.temperature = 2.5}, softmax_of({0, 1, 2, 3, 4, 5, 7}, 2.5)},
        Case{"TopK", {.temperature = 0.8, .top_k = 3}, softmax_of({0, 2, 4}, 0.8)},
        Case{"TopKCutsATieByItsId", {.temperature = 1, .top_k = 2}, softmax_of({0, 2}, 1)},
        Case{"TopKAboveTheVocabulary", {.temperature = 1, .top_k = 99}, softmax_of({0, 1, 2, 3, 4, 5, 7}, 1)},
        // softmax at 1: 0.427, 0.202, 0.202, 0.095, ...
        Case{"TopP", {.temperature = 1, .top_p = 0.7}, softmax_of({0, 2, 4}, 1)},
        Case{"TopPCutsATieByItsId", {.temperature = 1, .top_p = 0.5}, softmax_of({0, 2}, 1)},
        // of the three largest the shares are 0.514, 0.243, 0.243
        Case{"TopPOfTheTopK", {.temperature = 1, .top_k = 3, .top_p = 0.7}, softmax_of({0, 2}, 1)},
        Case{"TopPTinyKeepsOne", {.temperature = 1, .top_p = 1e-9}, softmax_of({2}, 1)},
        Case{"TemperatureTiny", {.temperature = 1e-310}, softmax_of({2}, 1)}),
    [](const auto& c) { return c.param.name; });

TEST_P(Draws, FollowTheirDistribution) {
  constexpr int kDraws = 20000;
  Sampling sampling = GetParam().sampling;
  std::vector<double> counts(kLogits.size(), 0);
  for (int seed = 0; seed < kDraws; ++seed) {
    sampling.seed = static_cast<std::uint64_t>(seed);
    counts[static_cast<std::size_t>(choose(view(kLogits), sampling, seed % 7, seed % 3))] += 1;
  }
  double chi_square = 0;
  for (std::size_t id = 0; id < counts.size(); ++id) {
    const double expected = kDraws * GetParam().want[id];
    if (expected == 0) {
      EXPECT_EQ(counts[id], 0) << id;
    } else {
      chi_square += (counts[id] - expected) * (counts[id] - expected) / expected;
    }
  }
  EXPECT_LT(chi_square, budgets::kSamplingChiSquare);
}

TEST(Choose, OfOneIsGreedy) {
  std::vector<float> logits(1000, -1);
  logits[700] = logits[900] = 2;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_EQ(choose(view(logits), {.temperature = 3, .top_k = 1, .seed = seed}, 0, 0), 700);
    EXPECT_EQ(choose(view(logits), {.temperature = 0, .seed = seed}, 0, 0), 700);
  }
}

TEST(Choose, InfinitiesAndNan) {
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const Sampling& sampling : {Sampling{.temperature = 1}, Sampling{.temperature = 1, .top_k = 2},
                                   Sampling{.temperature = 1, .top_p = 0.5}}) {
    EXPECT_EQ(choose(view({kNan, 1, kInfinite, 5}), sampling, 0, 0), 2);
    EXPECT_EQ(choose(view({-kInfinite, kNan, 1, -kInfinite}), sampling, 3, 9), 2);
    EXPECT_THAT(message_of<SpecError>([&] {
                  (void)choose(view({kNan, kNan}), sampling, 0, 0);
                }),
                HasSubstr("all 2 are NaN"));
  }
}

TEST(CheckSampling, Refuses) {
  const auto sentence = [](const Sampling& sampling) {
    return message_of<SpecError>([&] { check_sampling(sampling); });
  };
  EXPECT_THAT(sentence({.temperature = -1}), HasSubstr("temperature must be 0 or more and finite, got -1"));
  EXPECT_THAT(sentence({.temperature = std::nan("")}), HasSubstr("got nan"));
  EXPECT_THAT(sentence({.temperature = std::numeric_limits<double>::infinity()}), HasSubstr("got inf"));
  EXPECT_THAT(sentence({.top_k = -2}), HasSubstr("top_k must be 0 or more, got -2"));
  EXPECT_THAT(sentence({.top_p = 0}), HasSubstr("top_p must be above 0 and at most 1, got 0"));
  EXPECT_THAT(sentence({.top_p = 1.5}), HasSubstr("got 1.5"));
  EXPECT_NO_THROW(check_sampling({.temperature = 1, .top_k = 3, .top_p = 1}));
}

std::vector<Ids> drawn(const std::vector<Ids>& prompts, const Sampling& sampling, int threads) {
  const Loaded loaded(tiny("llama"), {}, threads);
  const auto session = loaded.session(static_cast<std::int64_t>(prompts.size()), 64);
  Ids first;
  for (const auto& logits : feed_last(*session, prompts))
    first.push_back(choose(view(logits), sampling, static_cast<std::int64_t>(first.size()), 0));
  std::vector<Ids> ids;
  for (auto& row :
       continue_rows(*session, {.tokens = 20, .first = first, .end_tokens = {}, .sampling = sampling}, {}))
    ids.push_back(row.ids);
  return ids;
}

TEST(ContinueRows, DrawsDependOnSeedRowAndStepAlone) {
  const Sampling sampling{.temperature = 1.5, .top_k = 40, .top_p = 0.95, .seed = 11};
  const std::vector<Ids> prompts = {some_ids(3, 1), some_ids(9, 2), some_ids(1, 3)};
  const std::vector<Ids> got = drawn(prompts, sampling, 1);
  EXPECT_EQ(got, drawn(prompts, sampling, 3));
  EXPECT_EQ(got[0], drawn({prompts[0]}, sampling, 2)[0]);
  Sampling other = sampling;
  other.seed = 12;
  EXPECT_NE(got, drawn(prompts, other, 1));
  EXPECT_NE(got[0], drawn({prompts[0], prompts[0]}, sampling, 1)[1]);
}

TEST(ContinueRows, AnInterruptEndsRowsBeforeTheNextToken) {
  const Loaded loaded(tiny("llama"));
  const auto session = loaded.session(2, 64);
  (void)feed(*session, {{1, 2}, {3}});
  const Ids first = {4, 5};
  std::atomic<bool> interrupt{false};
  int read = 0;
  const auto rows =
      continue_rows(*session, {.tokens = 30, .first = first, .end_tokens = {}, .interrupt = &interrupt},
                    [&](std::int64_t, std::int64_t) { interrupt = ++read >= 5; });
  for (const Continuation& row : rows) {
    EXPECT_EQ(row.ids.size(), 3U);
    EXPECT_EQ(row.stop, Stop::interrupted);
  }
  EXPECT_EQ(session->tokens(0), 4);
}

}  // namespace
}  // namespace locant

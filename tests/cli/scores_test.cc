// SPDX-License-Identifier: Apache-2.0
#include "cli/scores.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "budgets.h"

namespace locant::cli {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
using Rows = std::vector<std::vector<std::int64_t>>;

TEST(PromptScores, PlacesWhatComesInPieces) {
  const Rows rows{{0, 2, 1}, {1}};
  PromptScores scores(rows, 3, {.top = 2, .keep_logits = true, .padding = Padding::left});
  ThreadPool pool(2);
  // four tokens in the order of the concatenated rows, handed over as 1 + 3
  const std::vector<float> logits{0, 0, 0, 1, 2, 3, 3, 1, 2, 5, 5, 4};
  scores.read(0, View<const float, 2>(logits.data(), {1, 3}), pool);
  scores.read(1, View<const float, 2>(logits.data() + 3, {3, 3}), pool);
  EXPECT_FALSE(scores.log_probabilities[0][0].has_value());
  EXPECT_NEAR(*scores.log_probabilities[0][1], -std::log(3.0), 4 * budgets::kLogSumExp);
  EXPECT_NEAR(*scores.log_probabilities[0][2], 2 - std::log(std::exp(1.0) + std::exp(2.0) + std::exp(3.0)),
              4 * budgets::kLogSumExp);
  EXPECT_EQ(scores.choice, (std::vector<std::int64_t>{0, 0})) << "equal logits by smaller id";
  ASSERT_EQ(scores.next[0].size(), 2U);
  EXPECT_EQ(scores.next[0][1].id, 2);
  ASSERT_EQ(scores.logits.size(), 18U);
  EXPECT_EQ(scores.logits[3 + 1], 2);
  EXPECT_TRUE(std::isnan(scores.logits[9]) && std::isnan(scores.logits[14])) << "left padding of row 1";
  EXPECT_EQ(scores.logits[15], 5);
  EXPECT_FALSE(scores.first_non_finite.has_value());
}

TEST(PromptScores, NamesTheFirstPlaceThatIsNotFinite) {
  const Rows rows{{0, 1}, {1}};
  PromptScores scores(rows, 2, {.top = 1});
  ThreadPool pool(1);
  const std::vector<float> logits{0, 0, kNan, 1, kNan, kNan};
  scores.read(0, View<const float, 2>(logits.data(), {3, 2}), pool);
  ASSERT_TRUE(scores.first_non_finite.has_value());
  EXPECT_EQ(scores.first_non_finite->row, 0);
  EXPECT_EQ(scores.first_non_finite->token, 1);
  EXPECT_EQ(scores.choice, (std::vector<std::int64_t>{1, -1}));
}

TEST(Loss, CountsEachTokenAtItsPosition) {
  const std::vector<std::optional<double>> log_probabilities{std::nullopt, -1.0, -2.0, -4.0, -5.0};
  const std::vector<std::int64_t> positions{-2, -1, 31, 32, 300};
  const std::optional<Loss> loss = loss_of(log_probabilities, positions);
  ASSERT_TRUE(loss.has_value());
  EXPECT_DOUBLE_EQ(loss->mean, 3.0);
  ASSERT_EQ(loss->buckets.size(), 4U);
  EXPECT_EQ(loss->buckets[0].to, -1);
  EXPECT_EQ(loss->buckets[1].from, 0);
  EXPECT_EQ(loss->buckets[1].to, 31);
  EXPECT_EQ(loss->buckets[2].to, 63);
  EXPECT_EQ(loss->buckets[3].from, 256);
  EXPECT_EQ(loss->buckets[3].to, 511);
  EXPECT_DOUBLE_EQ(loss->buckets[3].loss, 5.0);
}

TEST(Loss, IsNothingForOneToken) {
  const std::vector<std::optional<double>> log_probabilities{std::nullopt};
  const std::vector<std::int64_t> positions{0};
  EXPECT_FALSE(loss_of(log_probabilities, positions).has_value());
}

}  // namespace
}  // namespace locant::cli

// SPDX-License-Identifier: Apache-2.0
// Greedy continuation: the tokens that one-by-one feeding chooses, rows that end on their own, and ties.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "model/feeding.h"

namespace locant {
namespace {

using namespace tests;
using testing::HasSubstr;

std::int64_t largest(const std::vector<float>& logits) {
  std::size_t best = 0;
  for (std::size_t v = 1; v < logits.size(); ++v) {
    if (logits[v] > logits[best]) best = v;
  }
  return static_cast<std::int64_t>(best);
}

/// `count` greedy tokens of a row, each from the whole row fed anew.
Ids greedy_anew(const Loaded& loaded, Ids ids, std::size_t count) {
  Ids added;
  while (added.size() < count) {
    added.push_back(largest(alone(loaded, ids).back()));
    ids.push_back(added.back());
  }
  return added;
}

struct Continued {
  std::vector<Continuation> rows;
  std::vector<std::pair<std::int64_t, std::int64_t>> read;
};

Continued go_on(Session& session, const Ids& first, std::int64_t tokens, const Ids& ends = {}) {
  Continued result;
  result.rows = continue_rows(session, {.tokens = tokens, .first = first, .end_tokens = ends},
                              [&](std::int64_t row, std::int64_t id) { result.read.emplace_back(row, id); });
  return result;
}

Ids firsts(Session& session, const std::vector<Ids>& prompts) {
  Ids first;
  for (const auto& logits : feed_last(session, prompts)) first.push_back(largest(logits));
  return first;
}

class Continuing : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, Continuing, testing::ValuesIn(four_families()),
                         [](const auto& f) { return f.param; });

TEST_P(Continuing, IsWhatFeedingAnewChooses) {
  const Loaded loaded(tiny(GetParam()), {}, 2);
  const std::vector<Ids> prompts = {some_ids(3, 51), some_ids(11, 52), some_ids(1, 53)};
  const auto session = loaded.session(3, 30);
  const Continued got = go_on(*session, firsts(*session, prompts), 12);
  ASSERT_EQ(got.rows.size(), 3U);
  for (std::size_t row = 0; row < 3; ++row) {
    EXPECT_EQ(got.rows[row].ids, greedy_anew(loaded, prompts[row], 12)) << row;
    EXPECT_EQ(got.rows[row].stop, Stop::length);
    // the last token was chosen and not fed
    EXPECT_EQ(session->tokens(static_cast<std::int64_t>(row)),
              static_cast<std::int64_t>(prompts[row].size()) + 11);
  }
  ASSERT_EQ(got.read.size(), 36U);
  for (std::size_t i = 0; i < 36; ++i) {
    EXPECT_EQ(got.read[i].first, static_cast<std::int64_t>(i % 3));
    EXPECT_EQ(got.read[i].second, got.rows[i % 3].ids[i / 3]);
  }
}

TEST_P(Continuing, RowsEndAtTheirOwnTime) {
  const Loaded loaded(tiny(GetParam()));
  const std::vector<Ids> prompts = {some_ids(5, 54), some_ids(2, 55), some_ids(9, 56)};
  std::vector<Ids> want;
  for (const Ids& prompt : prompts) want.push_back(greedy_anew(loaded, prompt, 14));
  const Ids ends = {want[0][4], want[2][0]};
  const auto session = loaded.session(3, 40);
  const Continued got = go_on(*session, firsts(*session, prompts), 14, ends);
  for (std::size_t row = 0; row < 3; ++row) {
    Ids cut;
    bool ended = false;
    for (std::size_t i = 0; i < 14 && !ended; ++i) {
      cut.push_back(want[row][i]);
      ended = want[row][i] == ends[0] || want[row][i] == ends[1];
    }
    EXPECT_EQ(got.rows[row].ids, cut) << row;
    EXPECT_EQ(got.rows[row].stop, ended ? Stop::end_token : Stop::length) << row;
  }
  EXPECT_EQ(got.rows[2].ids.size(), 1U);
}

TEST(Continue, NoneOne) {
  const Loaded loaded(tiny("llama"));
  const auto session = loaded.session(2, 8);
  (void)feed(*session, {{1, 2}, {3}});
  const Continued none = go_on(*session, {4, 5}, 0);
  EXPECT_TRUE(none.rows.at(0).ids.empty());
  EXPECT_TRUE(none.rows.at(1).ids.empty());
  EXPECT_TRUE(none.read.empty());
  const Continued one = go_on(*session, {4, 5}, 1);
  EXPECT_EQ(one.rows.at(0).ids, Ids{4});
  EXPECT_EQ(one.rows.at(1).ids, Ids{5});
  EXPECT_EQ(session->tokens(0), 2);
}

TEST(Continue, AnEndTokenAtTheLengthIsAnEnd) {
  const Loaded loaded(tiny("llama"));
  const auto session = loaded.session(1, 8);
  (void)feed(*session, {{1, 2}});
  EXPECT_EQ(go_on(*session, {4}, 1, {4}).rows.at(0).stop, Stop::end_token);
}

TEST(Continue, WithoutAReader) {
  const Loaded loaded(tiny("llama"));
  const auto session = loaded.session(1, 8);
  const Ids first = firsts(*session, {{1, 2}});
  EXPECT_EQ(continue_rows(*session, {.tokens = 3, .first = first, .end_tokens = {}}, {}).at(0).ids,
            greedy_anew(loaded, {1, 2}, 3));
}

TEST(Continue, Refuses) {
  const Loaded loaded(tiny("llama"));
  const auto session = loaded.session(2, 4);
  (void)feed(*session, {{1, 2}, {3}});
  EXPECT_THAT(message_of<SpecError>([&] { (void)go_on(*session, {4}, 2); }), HasSubstr("2 rows, got 1"));
  EXPECT_THAT(message_of<SpecError>([&] { (void)go_on(*session, {4, 5}, -1); }), HasSubstr("got -1"));
  EXPECT_THROW((void)go_on(*session, {4, kVocab}, 2), std::out_of_range);
  EXPECT_THROW((void)go_on(*session, {4, 5}, 9), std::out_of_range);
}

TEST(ChooseGreedy, TakesTheLargestThenTheSmallestId) {
  const auto choose = [](std::vector<float> logits) {
    return choose_greedy({logits.data(), {static_cast<std::int64_t>(logits.size())}});
  };
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  EXPECT_EQ(choose({1, 3, 2}), 1);
  EXPECT_EQ(choose({3, 1, 3, 3}), 0);
  EXPECT_EQ(choose({1, 3, 3}), 1);
  EXPECT_EQ(choose({-0.0F, 0.0F}), 0);
  EXPECT_EQ(choose({kNan, -5, kNan}), 1);
  EXPECT_EQ(choose({1, kInfinite, 2}), 1);
  EXPECT_EQ(choose({-kInfinite, -kInfinite}), 0);
  std::vector<float> wide(1000, 1);
  wide[700] = wide[900] = 2;
  EXPECT_EQ(choose(wide), 700);
  EXPECT_THAT(message_of<SpecError>([&] { (void)choose({kNan, kNan}); }), HasSubstr("all 2 are NaN"));
}

}  // namespace
}  // namespace locant

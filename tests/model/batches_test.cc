// SPDX-License-Identifier: Apache-2.0
// One answer however a row is fed: at once, token by token, in chunks, among neighbours, by any number of
// threads.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "budgets.h"
#include "model/feeding.h"

namespace locant {
namespace {

using namespace tests;

class Batches : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, Batches, testing::ValuesIn(four_families()),
                         [](const auto& f) { return f.param; });

TEST_P(Batches, TokenByTokenIsAtOnce) {
  const Loaded loaded(tiny(GetParam()));
  const Ids ids = some_ids(40, 11);
  const auto session = loaded.session(1, 40);
  Logits steps;
  for (const std::int64_t id : ids) {
    EXPECT_EQ(session->next_position(0), static_cast<std::int64_t>(steps.size()));
    EXPECT_EQ(session->tokens(0), static_cast<std::int64_t>(steps.size()));
    steps.push_back(feed(*session, {{id}})[0].at(0));
  }
  EXPECT_EQ(session->tokens(0), 40);
  EXPECT_LE(distance(steps, alone(loaded, ids)), budgets::kConformancePadding);
}

TEST_P(Batches, AnyChunkingIsAtOnce) {
  const Loaded loaded(tiny(GetParam()), {}, 2);
  const Ids ids = some_ids(290, 12);
  const Logits want = alone(loaded, ids);
  std::mt19937_64 random(13);
  for (int round = 0; round < 3; ++round) {
    const auto session = loaded.session(1, 290);
    Logits got;
    while (got.size() < ids.size()) {
      const std::size_t count = std::min<std::size_t>(1 + random() % 90, ids.size() - got.size());
      const Logits more = feed(*session, {part(ids, got.size(), count)})[0];
      got.insert(got.end(), more.begin(), more.end());
    }
    EXPECT_LE(distance(got, want), budgets::kConformancePadding);
  }
}

// Rows of very different length, a call cut into several passes, rows that pause.
TEST_P(Batches, ARowAloneIsARowAmongOthers) {
  const Loaded loaded(tiny(GetParam()), {}, 2);
  const std::vector<Ids> rows = {some_ids(3, 14), some_ids(290, 15), some_ids(100, 16), some_ids(1, 17),
                                 some_ids(57, 18)};
  const auto session = loaded.session(5, 290);
  std::vector<Logits> got(rows.size());
  std::mt19937_64 random(19);
  for (bool more = true; more;) {
    std::vector<Ids> call;
    more = false;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const std::size_t left = rows[row].size() - got[row].size();
      const std::size_t count = std::min<std::size_t>(random() % 3 == 0 ? 0 : random() % 200, left);
      call.push_back(part(rows[row], got[row].size(), count));
      more = more || count < left;
    }
    const std::vector<Logits> answer = feed(*session, call);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      got[row].insert(got[row].end(), answer[row].begin(), answer[row].end());
    }
  }
  for (std::size_t row = 0; row < rows.size(); ++row) {
    EXPECT_LE(distance(got[row], alone(loaded, rows[row])), budgets::kConformancePadding) << row;
    EXPECT_EQ(session->tokens(static_cast<std::int64_t>(row)), static_cast<std::int64_t>(rows[row].size()));
  }
}

TEST_P(Batches, LastOfRowIsTheLastOfAll) {
  const Loaded loaded(tiny(GetParam()));
  const std::vector<Ids> rows = {some_ids(5, 21), {}, some_ids(280, 22), some_ids(1, 23), {}};
  const auto all = loaded.session(5, 281);
  const auto last = loaded.session(5, 281);
  const std::vector<Logits> want = feed(*all, rows);
  const Logits got = feed_last(*last, rows);
  ASSERT_EQ(got.size(), 3U);
  EXPECT_EQ(got[0], want[0].back());
  EXPECT_EQ(got[1], want[2].back());
  EXPECT_EQ(got[2], want[3].back());
  const std::vector<Ids> step = {{}, {4}, {5}, {}, {6}};
  const std::vector<Logits> want_step = feed(*all, step);
  EXPECT_EQ(feed_last(*last, step), (Logits{want_step[1][0], want_step[2][0], want_step[4][0]}));
}

TEST_P(Batches, ACallWithoutTokensDoesNothing) {
  const Loaded loaded(tiny(GetParam()));
  const Ids ids = some_ids(6, 24);
  const auto session = loaded.session(2, 6);
  EXPECT_TRUE(feed_last(*session, {{}, {}}).empty());
  (void)feed(*session, {{}, part(ids, 0, 3)});
  EXPECT_TRUE(feed(*session, {{}, {}})[1].empty());
  EXPECT_EQ(session->tokens(0), 0);
  const Logits rest = feed(*session, {{}, part(ids, 3, 3)})[1];
  const Logits want = alone(loaded, ids);
  EXPECT_LE(distance(rest, Logits(want.begin() + 3, want.end())), budgets::kConformancePadding);
}

TEST_P(Batches, AnyNumberOfThreadsGivesTheSameBits) {
  const Checkpoint checkpoint = tiny(GetParam());
  const std::vector<Ids> rows = {some_ids(130, 25), some_ids(7, 26), some_ids(64, 27)};
  std::vector<std::vector<Logits>> prompt, step;
  for (const int threads : {1, 2, 3}) {
    const Loaded loaded(checkpoint, {}, threads);
    const auto session = loaded.session(3, 140);
    prompt.push_back(feed(*session, rows));
    step.push_back(feed(*session, {{1}, {2}, {3}}));
  }
  for (std::size_t other : {1U, 2U}) {
    EXPECT_EQ(prompt[other], prompt[0]);
    EXPECT_EQ(step[other], step[0]);
  }
}

TEST_P(Batches, DefaultPositionsAreCountedOnes) {
  const Loaded loaded(tiny(GetParam()));
  const auto counted = loaded.session(2, 10);
  const auto given = loaded.session(2, 10);
  EXPECT_EQ(feed(*counted, {{1, 2, 3}, {4, 5}}), feed(*given, {{1, 2, 3}, {4, 5}}, {{0, 1, 2}, {0, 1}}));
  EXPECT_EQ(feed(*counted, {{6}, {7, 8}}), feed(*given, {{6}, {7, 8}}, {{3}, {2, 3}}));
  EXPECT_EQ(given->next_position(0), 4);
}

TEST_P(Batches, PositionsCountOnFromTheLargest) {
  const Loaded loaded(tiny(GetParam()));
  const auto session = loaded.session(1, 10);
  const auto given = loaded.session(1, 10);
  (void)feed(*session, {{1, 2, 3}}, {{5, 20, 7}});
  (void)feed(*given, {{1, 2, 3}}, {{5, 20, 7}});
  EXPECT_EQ(session->next_position(0), 21);
  EXPECT_EQ(feed(*session, {{4, 5}}), feed(*given, {{4, 5}}, {{21, 22}}));
}

TEST_P(Batches, AForkGoesItsOwnWay) {
  const Loaded loaded(tiny(GetParam()));
  const Ids ids = some_ids(9, 28);
  const auto session = loaded.session(2, 20);
  (void)feed(*session, {ids, {1, 2}});
  const std::unique_ptr<RuntimeSession> forked = session->fork();
  auto* const copy = dynamic_cast<Session*>(forked.get());
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->tokens(0), 9);
  EXPECT_EQ(copy->next_position(1), 2);
  const auto undisturbed = loaded.session(2, 20);
  (void)feed(*undisturbed, {ids, {1, 2}});
  (void)feed(*copy, {{50, 51, 52}, {53}});
  EXPECT_EQ(session->tokens(0), 9);
  EXPECT_EQ(feed(*session, {{7, 8}, {9}}), feed(*undisturbed, {{7, 8}, {9}}));
  EXPECT_EQ(copy->tokens(0), 12);
  const auto other = loaded.session(2, 20);
  (void)feed(*other, {ids, {1, 2}});
  (void)feed(*other, {{50, 51, 52}, {53}});
  EXPECT_EQ(feed(*copy, {{3}, {}}), feed(*other, {{3}, {}}));
}

TEST_P(Batches, AFullCacheIsFull) {
  const Loaded loaded(tiny(GetParam()));
  const Ids ids = some_ids(12, 29);
  const auto session = loaded.session(1, 12);
  EXPECT_EQ(distance(feed(*session, {ids})[0], alone(loaded, ids)), 0);
  EXPECT_THROW((void)feed(*session, {{1}}), std::out_of_range);
  EXPECT_EQ(session->tokens(0), 12);
}

}  // namespace
}  // namespace locant

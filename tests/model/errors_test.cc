// SPDX-License-Identifier: Apache-2.0
// What a session refuses, in which words, and that nothing changes: the right call afterwards answers as if
// the wrong one had never been made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "model/feeding.h"

namespace locant {
namespace {

using namespace tests;
using testing::AllOf;
using testing::HasSubstr;

class Refusals : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, Refusals, testing::ValuesIn(four_families()),
                         [](const auto& f) { return f.param; });

template <class Error>
std::string refused(Session& session, const std::vector<Ids>& rows, const std::vector<Ids>& positions = {}) {
  return message_of<Error>([&] { (void)feed(session, rows, positions); });
}

TEST_P(Refusals, NamesTheTokenRowAndPosition) {
  const Loaded loaded(tiny(GetParam()));
  const auto session = loaded.session(2, 10);
  EXPECT_EQ(refused<std::out_of_range>(*session, {{1, 2}, {3, 4, 5, 97}}),
            "run: token 97 at row 1, position 3 is outside vocab 97");
  EXPECT_EQ(refused<std::out_of_range>(*session, {{-1, 2}, {3}}),
            "run: token -1 at row 0, position 0 is outside vocab 97");
  (void)feed(*session, {{1, 2}, {3}});
  EXPECT_EQ(refused<std::out_of_range>(*session, {{5}, {1, 1000000}}),
            "run: token 1000000 at row 1, position 2 is outside vocab 97");
  EXPECT_EQ(refused<std::out_of_range>(*session, {{5}, {98}}, {{9}, {33}}),
            "run: token 98 at row 1, position 33 is outside vocab 97");
}

TEST_P(Refusals, NothingChangesWhenACallIsRefused) {
  const Loaded loaded(tiny(GetParam()));
  const auto session = loaded.session(2, 8);
  const auto untouched = loaded.session(2, 8);
  (void)feed(*session, {{1, 2, 3}, {4}});
  (void)feed(*untouched, {{1, 2, 3}, {4}});
  EXPECT_THROW((void)feed(*session, {{7, 8}, {9, 97}}), std::out_of_range);
  EXPECT_THROW((void)feed(*session, {{7}, {1, 2, 3, 4, 5, 6, 7, 8}}), std::out_of_range);
  EXPECT_THROW((void)feed(*session, {{7}}), SpecError);
  EXPECT_THROW((void)feed(*session, {{7}, {8}}, {{1}, {2, 3}}), SpecError);
  EXPECT_EQ(session->tokens(0), 3);
  EXPECT_EQ(session->tokens(1), 1);
  EXPECT_EQ(session->next_position(1), 1);
  EXPECT_EQ(feed(*session, {{5, 6}, {7, 8}}), feed(*untouched, {{5, 6}, {7, 8}}));
}

TEST_P(Refusals, NamesTheCapacity) {
  const Loaded loaded(tiny(GetParam()));
  const auto session = loaded.session(2, 4);
  (void)feed(*session, {{1}, {2, 3, 4}});
  EXPECT_THAT(
      refused<std::out_of_range>(*session, {{1}, {2, 3}}),
      AllOf(HasSubstr("run: row 1 "), HasSubstr("4 tokens"), HasSubstr("holds 3"), HasSubstr("got 2")));
}

TEST_P(Refusals, CountsMustFit) {
  const Loaded loaded(tiny(GetParam()));
  const auto session = loaded.session(2, 4);
  const LogitsReader none = [](std::int64_t, View<const float, 2>) { FAIL(); };
  const auto says = [&](const FeedCall& call) {
    return message_of<SpecError>([&] { session->feed(call, LogitsOf::all, none); });
  };
  const Ids ids = {1, 2, 3};
  const Ids three = {1, 1, 1}, negative = {-1, 4}, two = {1, 1}, fits = {1, 2}, positions = {0, 0};
  EXPECT_THAT(says({.ids = ids, .row_tokens = three, .positions = {}}), HasSubstr("2 rows, got 3"));
  EXPECT_THAT(says({.ids = ids, .row_tokens = negative, .positions = {}}),
              HasSubstr("row 0 must have 0 tokens or more, got -1"));
  EXPECT_THAT(says({.ids = ids, .row_tokens = two, .positions = {}}),
              HasSubstr("the 2 tokens of the rows, got 3"));
  EXPECT_THAT(says({.ids = ids, .row_tokens = fits, .positions = positions}),
              HasSubstr("positions must be [1, 3], got 2"));
  EXPECT_THAT(says({.ids = ids, .row_tokens = fits, .positions = {}, .axes = 2}), HasSubstr("axes"));
  EXPECT_THAT(says({.ids = ids, .row_tokens = fits, .positions = {}, .axes = 0}), HasSubstr("axes"));
  EXPECT_EQ(session->tokens(0), 0);
}

TEST(Tables, EndWhereTheyEnd) {
  const Loaded loaded(tiny("gpt2"));
  const auto session = loaded.session(1, 300);
  EXPECT_THAT(refused<std::out_of_range>(*session, {{1, 2}}, {{299, 300}}),
              AllOf(HasSubstr("300"), HasSubstr("299")));
  EXPECT_THAT(refused<std::out_of_range>(*session, {{1}}, {{-1}}), HasSubstr("-1"));
  EXPECT_EQ(feed(*session, {{1}}, {{299}})[0].size(), 1U);
  EXPECT_EQ(session->next_position(0), 300);
  EXPECT_THAT(refused<std::out_of_range>(*session, {{1}}), HasSubstr("300"));
  EXPECT_EQ(session->tokens(0), 1);
}

TEST(Tables, SessionsPastTheEndAreRefused) {
  const Loaded loaded(tiny("gpt2"));
  EXPECT_THAT(message_of<std::out_of_range>([&] { (void)loaded.session(1, 301); }),
              AllOf(HasSubstr("301 tokens"), HasSubstr("299")));
}

TEST(Sessions, NeedRowsCapacityAndACacheDtype) {
  const Loaded loaded(tiny("llama"));
  EXPECT_THROW((void)loaded.session(0, 8), SpecError);
  EXPECT_THROW((void)loaded.session(1, 0), SpecError);
  EXPECT_THROW((void)loaded.session(-1, -1), SpecError);
  for (const DType dtype : {DType::f64, DType::u8, DType::i64, DType::boolean}) {
    EXPECT_THAT(message_of<SpecError>([&] { (void)loaded.session(1, 8, dtype); }), HasSubstr(name_of(dtype)));
  }
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROW((void)loaded.session(1, kHuge), SpecError);
  EXPECT_THROW((void)loaded.session(kHuge, 1), SpecError);
  EXPECT_THROW((void)loaded.session(kHuge, kHuge), SpecError);
}

// Positions whose differences would overflow are refused; nearer ones are counted on from.
TEST(Positions, AtTheEndsOfTheirType) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (const std::string& family : four_families()) {
    const Loaded loaded(tiny(family));
    const auto session = loaded.session(1, 4);
    for (const std::int64_t position : {kMost, -kMost - 1}) {
      EXPECT_THAT(refused<std::out_of_range>(*session, {{1, 2}}, {{0, position}}),
                  HasSubstr("position " + std::to_string(position)));
    }
    EXPECT_EQ(session->tokens(0), 0);
  }
  constexpr std::int64_t kFar = 1LL << 40;
  const Loaded loaded(tiny("llama"));
  const auto session = loaded.session(1, 4);
  (void)feed(*session, {{1, 2}}, {{-kFar, kFar}});
  EXPECT_EQ(session->next_position(0), kFar + 1);
  EXPECT_EQ(feed(*session, {{3}})[0].size(), 1U);
}

}  // namespace
}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// Caches that forget or are paged: what is kept and how it is counted, slots without collisions, refusals.
#include <limits>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "locant/positions.h"
#include "positions/sentences.h"

namespace locant {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing_text::sentence;
using Ids = std::vector<std::int64_t>;

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

TEST(CachedTokens, SinksAndTheLatest) {
  const CacheWindow kept{.sinks = 2, .window = 3};
  EXPECT_THAT(cached_tokens(4, kept).tokens, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(cached_tokens(9, kept).tokens, ElementsAre(0, 1, 6, 7, 8));
  EXPECT_THAT(cached_tokens(9, kept).positions, ElementsAre(0, 1, 6, 7, 8));
  const CacheWindow counted{.sinks = 2, .window = 3, .recount = Recount::in_cache};
  EXPECT_THAT(cached_tokens(9, counted).tokens, ElementsAre(0, 1, 6, 7, 8));
  EXPECT_THAT(cached_tokens(9, counted).positions, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(cached_tokens(9, {.window = 1}).tokens, ElementsAre(8));
  EXPECT_THAT(cached_tokens(3, {}).tokens, ElementsAre(0, 1, 2));
  EXPECT_THAT(cached_tokens(0, kept).tokens, IsEmpty());
}

TEST(CachedTokens, KeepTheSameDistancesInsideTheWindow) {
  for (const std::int64_t sinks : {0, 1, 4}) {
    for (const std::int64_t window : {1, 7, 256}) {
      for (const std::int64_t seen : {1, 255, 257, 2049, 5000}) {
        const CachedTokens kept = cached_tokens(seen, {sinks, window, Recount::kept});
        const CachedTokens counted = cached_tokens(seen, {sinks, window, Recount::in_cache});
        EXPECT_EQ(kept.tokens, counted.tokens);
        EXPECT_EQ(kept.tokens, kept.positions);
        EXPECT_EQ(static_cast<std::int64_t>(kept.tokens.size()), std::min(seen, sinks + window));
        EXPECT_EQ(kept.tokens.back(), seen - 1);
        const auto in_window = static_cast<std::size_t>(std::min(seen, window));
        for (std::size_t back = 0; back < in_window; ++back) {
          const std::size_t i = kept.tokens.size() - 1 - back;
          EXPECT_EQ(kept.positions.back() - kept.positions[i],
                    counted.positions.back() - counted.positions[i]);
        }
      }
    }
  }
}

TEST(CachedTokens, DecodingEvictsOneAtATime) {
  const CacheWindow window{.sinks = 4, .window = 16};
  for (std::int64_t seen = 1; seen < 300; ++seen) {
    Ids before = cached_tokens(seen, window).tokens;
    before.push_back(seen);
    if (static_cast<std::int64_t>(before.size()) > 20) before.erase(before.begin() + 4);
    EXPECT_EQ(cached_tokens(seen + 1, window).tokens, before);
  }
}

TEST(PagedSlots, FollowTheTable) {
  EXPECT_THAT(paged_slots(Ids{0, 15, 16, 33, -1}, Ids{7, 2, 0}, 16), ElementsAre(112, 127, 32, 1, -1));
  EXPECT_THAT(paged_slots({}, {}, 1), IsEmpty());
  // Every slot of every page once.
  const Ids table = {9, 4, 130, 0, 12, 77, 3, 1, 2};
  const Ids slots = paged_slots(text_positions(9 * 256), table, 256);
  EXPECT_EQ(std::set<std::int64_t>(slots.begin(), slots.end()).size(), slots.size());
}

TEST(RingSlots, HoldWhatTheWindowKeeps) {
  const CacheWindow window{.sinks = 2, .window = 3};
  EXPECT_THAT(ring_slots(Ids{0, 1, 2, 3, 4, 5, 6, -1}, window), ElementsAre(0, 1, 2, 3, 4, 2, 3, -1));
  for (const std::int64_t seen : {1, 5, 255, 2049}) {
    const CachedTokens kept = cached_tokens(seen, window);
    const Ids slots = ring_slots(kept.positions, window);
    EXPECT_EQ(std::set<std::int64_t>(slots.begin(), slots.end()).size(), slots.size()) << seen;
  }
}

TEST(CachePositions, Refuse) {
  EXPECT_EQ(sentence<SpecError>([] { (void)cached_tokens(-1, {}); }),
            "cached_tokens: seen must be at least 0, got -1");
  EXPECT_EQ(sentence<SpecError>([] { (void)cached_tokens(1, {.sinks = -2}); }),
            "cached_tokens: sinks must be at least 0, got -2");
  EXPECT_EQ(sentence<SpecError>([] { (void)cached_tokens(1, {.window = -3}); }),
            "cached_tokens: window must be at least 0 and fit in 64 bits beside 0 sinks, got -3");
  EXPECT_EQ(
      sentence<SpecError>([] { (void)ring_slots(Ids{0}, {.sinks = 1, .window = kMax}); }),
      "ring_slots: window must be at least 1 and fit in 64 bits beside 1 sinks, got 9223372036854775807");
  EXPECT_EQ(sentence<SpecError>([] { (void)ring_slots(Ids{0}, {}); }),
            "ring_slots: window must be at least 1 and fit in 64 bits beside 0 sinks, got 0");
  EXPECT_EQ(sentence<SpecError>([] { (void)paged_slots(Ids{0}, Ids{0}, 0); }),
            "paged_slots: page must be at least 1 token, got 0");
  EXPECT_EQ(sentence<std::out_of_range>([] {
              (void)paged_slots(Ids{32}, Ids{0, 1}, 16);
            }),
            "paged_slots: position 32 is in page 2 of a table of 2 pages of 16");
  EXPECT_EQ(sentence<SpecError>([] { (void)paged_slots(Ids{0}, Ids{-1}, 16); }),
            "paged_slots: a block is at least 0 and its slots fit in 64 bits, got -1 at page 0");
  EXPECT_EQ(
      sentence<SpecError>([] { (void)paged_slots(Ids{0}, Ids{kMax}, 16); }),
      "paged_slots: a block is at least 0 and its slots fit in 64 bits, got 9223372036854775807 at page 0");
}

}  // namespace
}  // namespace locant

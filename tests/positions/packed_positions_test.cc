// SPDX-License-Identifier: Apache-2.0
// Packed documents and chunked prompts: packing equals separate rows, chunks join, the three notations agree.
#include <limits>
#include <random>

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

Ids random_boundaries(std::mt19937_64& random, std::size_t documents, std::uint64_t least) {
  Ids boundaries{0};
  for (std::size_t d = 0; d < documents; ++d) {
    boundaries.push_back(boundaries.back() + static_cast<std::int64_t>(least + random() % 700));
  }
  return boundaries;
}

TEST(PackedPositions, RestartAtEveryDocument) {
  EXPECT_THAT(packed_positions(Ids{0, 3, 3, 5}), ElementsAre(0, 1, 2, 0, 1));
  EXPECT_THAT(packed_positions(Ids{0, 2, 3}, Ids{2048, 5}), ElementsAre(2048, 2049, 5));
  EXPECT_THAT(packed_positions(Ids{0}), IsEmpty());
  EXPECT_THAT(packed_positions(Ids{0, 1}, Ids{kMax - 1}), ElementsAre(kMax - 1));
}

TEST(PackedPositions, PackingEqualsSeparateRows) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 20; ++round) {
    const Ids boundaries = random_boundaries(random, 9, 0);
    const Ids packed = packed_positions(boundaries);
    Ids separate;
    for (std::size_t d = 0; d + 1 < boundaries.size(); ++d) {
      const Ids row = text_positions(boundaries[d + 1] - boundaries[d]);
      separate.insert(separate.end(), row.begin(), row.end());
    }
    EXPECT_EQ(packed, separate);
  }
}

TEST(PackedPositions, ChunksOfARaggedBatchJoin) {
  // Three prompts prefilled together, a budget of 256 tokens a step, each step a packed row.
  const Ids lengths = {700, 3, 2300};
  std::vector<Ids> seen(lengths.size());
  for (bool more = true; more;) {
    more = false;
    Ids boundaries{0};
    Ids starts;
    for (std::size_t d = 0; d < lengths.size(); ++d) {
      const auto done = static_cast<std::int64_t>(seen[d].size());
      starts.push_back(done);
      boundaries.push_back(boundaries.back() + std::min<std::int64_t>(256, lengths[d] - done));
    }
    const Ids step = packed_positions(boundaries, starts);
    for (std::size_t d = 0; d < lengths.size(); ++d) {
      for (std::int64_t t = boundaries[d]; t < boundaries[d + 1]; ++t) {
        seen[d].push_back(step[static_cast<std::size_t>(t)]);
      }
      more = more || static_cast<std::int64_t>(seen[d].size()) < lengths[d];
    }
  }
  for (std::size_t d = 0; d < lengths.size(); ++d) EXPECT_EQ(seen[d], text_positions(lengths[d]));
}

TEST(PackedPositions, BoundariesSegmentsAndPositionsSayTheSame) {
  std::mt19937_64 random(12);
  for (int round = 0; round < 20; ++round) {
    const Ids boundaries = random_boundaries(random, 1 + random() % 8, 1);
    EXPECT_EQ(segments_to_boundaries(boundaries_to_segments(boundaries)), boundaries);
    EXPECT_EQ(positions_to_boundaries(packed_positions(boundaries)), boundaries);
  }
  EXPECT_THAT(boundaries_to_segments(Ids{0, 2, 2, 3}), ElementsAre(0, 0, 2));
  EXPECT_THAT(segments_to_boundaries(Ids{7, 7, -1, 7}), ElementsAre(0, 2, 3, 4));
  EXPECT_THAT(segments_to_boundaries({}), ElementsAre(0));
  EXPECT_THAT(positions_to_boundaries({}), ElementsAre(0));
  EXPECT_THAT(positions_to_boundaries(Ids{kMax, kMax, 0}), ElementsAre(0, 1, 2, 3));
}

TEST(PackedPositions, PrefillChunksCoverThePromptOnce) {
  for (const std::int64_t chunk : {1, 255, 256, 2048, 5000}) {
    std::int64_t next = 0;
    Ids joined;
    for (const TokenRun& run : prefill_chunks(4097, chunk)) {
      EXPECT_EQ(run.first, next);
      EXPECT_GE(run.count, 1);
      EXPECT_LE(run.count, chunk);
      next += run.count;
      const Ids part = text_positions(run.count, run.first);
      joined.insert(joined.end(), part.begin(), part.end());
    }
    EXPECT_EQ(joined, text_positions(4097));
  }
  EXPECT_THAT(prefill_chunks(0, 8), IsEmpty());
  EXPECT_THAT(prefill_chunks(9, 8), ElementsAre(TokenRun{0, 8}, TokenRun{8, 1}));
}

TEST(PackedPositions, Refuse) {
  EXPECT_EQ(sentence<SpecError>([] { (void)packed_positions({}); }),
            "packed_positions: boundaries begin with 0, got none");
  EXPECT_EQ(sentence<SpecError>([] {
              (void)packed_positions(Ids{1, 2});
            }),
            "packed_positions: boundaries begin with 0, got 1");
  EXPECT_EQ(sentence<SpecError>([] {
              (void)boundaries_to_segments(Ids{0, 3, 2});
            }),
            "boundaries_to_segments: boundaries never fall, got 2 after 3");
  EXPECT_EQ(sentence<SpecError>([] {
              (void)packed_positions(Ids{0, 3}, Ids{1, 2});
            }),
            "packed_positions: starts are one per document or none, got 2 for 1 documents");
  EXPECT_EQ(sentence<SpecError>([] {
              (void)packed_positions(Ids{0, 2}, Ids{kMax});
            }),
            "packed_positions: positions must fit in 64 bits, got start 9223372036854775807 and 2 tokens");
  EXPECT_EQ(sentence<SpecError>([] { (void)prefill_chunks(-1, 4); }),
            "prefill_chunks: tokens must be at least 0, got -1");
  EXPECT_EQ(sentence<SpecError>([] { (void)prefill_chunks(4, 0); }),
            "prefill_chunks: chunk must be at least 1, got 0");
}

}  // namespace
}  // namespace locant

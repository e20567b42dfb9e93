// SPDX-License-Identifier: Apache-2.0
// Position ids: chunks join, padding is invisible, start shifts, and what is refused.
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "positions/golden.h"
#include "positions/sentences.h"

namespace locant {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing_text::sentence;
using Ids = std::vector<std::int64_t>;

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

Ids masked(Ids mask, std::int64_t columns, std::int64_t start, std::int64_t pad_value) {
  Ids out(mask.size(), -9);
  const View<std::int64_t, 2> in(mask.data(), {static_cast<std::int64_t>(mask.size()) / columns, columns});
  masked_positions(in, start, pad_value, View<std::int64_t, 2>(out.data(), in.shape()));
  return out;
}

TEST(TextPositions, CountFromStart) {
  EXPECT_THAT(text_positions(3), ElementsAre(0, 1, 2));
  EXPECT_THAT(text_positions(3, 2047), ElementsAre(2047, 2048, 2049));
  EXPECT_THAT(text_positions(2, -1), ElementsAre(-1, 0));
  EXPECT_THAT(text_positions(0, 5), IsEmpty());
  EXPECT_THAT(text_positions(1, kMax - 1), ElementsAre(kMax - 1));
}

TEST(TextPositions, ChunksJoin) {
  for (const std::int64_t cut : {0, 1, 255, 256, 2048, 3000}) {
    Ids joined = text_positions(cut, 7);
    const Ids rest = cut == 0 ? text_positions(3000, 7) : continued_positions(joined.back(), 3000 - cut);
    joined.insert(joined.end(), rest.begin(), rest.end());
    EXPECT_EQ(joined, text_positions(3000, 7));
  }
}

TEST(TextPositions, ContinueAfterTheLast) {
  EXPECT_THAT(continued_positions(-1, 2), ElementsAre(0, 1));
  EXPECT_THAT(continued_positions(2048, 2), ElementsAre(2049, 2050));
  EXPECT_THAT(continued_positions(4, 0), IsEmpty());
}

TEST(MaskedPositions, LeftRightAndHoles) {
  EXPECT_THAT(masked({0, 0, 1, 1, 1, 1, 1, 1}, 4, 0, 0), ElementsAre(0, 0, 0, 1, 0, 1, 2, 3));
  EXPECT_THAT(masked({1, 1, 0, 0}, 4, 0, 1), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(masked({1, 0, 1, 0, 1}, 5, 2048, -1), ElementsAre(2048, -1, 2049, -1, 2050));
  EXPECT_THAT(masked({0, 0}, 2, 9, 3), ElementsAre(3, 3));
}

TEST(MaskedPositions, PaddingIsInvisibleAndStartShifts) {
  std::mt19937_64 random(5);
  Ids mask(6 * 700);
  for (std::int64_t& one : mask) one = static_cast<std::int64_t>(random() % 2);
  const Ids at_zero = masked(mask, 700, 0, -7);
  const Ids at_start = masked(mask, 700, 4097, -7);
  for (std::size_t b = 0; b < 6; ++b) {
    Ids content;
    for (std::size_t t = b * 700; t < (b + 1) * 700; ++t) {
      if (mask[t] == 1) {
        content.push_back(at_zero[t]);
        EXPECT_EQ(at_start[t], at_zero[t] + 4097);
      } else {
        EXPECT_EQ(at_zero[t], -7);
      }
    }
    EXPECT_EQ(content, text_positions(static_cast<std::int64_t>(content.size())));
  }
}

/// Rows of lists as one row-major vector.
Ids flat(const golden::Json& rows) {
  Ids all;
  for (const auto& row : rows) {
    const Ids part = golden::integers(row);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

TEST(MaskedTailPositions, AreThoseOfTransformersOpt) {
  for (const auto& one : golden::cases("hf_masked_tail_ids")) {
    SCOPED_TRACE(one.at("mask").dump());
    const auto past = one.at("past").get<std::int64_t>();
    const auto rows = static_cast<std::int64_t>(one.at("mask").size());
    const auto columns = static_cast<std::int64_t>(one.at("mask")[0].size());
    Ids mask = flat(one.at("mask"));
    Ids out(static_cast<std::size_t>(rows * (columns - past)), -9);
    masked_tail_positions(View<std::int64_t, 2>(mask.data(), {rows, columns}), -1,
                          View<std::int64_t, 2>(out.data(), {rows, columns - past}));
    EXPECT_EQ(out, flat(one.at("positions")));
  }
}

TEST(MaskedTailPositions, ChunksJoin) {
  std::mt19937_64 random(7);
  Ids mask(3 * 900);
  for (std::int64_t& one : mask) one = static_cast<std::int64_t>(random() % 3 != 0);
  const Ids whole = masked(mask, 900, 0, -5);
  const View<std::int64_t, 2> all(mask.data(), {3, 900});
  for (const std::int64_t cut : {0, 1, 256, 899, 900}) {
    Ids out(static_cast<std::size_t>(3 * (900 - cut)), -9);
    masked_tail_positions(all, -5, View<std::int64_t, 2>(out.data(), {3, 900 - cut}));
    for (std::int64_t b = 0; b < 3; ++b) {
      for (std::int64_t t = cut; t < 900; ++t) {
        EXPECT_EQ(out[static_cast<std::size_t>(b * (900 - cut) + t - cut)],
                  whole[static_cast<std::size_t>(b * 900 + t)]);
      }
    }
  }
}

Ids pad_offset(Ids ids, std::int64_t columns, std::int64_t pad_id, std::int64_t past = 0) {
  Ids out(ids.size(), -9);
  const View<std::int64_t, 2> in(ids.data(), {static_cast<std::int64_t>(ids.size()) / columns, columns});
  pad_offset_positions(in, pad_id, past, View<std::int64_t, 2>(out.data(), in.shape()));
  return out;
}

TEST(PadOffsetPositions, AreThoseOfTransformers) {
  for (const auto& one : golden::cases("hf_pad_offset_ids")) {
    SCOPED_TRACE(one.at("ids").dump());
    const auto columns = static_cast<std::int64_t>(one.at("ids")[0].size());
    EXPECT_EQ(pad_offset(flat(one.at("ids")), columns, one.at("pad_id").get<std::int64_t>(),
                         one.at("past").get<std::int64_t>()),
              flat(one.at("positions")));
  }
}

TEST(PadOffsetPositions, AreMaskedPositionsFromPadIdPlusOne) {
  std::mt19937_64 random(8);
  for (const std::int64_t pad_id : {0, 1, 3}) {
    Ids ids(4 * 600);
    Ids mask(4 * 600);
    for (std::size_t t = 0; t < ids.size(); ++t) {
      ids[t] = static_cast<std::int64_t>(random() % 5);
      mask[t] = ids[t] == pad_id ? 0 : 1;
    }
    EXPECT_EQ(pad_offset(ids, 600, pad_id), masked(mask, 600, pad_id + 1, pad_id));
    EXPECT_EQ(pad_offset(ids, 600, pad_id, 2048), masked(mask, 600, pad_id + 1 + 2048, pad_id));
  }
}

TEST(PadBatch, LeftRightAndNone) {
  const std::vector<Ids> rows = {{5, 6, 7}, {8}, {}};
  const PaddedBatch left = pad_batch(rows, Padding::left, 99, -1);
  EXPECT_EQ(left.width, 3);
  EXPECT_THAT(left.ids, ElementsAre(5, 6, 7, 99, 99, 8, 99, 99, 99));
  EXPECT_THAT(left.mask, ElementsAre(1, 1, 1, 0, 0, 1, 0, 0, 0));
  EXPECT_THAT(left.positions, ElementsAre(0, 1, 2, -1, -1, 0, -1, -1, -1));
  const Ids starts = {10, 20, 30};
  const PaddedBatch right = pad_batch(rows, Padding::right, 99, 0, starts);
  EXPECT_THAT(right.ids, ElementsAre(5, 6, 7, 8, 99, 99, 99, 99, 99));
  EXPECT_THAT(right.mask, ElementsAre(1, 1, 1, 1, 0, 0, 0, 0, 0));
  EXPECT_THAT(right.positions, ElementsAre(10, 11, 12, 20, 0, 0, 0, 0, 0));
  const std::vector<Ids> even = {{1, 2}, {3, 4}};
  const PaddedBatch none = pad_batch(even, Padding::none, 99, 0);
  EXPECT_THAT(none.ids, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(none.mask, ElementsAre(1, 1, 1, 1));
  EXPECT_EQ(pad_batch({}, Padding::left, 0, 0).width, 0);
}

TEST(PadBatch, ContentIsTheSameOnEitherSide) {
  std::mt19937_64 random(6);
  std::vector<Ids> rows(5);
  for (Ids& row : rows) {
    row.resize(random() % 300);
    for (std::int64_t& id : row) id = static_cast<std::int64_t>(random() % 1000);
  }
  for (const Padding padding : {Padding::left, Padding::right}) {
    const PaddedBatch batch = pad_batch(rows, padding, -1, -5);
    const auto width = static_cast<std::size_t>(batch.width);
    for (std::size_t b = 0; b < rows.size(); ++b) {
      Ids ids;
      Ids positions;
      for (std::size_t t = b * width; t < (b + 1) * width; ++t) {
        if (batch.mask[t] == 0) continue;
        ids.push_back(batch.ids[t]);
        positions.push_back(batch.positions[t]);
      }
      EXPECT_EQ(ids, rows[b]);
      EXPECT_EQ(positions, text_positions(static_cast<std::int64_t>(rows[b].size())));
    }
    EXPECT_EQ(masked(batch.mask, batch.width, 0, -5), batch.positions);
  }
}

TEST(PositionIds, Refuse) {
  EXPECT_EQ(sentence<SpecError>([] { (void)text_positions(-1); }),
            "text_positions: tokens must be at least 0, got -1");
  EXPECT_EQ(sentence<SpecError>([] { (void)text_positions(2, kMax); }),
            "text_positions: positions must fit in 64 bits, got start 9223372036854775807 and 2 tokens");
  EXPECT_EQ(sentence<SpecError>([] { (void)continued_positions(kMax, 1); }),
            "continued_positions: positions must fit in 64 bits, got last 9223372036854775807");
  EXPECT_EQ(sentence<SpecError>([] { (void)continued_positions(0, -2); }),
            "continued_positions: tokens must be at least 0, got -2");
  const std::vector<Ids> uneven = {{1, 2}, {3}};
  EXPECT_EQ(sentence<SpecError>([&] { (void)pad_batch(uneven, Padding::none, 0, 0); }),
            "pad_batch: rows without padding are of equal length, got 1 at row 1 and 2");
  const Ids starts = {0};
  EXPECT_EQ(sentence<SpecError>([&] { (void)pad_batch(uneven, Padding::left, 0, 0, starts); }),
            "pad_batch: starts are one per row or none, got 1 for 2 rows");
  const Ids far = {0, kMax};
  EXPECT_EQ(sentence<SpecError>([&] { (void)pad_batch(uneven, Padding::left, 0, 0, far); }),
            "pad_batch: positions must fit in 64 bits, got start 9223372036854775807 and 1 tokens");
}

TEST(PadOffsetPositions, RefuseBeforeTheyWrite) {
  Ids ids = {1, 2, 3, 4};
  Ids out(4, -9);
  const View<std::int64_t, 2> in(ids.data(), {2, 2});
  const View<std::int64_t, 2> to(out.data(), {2, 2});
  const View<std::int64_t, 2> flat_out(out.data(), {1, 4});
  EXPECT_EQ(sentence<SpecError>([&] { pad_offset_positions(in, 1, 0, flat_out); }),
            "pad_offset_positions: out has the shape of the ids [2,2], got [1,4]");
  EXPECT_EQ(sentence<SpecError>([&] { pad_offset_positions(in, -1, 0, to); }),
            "pad_offset_positions: pad_id must be at least 0, got -1");
  EXPECT_EQ(sentence<SpecError>([&] { pad_offset_positions(in, 1, -1, to); }),
            "pad_offset_positions: past must be at least 0, got -1");
  EXPECT_EQ(sentence<SpecError>([&] { pad_offset_positions(in, 1, kMax, to); }),
            "pad_offset_positions: positions must fit in 64 bits, got pad_id 1 and past 9223372036854775807");
  EXPECT_EQ(
      sentence<SpecError>([&] { pad_offset_positions(in, 0, kMax - 2, to); }),
      "pad_offset_positions: positions must fit in 64 bits, got start 9223372036854775806 and 2 tokens");
  EXPECT_EQ(sentence<SpecError>([&] { masked_tail_positions(in, 0, flat_out); }),
            "masked_tail_positions: out holds the last columns of the mask [2,2], got [1,4]");
  EXPECT_EQ(sentence<SpecError>([&] { masked_tail_positions(in, 0, to); }),
            "masked_tail_positions: a mask holds 0 and 1, got 2 at row 0 column 1");
  EXPECT_EQ(out, Ids(4, -9));
}

TEST(MaskedPositions, RefusesBeforeItWrites) {
  Ids mask = {1, 1, 0, 2};
  Ids out(4, -9);
  const View<std::int64_t, 2> in(mask.data(), {2, 2});
  EXPECT_EQ(sentence<SpecError>([&] {
              masked_positions(in, 0, 0, View<std::int64_t, 2>(out.data(), {1, 4}));
            }),
            "masked_positions: out has the shape of the mask [2,2], got [1,4]");
  EXPECT_EQ(sentence<SpecError>([&] {
              masked_positions(in, 0, 0, View<std::int64_t, 2>(out.data(), {2, 2}));
            }),
            "masked_positions: a mask holds 0 and 1, got 2 at row 1 column 1");
  EXPECT_EQ(sentence<SpecError>([&] {
              masked_positions(in, kMax, 0, View<std::int64_t, 2>(out.data(), {2, 2}));
            }),
            "masked_positions: positions must fit in 64 bits, got start 9223372036854775807 and 2 tokens");
  EXPECT_EQ(out, Ids(4, -9));
}

}  // namespace
}  // namespace locant

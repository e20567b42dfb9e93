// SPDX-License-Identifier: Apache-2.0
// learned: what it refuses and where its table ends.
#include <limits>

#include <gtest/gtest.h>

#include "positions/golden.h"
#include "positions/sentences.h"

namespace locant {
namespace {

using golden::planned;
using testing_text::sentence;

PositionSpec opt_spec() {
  PositionSpec spec{"learned", {}};
  spec.set("rows", std::int64_t{2050}, "max_position_embeddings");
  spec.set("width", std::int64_t{512}, "hidden_size");
  spec.set("offset", std::int64_t{2});
  return spec;
}

std::string refusal(std::string name, ParameterValue value, std::string key = {}) {
  PositionSpec spec = opt_spec();
  spec.set(std::move(name), std::move(value), std::move(key));
  return sentence<SpecError>([&] { (void)planned<PositionEmbedding>(spec); });
}

TEST(Learned, PlanHoldsWhatTheSpecSays) {
  PositionSpec spec = opt_spec();
  spec.set("role", std::string("decoder.positions"));
  const auto embedding = planned<PositionEmbedding>(spec);
  EXPECT_EQ(embedding.form, EmbeddingForm::table);
  EXPECT_EQ(embedding.rows, 2050);
  EXPECT_EQ(embedding.width, 512);
  EXPECT_EQ(embedding.offset, 2);
  EXPECT_EQ(embedding.role, "decoder.positions");
  EXPECT_EQ(planned<PositionEmbedding>(opt_spec()).role, "positions");
}

TEST(Learned, TheTableEnds) {
  const auto embedding = planned<PositionEmbedding>(opt_spec());
  EXPECT_EQ(table_row(embedding, -2), 0);
  EXPECT_EQ(table_row(embedding, 2047), 2049);
  const auto outside = [&](std::int64_t position) {
    return sentence<std::out_of_range>([&] { (void)table_row(embedding, position); });
  };
  EXPECT_EQ(outside(2048), "table_row: position 2048 is row 2050 of positions, whose rows are 0 to 2049");
  EXPECT_EQ(outside(-3), "table_row: position -3 is row -1 of positions, whose rows are 0 to 2049");
  EXPECT_EQ(outside(std::numeric_limits<std::int64_t>::max()),
            "table_row: position + offset 2 must fit in 64 bits, got position 9223372036854775807");
}

TEST(Learned, TheLastRowHoldsWhereTheSpecSaysSo) {
  PositionSpec spec = opt_spec();
  spec.set("past_end", std::string("last_row"));
  const auto embedding = planned<PositionEmbedding>(spec);
  EXPECT_EQ(table_row(embedding, 2047), 2049);
  EXPECT_EQ(table_row(embedding, 2048), 2049);
  EXPECT_EQ(table_row(embedding, std::int64_t{1} << 60), 2049);
  EXPECT_EQ(sentence<std::out_of_range>([&] { (void)table_row(embedding, -3); }),
            "table_row: position -3 is row -1 of positions, whose rows are 0 to 2049");
}

TEST(Learned, TheFirstPositionIsTheOtherWayToSayAnOffset) {
  // RoBERTa: ids 2, 3, .. of a table without offset, or 0, 1, .. with offset 2.
  PositionSpec spec = opt_spec();
  const auto offset = planned<PositionEmbedding>(spec);
  spec.set("offset", std::int64_t{0});
  spec.set("first_position", std::int64_t{2});
  const auto shifted = planned<PositionEmbedding>(spec);
  EXPECT_EQ(offset.first_position, 0);
  EXPECT_EQ(shifted.first_position, 2);
  for (std::int64_t t = 0; t < 2048; ++t) {
    EXPECT_EQ(table_row(offset, t + offset.first_position), table_row(shifted, t + shifted.first_position));
  }
}

TEST(Learned, ATableWithoutARoleIsStillNamed) {
  PositionEmbedding embedding;
  embedding.rows = 4;
  EXPECT_EQ(sentence<std::out_of_range>([&] { (void)table_row(embedding, 4); }),
            "table_row: position 4 is row 4 of the table, whose rows are 0 to 3");
}

TEST(Learned, AGeneratorHasNoEnd) {
  PositionEmbedding sinusoid;
  sinusoid.form = EmbeddingForm::sinusoid;
  sinusoid.offset = 2;
  EXPECT_EQ(table_row(sinusoid, std::int64_t{1} << 40), (std::int64_t{1} << 40) + 2);
}

TEST(Learned, Refuses) {
  EXPECT_EQ(refusal("rows", std::int64_t{0}, "n_positions"),
            "learned: rows (n_positions) must be a whole number from 1 to 281474976710656, got 0");
  EXPECT_EQ(refusal("width", std::int64_t{0}),
            "learned: width must be a whole number from 1 to 16777216, got 0");
  EXPECT_EQ(refusal("offset", std::int64_t{2050}),
            "learned: offset must be a whole number from 0 to 2049, got 2050");
  EXPECT_EQ(refusal("role", std::string()), "learned: role must be text that is not empty, got \"\"");
  EXPECT_EQ(refusal("role", std::int64_t{3}), "learned: role must be text that is not empty, got 3");
  EXPECT_EQ(refusal("first_position", std::int64_t{2048}),
            "learned: first_position must be a whole number from 0 to 2047, got 2048");
  EXPECT_EQ(refusal("past_end", std::string("wrap")),
            "learned: past_end must be refuse or last_row, got \"wrap\"");
  PositionSpec huge = opt_spec();
  huge.set("rows", std::int64_t{1} << 48, "max_position_embeddings");
  huge.set("width", std::int64_t{1} << 24);
  EXPECT_EQ(sentence<SpecError>([&] { (void)planned<PositionEmbedding>(huge); }),
            "learned: rows (max_position_embeddings) times width 16777216 must fit in 64 bits, got "
            "281474976710656");
}

}  // namespace
}  // namespace locant

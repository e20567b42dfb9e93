// SPDX-License-Identifier: Apache-2.0
// token_types: rows against the golden cases, the plan, what is refused.
#include <gtest/gtest.h>

#include "positions/golden.h"
#include "positions/sentences.h"

namespace locant {
namespace {

using golden::cases;
using golden::integers;
using golden::planned;
using golden::spec_of;
using testing_text::sentence;

TEST(TokenTypes, HaveTheRowOfTheirType) {
  for (const auto& one : cases("token_types")) {
    SCOPED_TRACE(one.at("parameters").dump());
    const auto embedding = planned<PositionEmbedding>(spec_of("token_types", one.at("parameters")));
    const auto types = integers(one.at("types"));
    for (std::size_t t = 0; t < types.size(); ++t) {
      const auto& expected = one.at("rows")[t];
      if (expected.is_null()) {
        EXPECT_THROW((void)table_row(embedding, types[t]), std::out_of_range) << types[t];
      } else {
        EXPECT_EQ(table_row(embedding, types[t]), expected.get<std::int64_t>());
      }
    }
  }
}

TEST(TokenTypes, PlanHoldsWhatTheSpecSays) {
  PositionSpec spec{"segments", {}};
  spec.set("rows", std::int64_t{2}, "type_vocab_size");
  spec.set("width", std::int64_t{768}, "hidden_size");
  const auto plain = planned<PositionEmbedding>(spec);
  EXPECT_EQ(plain.form, EmbeddingForm::token_types);
  EXPECT_EQ(plain.rows, 2);
  EXPECT_EQ(plain.width, 768);
  EXPECT_EQ(plain.offset, 0);
  EXPECT_EQ(plain.role, "token_types");
  // GPT-2 looks types up in the table of the tokens.
  spec.set("role", std::string("tokens"));
  EXPECT_EQ(planned<PositionEmbedding>(spec).role, "tokens");
}

TEST(TokenTypes, Refuse) {
  PositionSpec spec{"token_types", {}};
  spec.set("width", std::int64_t{1} << 24);
  spec.set("rows", std::int64_t{0}, "type_vocab_size");
  EXPECT_EQ(sentence<SpecError>([&] { (void)planned<PositionEmbedding>(spec); }),
            "token_types: rows (type_vocab_size) must be a whole number from 1 to 281474976710656, got 0");
  spec.set("rows", std::int64_t{1} << 48, "type_vocab_size");
  EXPECT_EQ(
      sentence<SpecError>([&] { (void)planned<PositionEmbedding>(spec); }),
      "token_types: rows (type_vocab_size) times width 16777216 must fit in 64 bits, got 281474976710656");
}

}  // namespace
}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// Facts of GGUF files: whose recipe holds, and what the headers of the tensors tell.
#include <gtest/gtest.h>

#include <string>

#include "core/temp_dir.h"
#include "formats/gguf_writer.h"
#include "locant/facts.h"

namespace locant {
namespace {

using tests::gguf_model;
using tests::GgufModel;
using tests::TempDir;

Facts facts(const GgufModel& model, FactsQuery query = {}) {
  const TempDir dir;
  query.weights = dir.write("model.gguf", model.bytes());
  return facts_of(read_gguf(query.weights), query);
}

TEST(GgufFacts, NamesBlocksAndParameters) {
  GgufModel model = gguf_model("llama");
  model.zeros("token_embd.weight", {48, 64}, GgmlType::q8_0);
  const Facts of = facts(model);
  EXPECT_EQ(of.model.format, "gguf");
  EXPECT_EQ(of.model.parameters, 48 * 64 + 64 + 48 * 64);
  EXPECT_EQ(of.embedding.tensor, "token_embd.weight");
  EXPECT_FALSE(of.embedding.dtype.has_value());
  EXPECT_EQ(of.embedding.block_type, "Q8_0");
  EXPECT_EQ(of.head.tensor, "output.weight");
  EXPECT_FALSE(of.head.tied);
  const Facts half = facts(model.zeros("token_embd.weight", {48, 64}, GgmlType::f16));
  EXPECT_EQ(half.embedding.dtype, DType::f16);
  EXPECT_EQ(half.embedding.block_type, "");
  const Facts tied = facts(model.drop_tensor("output.weight"));
  EXPECT_TRUE(tied.head.tied);
  EXPECT_EQ(tied.head.tensor, "token_embd.weight");
}

TEST(GgufFacts, AVocabularyAloneHasNoParameters) {
  GgufModel model = gguf_model("llama");
  model.drop_tensor("token_embd.weight").drop_tensor("output.weight").drop_tensor("output_norm.weight");
  const Facts of = facts(model.set("llama.vocab_size", 1000));
  EXPECT_FALSE(of.model.parameters.has_value());
  EXPECT_EQ(of.embedding.rows, 1000);
  EXPECT_EQ(of.embedding.tensor, "");
  EXPECT_EQ(of.head.tensor, "");
}

TEST(GgufFacts, TheRecipeIsThatOfLlamaCppUnlessAnotherIsAsked) {
  GgufModel model = gguf_model("gemma");
  EXPECT_EQ(facts(model).recipe, "llama.cpp");
  EXPECT_EQ(facts(model).embedding.scale_rounding, ScaleRounding::none);
  EXPECT_EQ(facts(model, {.recipe = "hf"}).recipe, "hf");
  EXPECT_EQ(facts(model, {.recipe = "hf"}).embedding.scale_rounding, ScaleRounding::run_dtype);
}

TEST(GgufFacts, LongRopeFollowsTheCapacity) {
  GgufModel model = gguf_model("phi3");
  model.set("phi3.rope.scaling.original_context_length", 1024)
      .floats("rope_factors_short.weight", std::vector<float>(8, 1))
      .floats("rope_factors_long.weight", std::vector<float>(8, 4));
  const Facts of = facts(model, {.capacity = 512});
  ASSERT_EQ(of.positions.size(), 1U);
  EXPECT_EQ(of.positions[0].length_rule, LengthRule::capacity);
  EXPECT_EQ(std::get<Rotation>(*of.positions[0].plan).inv_freq[0], 1);
  const Facts opened = facts(model, {.capacity = 4096});
  EXPECT_EQ(std::get<Rotation>(*opened.positions[0].plan).inv_freq[0], 0.25);
  EXPECT_EQ(of.limits.lengths.trained, 1024);
  EXPECT_EQ(of.limits.angle_basis, "trained");
}

}  // namespace
}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// The logits of every family and of its options against the double forward pass of oracle.h.
#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "budgets.h"
#include "model/feeding.h"
#include "model/oracle.h"

namespace locant {
namespace {

using namespace tests;

struct Variant {
  std::string name, family;
  Json changes = Json::object();
  DType dtype = DType::f32;
};

LoadOptions reading(const std::string& recipe) {
  LoadOptions options;
  options.recipe = recipe;
  return options;
}

class Variants : public testing::TestWithParam<Variant> {};

std::vector<Variant> variants() {
  const Json post_norm = {{"apply_residual_connection_post_layernorm", true}};
  std::vector<Variant> all;
  for (const std::string& family : four_families()) {
    all.push_back({family + "_f32", family});
    all.push_back({family + "_f16", family, Json::object(), DType::f16});
    all.push_back({family + "_bf16", family, Json::object(), DType::bf16});
    all.push_back({family + "_tied", family, {{"tie_word_embeddings", true}}});
    all.push_back({family + "_untied", family, {{"tie_word_embeddings", false}}});
  }
  all.push_back({"llama_biases", "llama", {{"attention_bias", true}, {"mlp_bias", true}}});
  all.push_back({"llama_one_kv_head", "llama", {{"num_key_value_heads", 1}}});
  all.push_back({"llama_all_kv_heads", "llama", {{"num_key_value_heads", 9}}});
  all.push_back({"llama_gelu", "llama", {{"hidden_act", "gelu"}}});
  all.push_back({"llama_relu_eps", "llama", {{"hidden_act", "relu"}, {"rms_norm_eps", 0.01}}});
  all.push_back({"llama_wide_head", "llama", {{"head_dim", 66}, {"num_attention_heads", 3}}});
  all.push_back({"gpt2_unscaled", "gpt2", {{"scale_attn_weights", false}}});
  all.push_back({"gpt2_by_layer", "gpt2", {{"scale_attn_by_inverse_layer_idx", true}, {"n_layer", 3}}});
  all.push_back({"gpt2_inner", "gpt2", {{"n_inner", 33}, {"activation_function", "silu"}}});
  all.push_back({"gpt2_eps", "gpt2", {{"layer_norm_epsilon", 0.05}}});
  all.push_back({"bloom_post_norm", "bloom", post_norm});
  all.push_back({"bloom_eight_heads", "bloom", {{"n_head", 8}}});
  all.push_back({"bloom_one_head", "bloom", {{"n_head", 1}}});
  all.push_back({"xglm_unscaled", "xglm", {{"scale_embedding", false}}});
  all.push_back({"xglm_no_pad", "xglm", {{"pad_token_id", nullptr}}});
  all.push_back({"xglm_zero_row_inside", "xglm", {{"pad_token_id", 5}}});
  all.push_back({"xglm_relu", "xglm", {{"activation_function", "relu"}}});
  return all;
}

TEST_P(Variants, EqualTheOracle) {
  const Variant& variant = GetParam();
  const Loaded loaded(tiny(variant.family, variant.changes, variant.dtype));
  const Oracle oracle(loaded.checkpoint);
  const std::vector<Ids> rows = {some_ids(37, 1), some_ids(1, 2), some_ids(20, 3)};
  const auto session = loaded.session(3, 37);
  const std::vector<Logits> got = feed(*session, rows);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    EXPECT_LE(distance(got[row], oracle.run(rows[row]).logits), budgets::kConformanceFamily) << row;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Variants, testing::ValuesIn(variants()),
                         [](const auto& variant) { return variant.param.name; });

class OfFamily : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, OfFamily, testing::ValuesIn(four_families()),
                         [](const auto& f) { return f.param; });

TEST_P(OfFamily, PastPosition256) {
  const Loaded loaded(tiny(GetParam()));
  const Ids ids = some_ids(300, 4);  // gpt2: the table's last row
  EXPECT_LE(distance(alone(loaded, ids), Oracle(loaded.checkpoint).run(ids).logits),
            budgets::kConformanceFamily);
}

TEST_P(OfFamily, ExplicitPositionsEqualTheOracle) {
  const Loaded loaded(tiny(GetParam()));
  const Ids ids = some_ids(12, 5);
  const Ids positions = {3, 4, 5, 9, 10, 11, 12, 40, 41, 250, 251, 299};
  EXPECT_LE(distance(alone(loaded, ids, positions), Oracle(loaded.checkpoint).run(ids, positions).logits),
            budgets::kConformanceFamily);
}

TEST_P(OfFamily, FactsOfAModel) {
  const Loaded loaded(tiny(GetParam()));
  std::int64_t elements = 0;
  for (const auto& [name, tensor] : loaded.checkpoint.tensors)
    elements += static_cast<std::int64_t>(tensor.values.size());
  EXPECT_EQ(loaded.model->parameters(), elements);
  EXPECT_GE(loaded.model->weight_bytes(), 4 * elements);
  EXPECT_EQ(loaded.model->vocab(), kVocab);
  EXPECT_EQ(loaded.model->spec().family, GetParam());
  EXPECT_EQ(loaded.model->recipe().name, "hf");
  EXPECT_EQ(loaded.model->plan().layers.size(), 2U);
  EXPECT_EQ(loaded.model->last_position(),
            GetParam() == "gpt2" ? std::optional<std::int64_t>(299) : std::nullopt);
  EXPECT_EQ(loaded.model->name().rfind("locant ", 0), 0U);
  const OracleShape shape = Oracle(loaded.checkpoint).sizes();
  const std::int64_t tokens = 2 * shape.layers * shape.kv_heads * shape.head_dim;
  // With slopes, an f32 norm of the first 64 keys of each head is kept beside them.
  const std::int64_t norms = GetParam() == "bloom" ? 3 * shape.layers * shape.kv_heads * 4 : 0;
  EXPECT_EQ(loaded.model->cache_bytes({.rows = 3, .capacity = 7, .cache = DType::f16}),
            3 * 7 * tokens * 2 + norms);
  // A scale for each key and each value.
  EXPECT_EQ(loaded.model->cache_bytes({.rows = 3, .capacity = 7, .cache = DType::i8}),
            3 * 7 * (tokens + 2 * shape.layers * shape.kv_heads * 4) + norms);
}

TEST(Llama, PastPosition2048) {
  const Loaded loaded(tiny("llama"));
  const Ids ids = some_ids(2100, 6);
  const Logits want_at_once = alone(loaded, ids);
  EXPECT_LE(distance(want_at_once, Oracle(loaded.checkpoint).run(ids).logits), budgets::kConformanceLong);
  const auto session = loaded.session(1, 2100);
  Logits chunks;
  for (std::size_t first = 0; first < ids.size(); first += 700) {
    const Logits more = feed(*session, {part(ids, first, 700)})[0];
    chunks.insert(chunks.end(), more.begin(), more.end());
  }
  EXPECT_LE(distance(chunks, want_at_once), budgets::kConformancePadding);
}

// The exact recipe builds its tables in double: at small angles it agrees with `hf` within the family's
// budget.
TEST(Recipe, ExactAndHfAreNear) {
  const Checkpoint checkpoint = tiny("llama");
  const Loaded hf(checkpoint);
  const Loaded exact(checkpoint, reading("exact"));
  EXPECT_EQ(exact.model->recipe().name, "exact");
  const Ids ids = some_ids(30, 7);
  EXPECT_LE(distance(alone(exact, ids), alone(hf, ids)), budgets::kConformanceFamily);
}

TEST(Recipe, AnUnknownOneIsNamed) {
  EXPECT_NE(message_of<SpecError>([] { const Loaded loaded(tiny("llama"), reading("hff")); }).find("hff"),
            std::string::npos);
}

// Rotations know differences only; learned rows know where they stand.
TEST(Start, ShiftsNothingForRotationsAndRowsForTables) {
  const Ids ids = some_ids(25, 8);
  Ids shifted(ids.size());
  std::iota(shifted.begin(), shifted.end(), 200);
  const Loaded rope(tiny("llama"));
  EXPECT_LE(distance(alone(rope, ids, shifted), alone(rope, ids)), budgets::kConformanceShift);
  const Loaded alibi(tiny("bloom"));
  EXPECT_LE(distance(alone(alibi, ids, shifted), alone(alibi, ids)), budgets::kConformancePadding);
  for (const char* family : {"gpt2", "xglm"}) {
    const Loaded absolute(tiny(family));
    EXPECT_GT(distance(alone(absolute, ids, shifted), alone(absolute, ids)),
              1000 * budgets::kConformanceShift);
  }
}

}  // namespace
}  // namespace locant

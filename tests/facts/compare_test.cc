// SPDX-License-Identifier: Apache-2.0
// compare(): rules, arithmetic, lengths between which they hold, evidence, and what is refused.
#include "locant/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/temp_dir.h"
#include "facts/compare_parts.h"
#include "locant/positions.h"

namespace locant {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using tests::TempDir;

ModelSpec read(const std::string& config) {
  const TempDir dir;
  return read_hf_config(dir.write("config.json", config), Reading::facts);
}

/// A small model of the llama family: 6 heads of 16, theta 123456, 4096 tokens.
ModelSpec llama(const std::string& more = "", const std::string& length = "4096") {
  return read(R"({"model_type": "llama", "vocab_size": 320, "hidden_size": 96, "num_hidden_layers": 3,
                  "num_attention_heads": 6, "intermediate_size": 100, "rope_theta": 123456.0,
                  "max_position_embeddings": )" +
              length + more + "}");
}
ModelSpec scaled(const std::string& scaling, const std::string& length = "4096") {
  return llama(R"(, "rope_scaling": )" + scaling, length);
}

CompareSide side(const ModelSpec& spec, const std::string& recipe) {
  return {.name = recipe, .spec = &spec, .recipe = recipe};
}
Comparison between(const ModelSpec& spec, const std::string& a, const std::string& b,
                   CompareQuery query = {}) {
  return compare(side(spec, a), side(spec, b), query);
}
std::vector<std::string> words(const std::vector<Difference>& differences) {
  std::vector<std::string> found;
  for (const Difference& one : differences) found.push_back(one.site + " " + one.what);
  return found;
}
std::string refusal(const CompareSide& a, const CompareSide& b, const CompareQuery& query = {}) {
  try {
    (void)compare(a, b, query);
  } catch (const SpecError& error) {
    return error.what();
  }
  return "nothing";
}

constexpr const char* kStated =
    R"({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024, "attention_factor": 1.0})";
constexpr const char* kDynamic = R"({"type": "dynamic", "factor": 4.0})";
const std::string kLong =
    R"({"type": "longrope", "original_max_position_embeddings": 1024,
        "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7],
        "long_factor": [2.0, 2.1, 2.2, 2.3, 2.4, 2.5, 2.6, 2.7]})";

TEST(Compare, OneReadingHasNoDifference) {
  const ModelSpec plain = llama();
  for (const char* const other : {"vllm", "sglang", "tensorrt-llm", "ctranslate2", "onnxruntime", "mlx"}) {
    const Comparison found = between(plain, "hf", other);
    EXPECT_THAT(words(found.differences), IsEmpty()) << other;
    EXPECT_THAT(words(found.within_rounding), IsEmpty()) << other;
    EXPECT_FALSE(differs(found)) << other;
    EXPECT_EQ(found.distance, 4096);
    EXPECT_EQ(found.distance_basis, "max_position_embeddings");
  }
}

TEST(Compare, AStatedAmplitudeThatIsNotRead) {
  const Comparison found = between(scaled(kStated), "hf", "vllm");
  ASSERT_THAT(words(found.differences), ElementsAre("rotation amplitude"));
  const Difference& one = found.differences[0];
  EXPECT_TRUE(differs(found));
  EXPECT_EQ(one.a, 1.0);
  ASSERT_TRUE(one.b.has_value());
  EXPECT_FLOAT_EQ(static_cast<float>(*one.b), static_cast<float>(0.1 * std::log(4.0) + 1));
  EXPECT_EQ(one.first_bf16, 0);
  EXPECT_EQ(one.first_f32, 0);
  EXPECT_THAT(one.layers, ElementsAre(0, 1, 2));
  EXPECT_EQ(one.stack, Stack::decoder);
  ASSERT_EQ(one.evidence.size(), 1U);
  EXPECT_EQ(one.evidence[0].recipe, "vllm");
  EXPECT_THAT(one.evidence[0].what, HasSubstr("does not read attention_factor"));
  EXPECT_FALSE(one.evidence[0].evidence.empty());
  EXPECT_EQ(layers_text(one), "layers 0-2");
}

TEST(Compare, FrequenciesAreToldByPairAndRadians) {
  const ModelSpec spec = scaled(
      R"({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024, "truncate": false})");
  const Comparison found = between(spec, "hf", "mlx");
  ASSERT_THAT(words(found.differences), ElementsAre("rotation inv_freq"));
  const Difference& one = found.differences[0];
  ASSERT_FALSE(one.pairs.empty());
  ASSERT_TRUE(one.at_distance.has_value() && one.at_distance->radians.has_value());
  EXPECT_EQ(one.at_distance->position, 4095);
  // The same from the plans.
  const StackPositions& positions = spec.positions;
  const Rotation a = *plan(positions, find_recipe("hf"), {.seen = 4096}).kinds[0].rotation;
  const Rotation b = *plan(positions, find_recipe("mlx"), {.seen = 4096}).kinds[0].rotation;
  double most = 0;
  for (const std::int64_t pair : one.pairs) {
    const auto i = static_cast<std::size_t>(pair);
    most = std::max(most, 4095 * std::abs(a.inv_freq[i] - b.inv_freq[i]));
  }
  EXPECT_DOUBLE_EQ(*one.at_distance->radians, most);
  EXPECT_THAT(one.message, HasSubstr("under mlx inv_freq differs at"));
  EXPECT_THAT(one.evidence[0].what, HasSubstr("always rounds the edges"));
}

/// Largest element between the tables of the two sides at one position.
double apart_at(const Rotation& a, const Numerics& in_a, const Rotation& b, const Numerics& in_b,
                std::int64_t position) {
  const auto pairs = static_cast<std::int64_t>(a.inv_freq.size());
  std::vector<float> cos_a(a.inv_freq.size());
  std::vector<float> sin_a(cos_a);
  std::vector<float> cos_b(cos_a);
  std::vector<float> sin_b(cos_a);
  const View<const std::int64_t, 2> at(&position, {1, 1});
  rotation_table(a, in_a, at, View<float, 2>(cos_a.data(), {1, pairs}),
                 View<float, 2>(sin_a.data(), {1, pairs}));
  rotation_table(b, in_b, at, View<float, 2>(cos_b.data(), {1, pairs}),
                 View<float, 2>(sin_b.data(), {1, pairs}));
  float most = 0;
  for (std::size_t i = 0; i < cos_a.size(); ++i)
    most = std::max({most, std::abs(cos_a[i] - cos_b[i]), std::abs(sin_a[i] - sin_b[i])});
  return static_cast<double>(most);
}

TEST(Compare, FirstPositionsAreTheFirst) {
  const ModelSpec spec = llama(R"(, "head_dim": 128)", "131072");
  const Comparison found = between(spec, "hf", "llama.cpp");
  ASSERT_THAT(words(found.differences), ElementsAre("rotation angle"));
  const Difference& one = found.differences[0];
  EXPECT_EQ(one.kind, DifferenceKind::arithmetic);
  ASSERT_TRUE(one.first_bf16 && one.first_f32);
  EXPECT_LT(*one.first_f32, *one.first_bf16);
  const Recipe& hf = find_recipe("hf");
  const Recipe& ggml = find_recipe("llama.cpp");
  const Rotation a = *plan(spec.positions, hf, {}).kinds[0].rotation;
  const Rotation b = *plan(spec.positions, ggml, {}).kinds[0].rotation;
  const auto apart = [&](std::int64_t p) {
    return apart_at(a, numerics_of(hf, DType::f32), b, numerics_of(ggml, DType::f32), p);
  };
  EXPECT_GT(apart(*one.first_f32), half_step(DType::f32, 1));
  EXPECT_GT(apart(*one.first_bf16), half_step(DType::bf16, 1));
  for (std::int64_t p = 0; p < *one.first_bf16; ++p) {
    ASSERT_LE(apart(p), half_step(DType::bf16, 1)) << p;
    const bool before = p < *one.first_f32;
    ASSERT_TRUE(!before || apart(p) <= half_step(DType::f32, 1)) << p;
  }
  EXPECT_THAT(words(between(spec, "hf", "llama.cpp", {.distance = 2048}).differences), IsEmpty());
  EXPECT_THAT(words(between(spec, "hf", "llama.cpp", {.distance = 2048}).within_rounding),
              ElementsAre("rotation angle"));
}

TEST(Compare, TablesInTheDtypeOfTheModel) {
  const ModelSpec spec = llama();
  const Comparison found = between(spec, "hf", "mlx", {.run_dtype = DType::bf16});
  EXPECT_THAT(words(found.differences), IsEmpty());
  ASSERT_THAT(words(found.within_rounding), ElementsAre("rotation table"));
  EXPECT_THAT(found.within_rounding[0].message, HasSubstr("kept in f32 under mlx and bf16 under hf"));
  EXPECT_EQ(found.run_dtype_basis, "given");
  EXPECT_THAT(words(between(spec, "hf", "vllm", {.run_dtype = DType::bf16}).within_rounding), IsEmpty());
}

TEST(Compare, DynamicNtkBeyondTheConfiguredLength) {
  const ModelSpec spec = scaled(kDynamic);
  const Comparison inside = between(spec, "hf", "vllm");
  ASSERT_THAT(words(inside.differences), ElementsAre("rotation inv_freq"));
  EXPECT_FALSE(differs(inside));
  EXPECT_EQ(inside.differences[0].seen_from, 4097);
  EXPECT_FALSE(inside.differences[0].seen_to.has_value());
  const Comparison past = between(spec, "hf", "vllm", {.distance = 8192});
  EXPECT_TRUE(differs(past));
  EXPECT_EQ(past.differences[0].seen_from, 4097);
  EXPECT_THAT(past.differences[0].message, HasSubstr("once 4097 tokens are seen"));
  // One of them changes the base for short texts too.
  const Comparison all = between(spec, "hf", "sglang", {.distance = 100});
  ASSERT_THAT(words(all.differences), ElementsAre("rotation inv_freq"));
  EXPECT_TRUE(differs(all));
}

TEST(Compare, LongRopeTurnsAtSeveralLengths) {
  const ModelSpec spec = scaled(kLong);
  const Difference by_server = between(spec, "hf", "vllm").differences.at(0);
  EXPECT_EQ(by_server.what, "inv_freq");
  EXPECT_EQ(by_server.seen_from, 1);
  EXPECT_EQ(by_server.seen_to, 1024);
  EXPECT_TRUE(by_server.inside);
  EXPECT_THAT(by_server.message, HasSubstr("while 1 to 1024 tokens are seen"));
  const Difference later = between(spec, "hf", "sglang").differences.at(0);
  EXPECT_EQ(later.seen_from, 1025);
  EXPECT_EQ(later.seen_to, 1025);
  // Opened for the short length, the server takes the short factors: long texts differ instead.
  EXPECT_THAT(words(between(spec, "hf", "vllm", {.distance = 512}).differences), IsEmpty());
}

TEST(Compare, TheEmbeddingScaleOfGemma) {
  const ModelSpec gemma = read(
      R"({"model_type": "gemma", "vocab_size": 320, "hidden_size": 640, "num_hidden_layers": 2, "head_dim": 64,
          "num_attention_heads": 4, "num_key_value_heads": 1, "intermediate_size": 100,
          "max_position_embeddings": 512})");
  const Comparison found = between(gemma, "hf", "llama.cpp", {.run_dtype = DType::bf16});
  ASSERT_FALSE(found.differences.empty());
  const Difference& one = found.differences[0];
  EXPECT_EQ(one.what, "embedding_scale");
  EXPECT_EQ(one.a, 25.25);
  EXPECT_FLOAT_EQ(static_cast<float>(*one.b), std::sqrt(640.0F));
  EXPECT_EQ(one.first_f32, 0);
  EXPECT_FALSE(one.first_bf16.has_value());
  ASSERT_EQ(one.evidence.size(), 1U);
  EXPECT_TRUE(one.evidence[0].tested_live);
  EXPECT_THAT(words(between(gemma, "hf", "llama.cpp").differences),
              testing::Not(testing::Contains("scale embedding_scale")));
}

TEST(Compare, WhatOneRecipeRefuses) {
  const ModelSpec yarn = scaled(kStated);
  const Comparison found = between(yarn, "hf", "ctranslate2");
  ASSERT_THAT(words(found.differences), ElementsAre("rotation refused"));
  EXPECT_THAT(found.differences[0].message,
              HasSubstr("ctranslate2 has no plan for yarn that hf has: yarn: "));
  EXPECT_THAT(found.differences[0].layers, ElementsAre(0, 1, 2));
  EXPECT_EQ(found.differences[0].evidence.size(), 1U);
  EXPECT_TRUE(differs(found));
  const ModelSpec dynamic = scaled(kDynamic);
  EXPECT_EQ(
      refusal(side(dynamic, "ctranslate2"), side(dynamic, "onnxruntime"))
          .rfind("compare: neither ctranslate2 nor onnxruntime has a plan for this model, dynamic_ntk: ", 0),
      0U);
}

TEST(Compare, BiasesOfAlibi) {
  const ModelSpec bloom =
      read(R"({"model_type": "bloom", "vocab_size": 320, "hidden_size": 48, "n_layer": 2, "n_head": 6})");
  const Comparison found = between(bloom, "hf", "vllm", {.run_dtype = DType::bf16});
  ASSERT_THAT(words(found.differences), ElementsAre("bias bias"));
  EXPECT_EQ(found.distance, kDefaultDistance);
  EXPECT_EQ(found.distance_basis, "assumed");
  EXPECT_THAT(found.differences[0].message, HasSubstr("rounded to f32 under vllm and bf16 under hf"));
  EXPECT_THAT(words(between(bloom, "hf", "vllm").differences), IsEmpty());
  const ModelSpec falcon = read(
      R"({"model_type": "falcon", "vocab_size": 320, "hidden_size": 48, "num_hidden_layers": 2,
          "num_attention_heads": 12, "alibi": true, "new_decoder_architecture": false})");
  const Comparison slopes = between(falcon, "hf", "vllm");
  ASSERT_FALSE(slopes.differences.empty());
  EXPECT_EQ(slopes.differences[0].what, "slopes");
  EXPECT_TRUE(slopes.differences[0].first_f32.has_value());
  EXPECT_FALSE(slopes.differences[0].pairs.empty());
  EXPECT_TRUE(differs(slopes));
}

TEST(Compare, RowsOfMarian) {
  const ModelSpec marian = read(
      R"({"model_type": "marian", "vocab_size": 320, "d_model": 48, "encoder_layers": 2, "decoder_layers": 2,
          "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
          "decoder_ffn_dim": 64, "max_position_embeddings": 128})");
  const Comparison found = between(marian, "exact", "hf");
  ASSERT_FALSE(found.differences.empty());
  const Difference& one = found.differences[0];
  EXPECT_EQ(one.site + " " + one.what, "embedding inv_freq");
  ASSERT_TRUE(one.at_distance.has_value());
  EXPECT_EQ(one.at_distance->position, 127);
  EXPECT_GT(one.at_distance->difference, half_step(DType::bf16, 1));
  EXPECT_THAT(one.message, HasSubstr("an element is up to"));
}

TEST(Compare, HeadAndMlp) {
  const ModelSpec t5 = read(
      R"({"model_type": "t5", "vocab_size": 320, "d_model": 48, "d_kv": 12, "d_ff": 64, "num_layers": 2,
          "num_heads": 4})");
  const Comparison head = between(t5, "hf", "llama.cpp");
  ASSERT_THAT(words(head.differences), ElementsAre("head head_scale"));
  EXPECT_EQ(head.differences[0].b, 1.0);
  EXPECT_THAT(head.differences[0].evidence.at(0).what, HasSubstr("T5's tied head"));
  const ModelSpec untied = read(
      R"({"model_type": "t5", "vocab_size": 320, "d_model": 48, "d_kv": 12, "d_ff": 64, "num_layers": 2,
          "num_heads": 4, "tie_word_embeddings": false})");
  EXPECT_THAT(words(between(untied, "hf", "vllm").differences), ElementsAre("head tied"));
  const ModelSpec neox = read(
      R"({"model_type": "gpt_neox", "vocab_size": 320, "hidden_size": 96, "num_hidden_layers": 2,
          "num_attention_heads": 6, "intermediate_size": 100, "max_position_embeddings": 512})");
  EXPECT_THAT(words(between(neox, "vllm", "llama.cpp").differences), ElementsAre("mlp activation"));
}

TEST(Compare, PositionsOfImages) {
  const ModelSpec qwen = read(
      R"({"model_type": "qwen2_5_vl", "vocab_size": 320, "hidden_size": 96, "num_hidden_layers": 2,
          "num_attention_heads": 6, "num_key_value_heads": 2, "intermediate_size": 100,
          "max_position_embeddings": 512, "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]},
          "vision_config": {"spatial_merge_size": 2, "tokens_per_second": 2}})");
  const Comparison video = between(qwen, "hf", "vllm");
  ASSERT_THAT(words(video.differences), ElementsAre("position_ids after_video"));
  EXPECT_EQ(video.differences[0].a, 9.0);
  EXPECT_EQ(video.differences[0].b, 15.0);
  const Comparison axes = between(qwen, "vllm", "mlx");
  ASSERT_THAT(words(axes.differences), ElementsAre("rotation axis"));
  EXPECT_TRUE(axes.differences[0].inside);
  EXPECT_FALSE(axes.differences[0].first_f32.has_value());  // text has one position on all axes
}

TEST(Compare, TwoModels) {
  const ModelSpec a = llama();
  const ModelSpec b = llama(R"(, "sliding_window": 64, "hidden_act": "gelu")", "2048");
  const Comparison found = compare({.name = "A", .spec = &a}, {.name = "B", .spec = &b});
  EXPECT_EQ(found.distance, 2048);
  EXPECT_THAT(words(found.differences), testing::Contains("mlp activation"));
  EXPECT_THAT(words(found.differences), testing::Contains("lengths configured"));
  EXPECT_THAT(found.differences[0].message, HasSubstr("under B and silu under A"));
  EXPECT_TRUE(found.differences[0].evidence.empty());
  const Comparison same = compare({.name = "A", .spec = &a}, {.name = "B", .spec = &a});
  EXPECT_THAT(words(same.differences), IsEmpty());
}

// A GGUF file keeps 1e-5 in f32.
TEST(Compare, NumbersThatAreOneInF32) {
  const ModelSpec stated = llama(R"(, "rms_norm_eps": 1e-05)");
  const auto against = [&](const std::string& eps) {
    const ModelSpec other = llama(R"(, "rms_norm_eps": )" + eps);
    return words(compare({.name = "A", .spec = &stated}, {.name = "B", .spec = &other}).differences);
  };
  EXPECT_THAT(against("9.999999747378752e-06"), IsEmpty());
  EXPECT_THAT(against("1.0001e-05"), ElementsAre("norm eps"));
}

TEST(Compare, WhatIsRefused) {
  const ModelSpec plain = llama();
  EXPECT_EQ(refusal(side(plain, "hf"), side(plain, "vlm")),
            "recipe: no recipe has this name, got \"vlm\", did you mean \"vllm\"");
  EXPECT_EQ(refusal(side(plain, "hf"), side(plain, "vllm"), {.distance = 0}),
            "compare: a distance is at least 1 token, got 0");
  EXPECT_EQ(refusal(side(plain, "hf"), side(plain, "vllm"), {.capacity = 0}),
            "compare: a capacity is at least 1 token, got 0");
  EXPECT_EQ(refusal(side(plain, "hf"), side(plain, "vllm"), {.distance = 9, .capacity = 8}),
            "compare: a runtime that was opened for 8 tokens sees no more, got a distance of 9");
  const ModelSpec learned = read(
      R"({"model_type": "gpt2", "vocab_size": 320, "n_embd": 48, "n_layer": 2, "n_head": 6, "n_positions": 64})");
  EXPECT_EQ(refusal(side(learned, "hf"), side(learned, "vllm"), {.distance = 65}),
            "compare: the position table ends at position 63, got a distance of 65");
  EXPECT_EQ(between(learned, "hf", "vllm", {.distance = 64}).distance, 64);
  ModelSpec unknown = llama();
  unknown.family = "lama";
  unknown.generic = true;
  unknown.path = "x/config.json";
  EXPECT_EQ(refusal(side(unknown, "hf"), side(unknown, "vllm")),
            "compare: the recipes know families by name, and lama is none of them, got x/config.json");
  EXPECT_THROW((void)between(plain, "hf", "vllm", {.run_dtype = DType::f64}), SpecError);
}

TEST(Compare, PaddingIsANote) {
  const ModelSpec plain = llama();
  const Comparison found = between(plain, "hf", "vllm");
  ASSERT_EQ(found.notes.size(), 1U);
  EXPECT_THAT(found.notes[0], HasSubstr("counts its padding under hf and its content under vllm"));
  EXPECT_THAT(between(plain, "vllm", "mlx").notes, IsEmpty());
}

TEST(HalfStep, OfDtypesAtMagnitudes) {
  EXPECT_EQ(half_step(DType::bf16, 1), 0x1p-8);
  EXPECT_EQ(half_step(DType::f32, 1), 0x1p-24);
  EXPECT_EQ(half_step(DType::f16, 1), 0x1p-11);
  EXPECT_EQ(half_step(DType::bf16, 1.99), 0x1p-8);
  EXPECT_EQ(half_step(DType::bf16, 0.75), 0x1p-9);
  EXPECT_EQ(half_step(DType::bf16, 55.4), 0x1p-3);
  EXPECT_EQ(half_step(DType::f32, 0), 0);
}

TEST(StatedDtype, OfConfigs) {
  const TempDir dir;
  const auto of = [&](const std::string& text) { return stated_dtype(dir.write("config.json", text)); };
  EXPECT_EQ(of(R"({"torch_dtype": "bfloat16"})"), DType::bf16);
  EXPECT_EQ(of(R"({"dtype": "torch.float16", "torch_dtype": "float32"})"), DType::f16);
  EXPECT_EQ(of(R"({"text_config": {"dtype": "float32"}})"), DType::f32);
  EXPECT_EQ(of(R"({"torch_dtype": "auto"})"), std::nullopt);
  EXPECT_EQ(of(R"({"torch_dtype": 16})"), std::nullopt);
  EXPECT_EQ(of("[]"), std::nullopt);
  EXPECT_EQ(of("no json"), std::nullopt);
  EXPECT_EQ(stated_dtype("/nowhere/config.json"), std::nullopt);
}

}  // namespace
}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// Each family's config in both forms of transformers, against the defaults of its configuration class.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <variant>

#include "locant/positions.h"
#include "spec/configs.h"

namespace locant {
namespace {

using namespace tests;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

std::int64_t integer(const PositionSpec& spec, std::string_view name) {
  return std::get<std::int64_t>(spec.find(name)->value);
}
double number(const PositionSpec& spec, std::string_view name) {
  return std::get<double>(spec.find(name)->value);
}

void expect_sizes(const ModelSpec& spec, std::int64_t hidden, std::int64_t heads, std::int64_t head_dim) {
  EXPECT_EQ(spec.layers, 3);
  EXPECT_EQ(spec.hidden, hidden);
  EXPECT_EQ(spec.heads, heads);
  EXPECT_EQ(spec.head_dim, head_dim);
  EXPECT_EQ(spec.vocab, 320);
  EXPECT_EQ(spec.embedding.rows, 320);
  EXPECT_EQ(spec.embedding.width, hidden);
  EXPECT_EQ(spec.attention.size(), 3U);
  EXPECT_EQ(spec.positions.layers.size(), 3U);
  EXPECT_EQ(spec.positions.stack, Stack::decoder);
  EXPECT_EQ(spec.format, "hf");
  EXPECT_THAT(spec.notes, IsEmpty());
}

TEST(Families, AreSorted) {
  const std::vector<std::string_view> names = families();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  EXPECT_THAT(names, testing::IsSupersetOf({"bloom", "gpt2", "llama", "xglm", "gemma3", "t5", "deberta-v2"}));
}

TEST(Llama, Version5) {
  const ModelSpec spec = read(llama_v5());
  expect_sizes(spec, 72, 9, 10);
  EXPECT_EQ(spec.family, "llama");
  EXPECT_EQ(spec.kv_heads, 3);
  EXPECT_EQ(spec.norm.kind, NormKind::rms);
  EXPECT_EQ(spec.norm.eps, 1e-6);
  EXPECT_EQ(spec.mlp.activation, Activation::silu);
  EXPECT_TRUE(spec.mlp.gated);
  EXPECT_FALSE(spec.mlp.bias);
  EXPECT_EQ(spec.mlp.width, 100);
  EXPECT_FALSE(spec.block.biases.q);
  EXPECT_FALSE(spec.head.tied);
  EXPECT_EQ(spec.head.tied_key, "");
  EXPECT_FALSE(spec.head.bias);
  EXPECT_EQ(spec.head.scale, 1);
  EXPECT_EQ(spec.embedding.scale, 1);
  EXPECT_FALSE(spec.embedding.normed);
  EXPECT_EQ(spec.residual, Residual::from_input);
  EXPECT_EQ(spec.bos, 1);
  EXPECT_THAT(spec.eos, ElementsAre(2));
  EXPECT_EQ(spec.embedding.padding_id, std::nullopt);
  EXPECT_THAT(spec.positions.embedding, IsEmpty());
  for (const auto& layer : spec.positions.layers) {
    ASSERT_EQ(layer.size(), 1U);
    EXPECT_EQ(layer[0].mechanism, "rope");
    EXPECT_EQ(number(layer[0], "theta"), 123456.0);
    EXPECT_EQ(layer[0].find("theta")->key, "rope_parameters.rope_theta");
    EXPECT_EQ(integer(layer[0], "head_dim"), 10);
  }
  for (const AttentionSpec& attention : spec.attention) EXPECT_EQ(attention.scale, 1 / std::sqrt(10.0));
}

TEST(Llama, Version4) {
  const ModelSpec spec = read(llama_v4());
  expect_sizes(spec, 72, 9, 8);
  EXPECT_EQ(number(spec.positions.layers[2][0], "theta"), 123456.0);
  EXPECT_EQ(spec.positions.layers[2][0].find("theta")->key, "rope_theta");
  EXPECT_EQ(integer(spec.positions.layers[2][0], "head_dim"), 8);
}

TEST(Llama, PlanRotatesAdjacentHalves) {
  const ModelSpec spec = read(llama_v5());
  const Plan plan = locant::plan(spec.positions, find_recipe("exact"), {});
  ASSERT_EQ(plan.kinds.size(), 1U);
  ASSERT_TRUE(plan.kinds[0].rotation.has_value());
  const Rotation& rotation = *plan.kinds[0].rotation;
  EXPECT_EQ(rotation.read, Pairing::half);
  EXPECT_EQ(rotation.write, Pairing::half);
  EXPECT_EQ(rotation.head_dim, 10);
  EXPECT_EQ(rotation.width, 10);
  ASSERT_EQ(rotation.inv_freq.size(), 5U);
  EXPECT_DOUBLE_EQ(rotation.inv_freq[1], std::pow(123456.0, -0.2));
}

TEST(Llama, ThetaFromEachPlace) {
  const auto theta = [](const Json& config) { return number(read(config).positions.layers[0][0], "theta"); };
  const Json plain = without(llama_v5(), "rope_parameters");
  EXPECT_EQ(theta(plain), 10000);
  EXPECT_EQ(read(plain).positions.layers[0][0].find("theta")->key, "");
  EXPECT_EQ(theta(with(plain, {{"rope_theta", 500000}})), 500000);
  EXPECT_EQ(theta(with(plain, {{"rope_scaling", {{"rope_type", "default"}}}, {"rope_theta", 7000}})), 7000);
  EXPECT_EQ(theta(with(plain, {{"rope_scaling", {{"type", "default"}, {"rope_theta", 7000}}}})), 7000);
  EXPECT_EQ(theta(with(plain, {{"rope_parameters", {{"rope_theta", 7000}}}})), 7000);
  // transformers takes the block's own theta before one beside it
  EXPECT_EQ(theta(with(llama_v5(), {{"rope_theta", 7000}})), 123456.0);
}

TEST(Llama, AnEmptyRopeScalingIsNone) {
  const ModelSpec spec = read(with(llama_v5(), {{"rope_scaling", Json::object()}}));
  EXPECT_EQ(number(spec.positions.layers[0][0], "theta"), 123456.0);
}

TEST(Llama, Options) {
  const ModelSpec spec = read(with(llama_v5(), {{"attention_bias", true},
                                                {"mlp_bias", true},
                                                {"tie_word_embeddings", true},
                                                {"rms_norm_eps", 0.001},
                                                {"hidden_act", "gelu_pytorch_tanh"},
                                                {"max_position_embeddings", 4096}}));
  EXPECT_TRUE(spec.block.biases.q);
  EXPECT_TRUE(spec.mlp.bias);
  EXPECT_TRUE(spec.head.tied);
  EXPECT_EQ(spec.head.tied_key, "tie_word_embeddings");
  EXPECT_EQ(spec.norm.eps, 0.001);
  EXPECT_EQ(spec.mlp.activation, Activation::gelu_tanh);
  EXPECT_EQ(spec.lengths.configured, 4096);
  EXPECT_EQ(spec.lengths.configured_key, "max_position_embeddings");
  EXPECT_EQ(spec.lengths.trained, std::nullopt);
  EXPECT_EQ(spec.lengths.trained_basis, "");
}

TEST(Llama, AbsentKvHeadsAreTheHeads) {
  EXPECT_EQ(read(without(llama_v5(), "num_key_value_heads")).kv_heads, 9);
  EXPECT_EQ(read(with(llama_v5(), {{"num_key_value_heads", nullptr}})).kv_heads, 9);
}

TEST(Gpt2, Defaults) {
  const ModelSpec spec = read(gpt2());
  expect_sizes(spec, 60, 5, 12);
  EXPECT_EQ(spec.kv_heads, 5);
  EXPECT_EQ(spec.norm.kind, NormKind::layer);
  EXPECT_EQ(spec.norm.eps, 1e-5);
  EXPECT_EQ(spec.mlp.activation, Activation::gelu_tanh);
  EXPECT_FALSE(spec.mlp.gated);
  EXPECT_TRUE(spec.mlp.bias);
  EXPECT_EQ(spec.mlp.width, 240);
  EXPECT_TRUE(spec.block.biases.q);
  EXPECT_TRUE(spec.head.tied);
  EXPECT_EQ(spec.bos, 50256);
  EXPECT_THAT(spec.eos, ElementsAre(50256));
  ASSERT_EQ(spec.positions.embedding.size(), 1U);
  EXPECT_EQ(spec.positions.embedding[0].mechanism, "learned");
  EXPECT_EQ(integer(spec.positions.embedding[0], "rows"), 40);
  EXPECT_EQ(integer(spec.positions.embedding[0], "width"), 60);
  EXPECT_THAT(spec.positions.layers, Each(IsEmpty()));
  EXPECT_EQ(spec.lengths.configured, 40);
  for (const AttentionSpec& attention : spec.attention) EXPECT_EQ(attention.scale, 1 / std::sqrt(12.0));
}

TEST(Gpt2, BothFormsAgree) {
  const Json v5 = {{"model_type", "gpt2"},     {"vocab_size", 320},
                   {"hidden_size", 60},        {"num_hidden_layers", 3},
                   {"num_attention_heads", 5}, {"max_position_embeddings", 40},
                   {"dtype", "float32"},       {"transformers_version", "5.24.0"}};
  const ModelSpec spec = read(v5);
  expect_sizes(spec, 60, 5, 12);
  EXPECT_EQ(integer(spec.positions.embedding[0], "rows"), 40);
  EXPECT_EQ(read(with(gpt2(), {{"hidden_size", 60}})).hidden, 60);
}

TEST(Gpt2, Scales) {
  const auto scales = [](const Json& changes) {
    std::vector<double> found;
    for (const AttentionSpec& attention : read(with(gpt2(), changes)).attention)
      found.push_back(attention.scale);
    return found;
  };
  const double plain = 1 / std::sqrt(12.0);
  EXPECT_THAT(scales({{"scale_attn_weights", false}}), ElementsAre(1, 1, 1));
  EXPECT_THAT(scales({{"scale_attn_by_inverse_layer_idx", true}}), ElementsAre(plain, plain / 2, plain / 3));
  EXPECT_THAT(scales({{"scale_attn_by_inverse_layer_idx", true}, {"scale_attn_weights", false}}),
              ElementsAre(1, 1 / 2.0, 1 / 3.0));
}

TEST(Gpt2, InnerWidthAndActivation) {
  EXPECT_EQ(read(with(gpt2(), {{"n_inner", nullptr}})).mlp.width, 240);
  EXPECT_EQ(read(with(gpt2(), {{"n_inner", 77}})).mlp.width, 77);
  const auto activation = [](const char* word) {
    return read(with(gpt2(), {{"activation_function", word}})).mlp.activation;
  };
  EXPECT_EQ(activation("gelu"), Activation::gelu_erf);
  EXPECT_EQ(activation("gelu_new"), Activation::gelu_tanh);
  EXPECT_EQ(activation("relu"), Activation::relu);
  EXPECT_EQ(activation("silu"), Activation::silu);
  EXPECT_EQ(activation("swish"), Activation::silu);
}

TEST(Bloom, Defaults) {
  const ModelSpec spec = read(bloom());
  expect_sizes(spec, 56, 7, 8);
  EXPECT_EQ(spec.kv_heads, 7);
  EXPECT_EQ(spec.norm.kind, NormKind::layer);
  EXPECT_EQ(spec.norm.eps, 1e-5);
  EXPECT_EQ(spec.mlp.activation, Activation::gelu_tanh);
  EXPECT_FALSE(spec.mlp.gated);
  EXPECT_TRUE(spec.mlp.bias);
  EXPECT_EQ(spec.mlp.width, 224);
  EXPECT_TRUE(spec.block.biases.q);
  EXPECT_TRUE(spec.head.tied);
  EXPECT_TRUE(spec.embedding.normed);
  EXPECT_EQ(spec.embedding.scale, 1);
  EXPECT_EQ(spec.residual, Residual::from_input);
  EXPECT_EQ(spec.bos, 1);
  EXPECT_THAT(spec.eos, ElementsAre(2));
  EXPECT_THAT(spec.positions.embedding, IsEmpty());
  for (const auto& layer : spec.positions.layers) {
    ASSERT_EQ(layer.size(), 1U);
    EXPECT_EQ(layer[0].mechanism, "alibi");
    EXPECT_EQ(integer(layer[0], "heads"), 7);
  }
  EXPECT_EQ(spec.lengths.configured, std::nullopt);
}

TEST(Bloom, OldNames) {
  const Json old = {{"model_type", "bloom"},
                    {"vocab_size", 320},
                    {"n_embed", 56},
                    {"num_hidden_layers", 3},
                    {"num_attention_heads", 7},
                    {"seq_length", 2048},
                    {"layer_norm_epsilon", 2e-5},
                    {"masked_softmax_fusion", true},
                    {"offset_alibi", 100},
                    {"apply_residual_connection_post_layernorm", true}};
  const ModelSpec spec = read(old);
  expect_sizes(spec, 56, 7, 8);
  EXPECT_EQ(spec.norm.eps, 2e-5);
  EXPECT_EQ(spec.residual, Residual::from_norm);
  EXPECT_EQ(spec.lengths.configured, 2048);
  EXPECT_EQ(spec.lengths.configured_key, "seq_length");
}

TEST(Xglm, Defaults) {
  const ModelSpec spec = read(xglm());
  expect_sizes(spec, 52, 4, 13);
  EXPECT_EQ(spec.kv_heads, 4);
  EXPECT_EQ(spec.norm.kind, NormKind::layer);
  EXPECT_EQ(spec.norm.eps, 1e-5);
  EXPECT_EQ(spec.mlp.activation, Activation::gelu_erf);
  EXPECT_FALSE(spec.mlp.gated);
  EXPECT_TRUE(spec.mlp.bias);
  EXPECT_EQ(spec.mlp.width, 90);
  EXPECT_TRUE(spec.block.biases.q);
  EXPECT_TRUE(spec.head.tied);
  EXPECT_EQ(spec.embedding.scale, std::sqrt(52.0));
  EXPECT_EQ(spec.embedding.scale_key, "scale_embedding");
  EXPECT_EQ(spec.embedding.padding_id, 1);
  EXPECT_EQ(spec.bos, 0);
  EXPECT_THAT(spec.eos, ElementsAre(2));
  EXPECT_THAT(spec.positions.layers, Each(IsEmpty()));
  ASSERT_EQ(spec.positions.embedding.size(), 1U);
  const PositionSpec& sinusoidal = spec.positions.embedding[0];
  EXPECT_EQ(sinusoidal.mechanism, "sinusoidal");
  EXPECT_EQ(integer(sinusoidal, "width"), 52);
  EXPECT_EQ(integer(sinusoidal, "offset"), 2);
  EXPECT_EQ(integer(sinusoidal, "zero_row"), 1);
  const Plan plan = locant::plan(spec.positions, find_recipe("hf"), {});
  ASSERT_EQ(plan.embedding.size(), 1U);
  EXPECT_EQ(plan.embedding[0].rows, 0);
  EXPECT_EQ(plan.embedding[0].zero_row, 1);
}

TEST(Xglm, BothFormsAgree) {
  const Json v5 = {{"model_type", "xglm"},         {"vocab_size", 320},        {"hidden_size", 52},
                   {"num_hidden_layers", 3},       {"num_attention_heads", 4}, {"ffn_dim", 90},
                   {"max_position_embeddings", 48}};
  const ModelSpec spec = read(v5);
  expect_sizes(spec, 52, 4, 13);
  EXPECT_EQ(spec.lengths.configured, 48);
}

TEST(Xglm, ScaleAndPadding) {
  const ModelSpec plain = read(with(xglm(), {{"scale_embedding", false}, {"pad_token_id", nullptr}}));
  EXPECT_EQ(plain.embedding.scale, 1);
  EXPECT_EQ(plain.embedding.padding_id, std::nullopt);
  EXPECT_EQ(plain.positions.embedding[0].find("zero_row"), nullptr);
  EXPECT_EQ(integer(read(with(xglm(), {{"pad_token_id", 5}})).positions.embedding[0], "zero_row"), 5);
}

TEST(SpecialIds, ListsNullsAndMinusOne) {
  EXPECT_THAT(read(with(llama_v5(), {{"eos_token_id", {5, 7, 9}}})).eos, ElementsAre(5, 7, 9));
  EXPECT_THAT(read(with(llama_v5(), {{"eos_token_id", 5}})).eos, ElementsAre(5));
  EXPECT_THAT(read(with(llama_v5(), {{"eos_token_id", nullptr}})).eos, IsEmpty());
  EXPECT_EQ(read(with(llama_v5(), {{"bos_token_id", nullptr}})).bos, std::nullopt);
  EXPECT_EQ(read(with(llama_v5(), {{"bos_token_id", 0}})).bos, 0);
  EXPECT_EQ(read(with(llama_v5(), {{"pad_token_id", -1}})).embedding.padding_id, std::nullopt);
  EXPECT_EQ(read(with(llama_v5(), {{"pad_token_id", 3}})).embedding.padding_id, 3);
}

}  // namespace
}  // namespace locant

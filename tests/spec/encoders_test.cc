// SPDX-License-Identifier: Apache-2.0
// Encoders and encoder-decoders: norms, heads, stacks of their own sizes, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "spec/configs.h"

namespace locant {
namespace {

using namespace tests;
using testing::HasSubstr;

Json bert(const char* family, const Json& keys = Json::object()) {
  Json config = {{"model_type", family},     {"vocab_size", 320},
                 {"hidden_size", 60},        {"num_hidden_layers", 4},
                 {"num_attention_heads", 5}, {"intermediate_size", 84},
                 {"type_vocab_size", 2},     {"max_position_embeddings", 64},
                 {"pad_token_id", 1}};
  config.update(keys);
  return config;
}

Json bart(const char* family, const Json& keys = Json::object()) {
  Json config = {{"model_type", family},
                 {"is_encoder_decoder", true},
                 {"vocab_size", 320},
                 {"d_model", 60},
                 {"encoder_layers", 2},
                 {"decoder_layers", 3},
                 {"encoder_attention_heads", 5},
                 {"decoder_attention_heads", 5},
                 {"encoder_ffn_dim", 70},
                 {"decoder_ffn_dim", 84},
                 {"max_position_embeddings", 64},
                 {"decoder_start_token_id", 2}};
  config.update(keys);
  return config;
}

Json t5(const Json& keys = Json::object()) {
  Json config = {{"model_type", "t5"}, {"is_encoder_decoder", true},
                 {"vocab_size", 320},  {"d_model", 60},
                 {"d_kv", 14},         {"d_ff", 84},
                 {"num_layers", 2},    {"num_decoder_layers", 3},
                 {"num_heads", 5}};
  config.update(keys);
  return config;
}

std::string refusal(const Json& config) {
  try {
    (void)read(config);
  } catch (const SpecError& error) {
    return error.what();
  }
  return "nothing was refused";
}

void expect_normed_sums(const ModelSpec& spec) {
  EXPECT_FALSE(spec.block.attention.before);
  EXPECT_TRUE(spec.block.attention.sum);
  EXPECT_FALSE(spec.block.mlp.before);
  EXPECT_TRUE(spec.block.mlp.sum);
  EXPECT_FALSE(spec.block.final_norm);
}

TEST(Encoders, Bert) {
  const ModelSpec spec = read(bert("bert"));
  expect_normed_sums(spec);
  EXPECT_TRUE(spec.attention[0].bidirectional);
  EXPECT_TRUE(spec.head.masked);
  EXPECT_TRUE(spec.head.bias);
  EXPECT_EQ(spec.head.transform, Activation::gelu_erf);
  EXPECT_EQ(spec.norm.eps, 1e-12);
  EXPECT_EQ(spec.embedding.token_types, 2);
  EXPECT_EQ(read(bert("bert", {{"hidden_act", "relu"}})).head.transform, Activation::relu);
  EXPECT_FALSE(read(bert("bert", {{"is_decoder", true}})).attention[0].bidirectional);
  EXPECT_THAT(refusal(bert("bert", {{"position_embedding_type", "alibi"}})),
              HasSubstr("position_embedding_type must be \"absolute\""));
  EXPECT_THAT(refusal(bert("bert", {{"add_cross_attention", true}})), HasSubstr("add_cross_attention"));
  EXPECT_THAT(refusal(bert("bert", {{"is_encoder_decoder", true}})), HasSubstr("one stack of layers"));
}

TEST(Encoders, RobertaAndItsKin) {
  for (const char* family : {"roberta", "xlm-roberta", "camembert"}) {
    const ModelSpec spec = read(bert(family, {{"hidden_act", "relu"}}));
    expect_normed_sums(spec);
    EXPECT_EQ(spec.head.transform, Activation::gelu_erf) << family;
    EXPECT_EQ(integer(spec.positions.embedding[0], "offset"), 2) << family;
  }
}

TEST(Encoders, Albert) {
  const Json keys = {{"embedding_size", 28}, {"num_hidden_groups", 2}};
  const ModelSpec spec = read(bert("albert", keys));
  EXPECT_EQ(spec.block.weight_sets, 2);
  EXPECT_EQ(spec.embedding.factorised_width, 28);
  EXPECT_EQ(spec.embedding.width, 28);
  EXPECT_THAT(refusal(with(bert("albert", keys), {{"num_hidden_groups", 3}})),
              HasSubstr("num_hidden_groups must be a divisor of num_hidden_layers, got 3"));
  EXPECT_THAT(refusal(with(bert("albert", keys), {{"inner_group_num", 2}})),
              HasSubstr("inner_group_num must be 1"));
  EXPECT_THAT(refusal(with(bert("albert", keys), {{"embedding_size", 60}})),
              HasSubstr("embedding_size must be another number than hidden_size"));
}

TEST(Encoders, Distilbert) {
  const ModelSpec spec = read({{"model_type", "distilbert"},
                               {"vocab_size", 320},
                               {"dim", 60},
                               {"n_layers", 2},
                               {"n_heads", 5},
                               {"hidden_dim", 84},
                               {"max_position_embeddings", 64}});
  expect_normed_sums(spec);
  EXPECT_EQ(spec.norm.eps, 1e-12);
  EXPECT_EQ(spec.mlp.width, 84);
  EXPECT_EQ(spec.embedding.token_types, 0);
}

TEST(Encoders, Modernbert) {
  const Json config = {{"model_type", "modernbert"},    {"vocab_size", 320},        {"hidden_size", 60},
                       {"num_hidden_layers", 4},        {"num_attention_heads", 5}, {"intermediate_size", 84},
                       {"max_position_embeddings", 64}, {"local_attention", 24}};
  const ModelSpec spec = read(config);
  EXPECT_FALSE(spec.block.first_norm);
  EXPECT_TRUE(spec.block.final_norm);
  EXPECT_FALSE(spec.norm.bias);
  EXPECT_TRUE(spec.mlp.gated);
  EXPECT_EQ(spec.attention[0].kind, AttentionKind::full);
  EXPECT_EQ(spec.attention[1].kind, AttentionKind::window);
  EXPECT_EQ(spec.attention[1].window, 12);
  EXPECT_THAT(refusal(with(config, {{"classifier_bias", true}})), HasSubstr("classifier_bias must be false"));
}

TEST(EncoderDecoders, Bart) {
  const ModelSpec spec = read(bart("bart"));
  expect_normed_sums(spec);
  EXPECT_EQ(spec.layers, 3);
  EXPECT_EQ(spec.mlp.width, 84);
  ASSERT_EQ(spec.others.size(), 2U);
  EXPECT_EQ(spec.others[0].attention.size(), 2U);
  EXPECT_EQ(spec.others[0].mlp_width, 70);
  EXPECT_EQ(spec.others[0].heads, 5);
  EXPECT_EQ(spec.decoder_start, 2);
  EXPECT_TRUE(spec.head.bias);
  EXPECT_TRUE(spec.embedding.normed);
  EXPECT_THAT(refusal(bart("bart", {{"is_encoder_decoder", false}})),
              HasSubstr("this family is an encoder and a decoder"));
  EXPECT_THAT(refusal(bart("bart", {{"normalize_before", true}})),
              HasSubstr("normalize_before must be false"));
  EXPECT_THAT(refusal(bart("bart", {{"encoder_attention_heads", 6}})),
              HasSubstr("encoder_attention_heads must be the decoder's 5"));
}

TEST(EncoderDecoders, KinOfBart) {
  const ModelSpec mbart = read(bart("mbart", {{"scale_embedding", true}}));
  EXPECT_TRUE(mbart.block.attention.before);
  EXPECT_TRUE(mbart.block.final_norm);
  EXPECT_EQ(mbart.embedding.scale, std::sqrt(60.0));
  const ModelSpec marian = read(bart("marian"));
  expect_normed_sums(marian);
  EXPECT_FALSE(marian.embedding.normed);
  EXPECT_THAT(refusal(bart("marian", {{"share_encoder_decoder_embeddings", false}})),
              HasSubstr("encoder and decoder share their table"));
  EXPECT_FALSE(read(bart("m2m_100")).head.bias);
}

TEST(EncoderDecoders, T5) {
  const ModelSpec spec = read(t5());
  EXPECT_EQ(spec.layers, 3);
  EXPECT_EQ(spec.head_dim, 14);
  EXPECT_EQ(spec.attention[0].scale, 1);
  EXPECT_FALSE(spec.mlp.gated);
  EXPECT_EQ(spec.mlp.activation, Activation::relu);
  EXPECT_EQ(spec.head.scale, 1 / std::sqrt(60.0));
  EXPECT_TRUE(spec.head.tied_regardless);
  EXPECT_EQ(spec.decoder_start, 0);
  EXPECT_EQ(read(t5({{"decoder_start_token_id", 7}})).decoder_start, 7);
  const ModelSpec gated = read(t5({{"feed_forward_proj", "gated-gelu"}, {"tie_word_embeddings", false}}));
  EXPECT_TRUE(gated.mlp.gated);
  EXPECT_EQ(gated.mlp.activation, Activation::gelu_tanh);
  EXPECT_EQ(gated.head.scale, 1);
  EXPECT_THAT(refusal(t5({{"feed_forward_proj", "gated-tanh"}})), HasSubstr("feed_forward_proj must be"));
}

}  // namespace
}  // namespace locant

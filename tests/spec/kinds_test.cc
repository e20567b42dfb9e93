// SPDX-License-Identifier: Apache-2.0
// Facts that transformers' modules do not show by themselves: tables, offsets, token types, stacks, biases,
// and what becomes of families and keys that nobody knows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "budgets.h"
#include "locant/positions.h"
#include "spec/configs.h"

namespace locant {
namespace {

using namespace tests;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

void expect_plans(const ModelSpec& spec) {
  for (const char* const recipe : {"exact", "hf"}) {
    EXPECT_NO_THROW((void)locant::plan(spec.positions, find_recipe(recipe), {})) << spec.family;
    for (const StackSpec& other : spec.others) {
      EXPECT_NO_THROW((void)locant::plan(other.positions, find_recipe(recipe), {})) << spec.family;
    }
  }
}

TEST(Families, EachReadsFromItsDefaultsAlone) {
  for (const std::string_view name : families()) {
    if (name == "bloom" || name == "gpt2" || name == "llama" || name == "xglm") continue;
    SCOPED_TRACE(name);
    const ModelSpec spec = looked_at({{"model_type", std::string(name)}});
    EXPECT_FALSE(spec.generic);
    EXPECT_EQ(spec.attention.size(), spec.positions.layers.size());
  }
}

TEST(Learned, RobertaCountsFromBehindItsPadding) {
  const ModelSpec spec =
      looked_at({{"model_type", "roberta"}, {"max_position_embeddings", 514}, {"pad_token_id", 1}});
  const PositionSpec& table = spec.positions.embedding.at(0);
  EXPECT_EQ(integer(table, "rows"), 514);
  EXPECT_EQ(integer(table, "offset"), 2);
  EXPECT_EQ(
      integer(looked_at({{"model_type", "roberta"}, {"pad_token_id", 7}}).positions.embedding[0], "offset"),
      8);
  EXPECT_EQ(spec.positions.embedding.at(1).mechanism, "token_types");
  EXPECT_TRUE(spec.attention.at(0).bidirectional);
  EXPECT_TRUE(spec.head.bias);
  expect_plans(spec);
}

TEST(Learned, OptAddsTwoRows) {
  const ModelSpec spec =
      looked_at({{"model_type", "opt"}, {"max_position_embeddings", 2048}, {"word_embed_proj_dim", 512}});
  EXPECT_EQ(integer(spec.positions.embedding.at(0), "rows"), 2050);
  EXPECT_EQ(integer(spec.positions.embedding[0], "offset"), 2);
  EXPECT_EQ(integer(spec.positions.embedding[0], "width"), 768);
  EXPECT_EQ(spec.embedding.factorised_width, 512);
  expect_plans(spec);
}

TEST(Learned, AlbertAndElectraFactorise) {
  const ModelSpec albert = looked_at({{"model_type", "albert"}});
  EXPECT_EQ(albert.embedding.factorised_width, 128);
  EXPECT_EQ(albert.embedding.token_types, 2);
  EXPECT_EQ(integer(albert.positions.embedding.at(0), "width"), 128);
  EXPECT_EQ(integer(albert.positions.embedding.at(1), "width"), 128);
  const ModelSpec electra =
      looked_at({{"model_type", "electra"}, {"hidden_size", 128}, {"num_attention_heads", 4}});
  EXPECT_EQ(electra.embedding.factorised_width, 0);
}

TEST(Learned, GptNeoAlternatesAndScalesNothing) {
  const ModelSpec spec = looked_at({{"model_type", "gpt_neo"}, {"num_layers", 4}});
  EXPECT_EQ(spec.attention.at(0).kind, AttentionKind::full);
  EXPECT_EQ(spec.attention.at(1).kind, AttentionKind::window);
  EXPECT_EQ(spec.attention.at(3).window, 256);
  EXPECT_EQ(spec.attention.at(3).scale, 1);
  EXPECT_EQ(spec.positions.embedding.size(), 1U);
}

TEST(Learned, AGptNeoThatRotatesIsAGptJ) {
  const ModelSpec spec = looked_at(
      {{"model_type", "gpt_neo"}, {"num_layers", 2}, {"num_heads", 8}, {"rotary", true}, {"rotary_dim", 64}});
  EXPECT_THAT(spec.positions.embedding, IsEmpty());
  const PositionSpec& rope = spec.positions.layers.at(1).at(0);
  EXPECT_EQ(integer(rope, "rotary_dim"), 64);
  EXPECT_EQ(word(rope, "pairing"), "interleaved");
  EXPECT_EQ(spec.attention.at(0).scale, 1 / std::sqrt(256.0));
  EXPECT_THAT(texts_of(spec.notes), Contains(HasSubstr("rotary")));
}

TEST(Learned, GptBigcodeHasOneKeyHead) {
  EXPECT_EQ(looked_at({{"model_type", "gpt_bigcode"}}).kv_heads, 1);
  EXPECT_EQ(looked_at({{"model_type", "gpt_bigcode"}, {"multi_query", false}}).kv_heads, 12);
}

TEST(Sinusoids, CtrlScalesItsEmbeddings) {
  const ModelSpec spec = looked_at({{"model_type", "ctrl"}});
  EXPECT_EQ(word(spec.positions.embedding.at(0), "dialect"), "ctrl");
  EXPECT_EQ(spec.embedding.scale, std::sqrt(1280.0));
  expect_plans(spec);
}

TEST(Bias, JinaBertKeepsTheNameOfBert) {
  const ModelSpec spec = looked_at({{"model_type", "bert"}, {"position_embedding_type", "alibi"}});
  ASSERT_EQ(spec.positions.layers.at(3).size(), 1U);
  EXPECT_EQ(spec.positions.layers[3][0].mechanism, "alibi");
  ASSERT_EQ(spec.positions.embedding.size(), 1U);
  EXPECT_EQ(spec.positions.embedding[0].mechanism, "token_types");
  const ModelSpec other = looked_at({{"model_type", "bert"}, {"position_embedding_type", "relative_key"}});
  EXPECT_THAT(texts_of(other.notes), Contains(HasSubstr("position_embedding_type")));
}

TEST(Bias, FalconAddsBeforeTheScale) {
  const ModelSpec spec = looked_at({{"model_type", "falcon"}, {"alibi", true}});
  EXPECT_EQ(word(spec.positions.layers.at(0).at(0), "scale_order"), "before_scale");
  EXPECT_EQ(spec.kv_heads, 1);
  const ModelSpec grouped = looked_at({{"model_type", "falcon"},
                                       {"new_decoder_architecture", true},
                                       {"num_kv_heads", 8},
                                       {"num_attention_heads", 128},
                                       {"hidden_size", 8192}});
  EXPECT_EQ(grouped.kv_heads, 8);
  EXPECT_EQ(grouped.positions.layers.at(0).at(0).mechanism, "rope");
}

TEST(Bias, MptReadsItsAttentionBlock) {
  const Json base = {{"model_type", "mpt"}, {"n_layers", 2}};
  const ModelSpec alibi = looked_at(with(base, {{"attn_config", {{"alibi", true}, {"alibi_bias_max", 16}}}}));
  EXPECT_EQ(alibi.positions.layers.at(0).at(0).find("bias_max")->key, "attn_config.alibi_bias_max");
  EXPECT_THAT(alibi.positions.embedding, IsEmpty());
  const ModelSpec table = looked_at(with(base, {{"attn_config", {{"alibi", false}}}}));
  EXPECT_THAT(table.positions.layers, Each(IsEmpty()));
  EXPECT_EQ(integer(table.positions.embedding.at(0), "rows"), 2048);
  const ModelSpec rope =
      looked_at(with(base, {{"attn_config", {{"alibi", false}, {"rope", true}, {"rope_theta", 500.0}}}}));
  EXPECT_EQ(std::get<double>(rope.positions.layers.at(1).at(0).find("theta")->value), 500);
}

TEST(Bias, BaichuanIsToldByItsDepth) {
  const Json base = {{"model_type", "baichuan"},
                     {"vocab_size", 64000},
                     {"hidden_size", 5120},
                     {"num_attention_heads", 40},
                     {"intermediate_size", 13696}};
  EXPECT_EQ(looked_at(with(base, {{"num_hidden_layers", 40}})).positions.layers.at(0).at(0).mechanism,
            "alibi");
  EXPECT_EQ(looked_at(with(base, {{"num_hidden_layers", 32}})).positions.layers.at(0).at(0).mechanism,
            "rope");
}

TEST(Bias, DebertaInBothSpellings) {
  const Json base = {{"model_type", "deberta-v2"}, {"relative_attention", true}, {"position_buckets", 256},
                     {"share_att_key", true},      {"hidden_size", 768},         {"num_attention_heads", 12}};
  for (const Json& terms : {Json("c2p|p2c"), Json({"p2c", "c2p"})}) {
    const ModelSpec spec = looked_at(with(base, {{"pos_att_type", terms}, {"position_biased_input", false}}));
    const PositionSpec& relative = spec.positions.layers.at(0).at(0);
    EXPECT_EQ(word(relative, "pos_att_type"), "c2p|p2c");
    EXPECT_EQ(integer(relative, "position_buckets"), 256);
    EXPECT_EQ(integer(relative, "max_relative_positions"), 512);
    EXPECT_EQ(relative.find("max_relative_positions")->key, "");
    EXPECT_EQ(word(relative, "projections"), "shared");
    EXPECT_THAT(spec.positions.embedding, IsEmpty());
    EXPECT_EQ(spec.attention.at(0).scale, 1 / std::sqrt(192.0));
    expect_plans(spec);
  }
  const ModelSpec absolute = looked_at({{"model_type", "deberta"}, {"type_vocab_size", 2}});
  EXPECT_EQ(absolute.positions.embedding.size(), 2U);
  EXPECT_THAT(absolute.positions.layers, Each(IsEmpty()));
}

TEST(Stacks, T5HasBucketsOnBothSidesAndNoneAcross) {
  const ModelSpec spec = looked_at({{"model_type", "t5"}, {"num_layers", 4}, {"num_decoder_layers", 3}});
  EXPECT_EQ(spec.layers, 3);
  EXPECT_EQ(word(spec.positions.layers.at(2).at(0), "direction"), "causal");
  ASSERT_EQ(spec.others.size(), 2U);
  EXPECT_EQ(spec.others[0].positions.stack, Stack::encoder);
  EXPECT_EQ(spec.others[0].positions.layers.size(), 4U);
  EXPECT_EQ(word(spec.others[0].positions.layers.at(3).at(0), "direction"), "bidirectional");
  EXPECT_TRUE(spec.others[0].attention.at(0).bidirectional);
  EXPECT_EQ(spec.others[1].positions.stack, Stack::cross);
  EXPECT_THAT(spec.others[1].positions.layers, Each(IsEmpty()));
  EXPECT_EQ(spec.attention.at(0).scale, 1);
  EXPECT_EQ(spec.head.scale, 1 / std::sqrt(512.0));
  EXPECT_EQ(spec.lengths.configured, std::nullopt);
  EXPECT_EQ(looked_at({{"model_type", "t5"}, {"tie_word_embeddings", false}}).head.scale, 1);
  EXPECT_TRUE(spec.head.tied);
  EXPECT_TRUE(spec.head.tied_regardless);
  EXPECT_FALSE(looked_at({{"model_type", "t5"}, {"tie_word_embeddings", false}}).head.tied);
  EXPECT_TRUE(looked_at({{"model_type", "t5"}, {"feed_forward_proj", "gated-gelu"}}).mlp.gated);
  expect_plans(spec);
}

TEST(Stacks, BartM2m100MarianAndWhisper) {
  const ModelSpec bart = looked_at({{"model_type", "bart"}, {"decoder_layers", 3}, {"encoder_layers", 5}});
  EXPECT_EQ(bart.layers, 3);
  EXPECT_EQ(bart.others.at(0).attention.size(), 5U);
  EXPECT_EQ(integer(bart.positions.embedding.at(0), "rows"), 1026);
  EXPECT_EQ(integer(bart.others[0].positions.embedding.at(0), "offset"), 2);
  expect_plans(bart);
  const ModelSpec m2m = looked_at({{"model_type", "m2m_100"}});
  EXPECT_EQ(word(m2m.positions.embedding.at(0), "dialect"), "halves");
  EXPECT_EQ(integer(m2m.positions.embedding[0], "zero_row"), 1);
  EXPECT_EQ(m2m.embedding.scale, 32);
  expect_plans(m2m);
  const ModelSpec marian = looked_at({{"model_type", "marian"}});
  EXPECT_EQ(word(marian.positions.embedding.at(0), "dialect"), "marian");
  EXPECT_EQ(word(marian.positions.embedding[0], "arithmetic"), "f64");
  expect_plans(marian);
  const ModelSpec whisper = looked_at({{"model_type", "whisper"}});
  EXPECT_EQ(integer(whisper.positions.embedding.at(0), "rows"), 448);
  EXPECT_EQ(whisper.others.at(0).positions.embedding.at(0).mechanism, "sinusoidal");
  EXPECT_EQ(whisper.lengths.configured, 448);
  expect_plans(whisper);
}

TEST(Rotations, ChatglmRotatesHalfOfEachHead) {
  const ModelSpec spec = looked_at({{"model_type", "chatglm"},
                                    {"padded_vocab_size", 65024},
                                    {"hidden_size", 4096},
                                    {"num_layers", 28},
                                    {"num_attention_heads", 32},
                                    {"kv_channels", 128},
                                    {"ffn_hidden_size", 13696},
                                    {"multi_query_attention", true},
                                    {"multi_query_group_num", 2},
                                    {"rope_ratio", 50},
                                    {"seq_length", 8192},
                                    {"original_rope", true}});
  const PositionSpec& rope = spec.positions.layers.at(0).at(0);
  EXPECT_EQ(std::get<double>(rope.find("theta")->value), 500000);
  EXPECT_EQ(rope.find("theta")->key, "rope_ratio");
  EXPECT_EQ(integer(rope, "rotary_dim"), 64);
  EXPECT_EQ(word(rope, "pairing"), "interleaved");
  EXPECT_EQ(spec.kv_heads, 2);
  EXPECT_EQ(spec.vocab, 65024);
  EXPECT_EQ(spec.lengths.configured_key, "seq_length");
}

TEST(Rotations, DbrxKeepsItsBaseInsideTheAttention) {
  const ModelSpec spec =
      looked_at({{"model_type", "dbrx"}, {"attn_config", {{"rope_theta", 500000}, {"kv_n_heads", 8}}}});
  EXPECT_EQ(spec.positions.layers.at(0).at(0).find("theta")->key, "attn_config.rope_theta");
  EXPECT_EQ(spec.kv_heads, 8);
}

TEST(Rotations, LatentHeadsRotateTheirEnd) {
  const ModelSpec spec = looked_at({{"model_type", "deepseek_v3"}, {"num_hidden_layers", 2}});
  const PositionSpec& rope = spec.positions.layers.at(0).at(0);
  EXPECT_EQ(spec.head_dim, 192);
  EXPECT_EQ(integer(rope, "rotary_offset"), 128);
  EXPECT_EQ(integer(rope, "rotary_dim"), 64);
  EXPECT_EQ(word(rope, "write_pairing"), "half");
  EXPECT_EQ(integer(rope, "shared_key"), 1);
  expect_plans(spec);
}

TEST(Rotations, MinistralScalesQueriesFromTheBlock) {
  const ModelSpec spec = looked_at({{"model_type", "ministral3"}, {"num_hidden_layers", 2}});
  ASSERT_EQ(spec.positions.layers.at(0).size(), 2U);
  EXPECT_EQ(spec.positions.layers[0][1].mechanism, "attention_temperature");
  EXPECT_EQ(integer(spec.positions.layers[0][1], "shift"), 0);
  expect_plans(spec);
}

TEST(Rotations, GptOssHasSinks) {
  const ModelSpec spec = looked_at({{"model_type", "gpt_oss"}});
  EXPECT_TRUE(spec.attention.at(0).sinks);
  EXPECT_EQ(integer(spec.positions.layers.at(0).at(0), "truncate"), 0);
}

TEST(Lengths, ABlockStatesWhatTheModelWasTrainedAt) {
  const ModelSpec spec = read(with(llama_v4(), {{"max_position_embeddings", 131072},
                                                {"rope_scaling",
                                                 {{"rope_type", "llama3"},
                                                  {"factor", 8.0},
                                                  {"low_freq_factor", 1.0},
                                                  {"high_freq_factor", 4.0},
                                                  {"original_max_position_embeddings", 8192}}}}));
  EXPECT_EQ(spec.positions.layers.at(0).at(0).mechanism, "llama3");
  EXPECT_EQ(spec.lengths.trained, 8192);
  EXPECT_EQ(spec.lengths.trained_basis, "rope_scaling.original_max_position_embeddings");
  // Without one, transformers takes the configured length, which nobody stated as the trained one.
  const ModelSpec none = read(with(llama_v4(), {{"max_position_embeddings", 4096},
                                                {"rope_scaling", {{"type", "yarn"}, {"factor", 4.0}}}}));
  EXPECT_EQ(none.lengths.trained, std::nullopt);
}

TEST(Nested, TheTextPartDecides) {
  const Json inner = {{"model_type", "phi3"},
                      {"rope_scaling",
                       {{"type", "su"},
                        {"short_factor", std::vector<double>(48, 1.0)},
                        {"long_factor", std::vector<double>(48, 2.0)}}}};
  const ModelSpec unknown = looked_at({{"model_type", "internvl_chat"}, {"llm_config", inner}});
  EXPECT_EQ(unknown.family, "phi3");
  EXPECT_FALSE(unknown.generic);
  EXPECT_EQ(unknown.positions.layers.at(0).at(0).mechanism, "longrope");
  EXPECT_EQ(unknown.positions.layers[0][0].find("long_factor")->key, "llm_config.rope_scaling.long_factor");
  const ModelSpec known =
      looked_at({{"model_type", "gemma3"}, {"text_config", {{"model_type", "gemma3_text"}}}});
  EXPECT_EQ(known.family, "gemma3");
  const ModelSpec tied =
      looked_at({{"model_type", "qwen3_vl"},
                 {"tie_word_embeddings", true},
                 {"text_config", {{"model_type", "qwen3_vl_text"}, {"tie_word_embeddings", false}}}});
  EXPECT_TRUE(tied.head.tied);
}

TEST(Generic, AnUnknownFamilyKeepsWhatItsKeysSay) {
  const ModelSpec spec = looked_at({{"model_type", "weird"},
                                    {"vocab_size", 100},
                                    {"hidden_size", 64},
                                    {"num_hidden_layers", 3},
                                    {"num_attention_heads", 4},
                                    {"rope_theta", 777.0},
                                    {"partial_rotary_factor", 0.5},
                                    {"max_position_embeddings", 999}});
  EXPECT_TRUE(spec.generic);
  EXPECT_EQ(spec.family, "weird");
  EXPECT_EQ(spec.hidden, 64);
  EXPECT_EQ(integer(spec.positions.layers.at(2).at(0), "rotary_dim"), 8);
  EXPECT_THAT(texts_of(spec.notes), Contains(HasSubstr("\"weird\"")));
  EXPECT_THAT(texts_of(spec.notes), Contains(HasSubstr("pair")));
  expect_plans(spec);
  const ModelSpec silent = looked_at(Json::object());
  EXPECT_TRUE(silent.generic);
  EXPECT_EQ(silent.layers, 0);
  EXPECT_THAT(texts_of(silent.notes), Contains(HasSubstr("hidden_size is not stated")));
  EXPECT_THAT(texts_of(silent.notes), Contains(HasSubstr("how positions are marked")));
}

TEST(Generic, SlopesAndTables) {
  const Json base = {
      {"model_type", "weird"}, {"hidden_size", 64}, {"num_hidden_layers", 3}, {"num_attention_heads", 4}};
  EXPECT_EQ(looked_at(with(base, {{"alibi", true}})).positions.layers.at(0).at(0).mechanism, "alibi");
  EXPECT_EQ(looked_at(with(base, {{"position_embedding_type", "absolute"}, {"max_position_embeddings", 9}}))
                .positions.embedding.at(0)
                .mechanism,
            "learned");
  const ModelSpec latent =
      looked_at(with(base, {{"rope_theta", 1e4}, {"qk_rope_head_dim", 8}, {"qk_nope_head_dim", 16}}));
  EXPECT_EQ(integer(latent.positions.layers.at(0).at(0), "rotary_offset"), 16);
  EXPECT_EQ(latent.head_dim, 24);
}

TEST(Generic, BrokenValuesStillThrow) {
  const auto refused = [](const Json& config) {
    return message_of<SpecError>([&] { (void)looked_at(config); });
  };
  EXPECT_THAT(refused({{"model_type", "weird"}, {"hidden_size", "big"}}), HasSubstr("hidden_size"));
  EXPECT_THAT(refused({{"model_type", "weird"}, {"num_hidden_layers", -1}}), HasSubstr("num_hidden_layers"));
  EXPECT_THAT(refused({{"model_type", 3}}), HasSubstr("model_type"));
  EXPECT_THAT(refused({{"model_type", "qwen2"}, {"rope_theta", "big"}}), HasSubstr("rope_theta"));
  EXPECT_THAT(refused({{"model_type", "roberta"}, {"max_position_embeddings", 2}}),
              HasSubstr("pad_token_id"));
  EXPECT_THAT(refused({{"model_type", "gemma2"}, {"query_pre_attn_scalar", 0}}),
              HasSubstr("query_pre_attn_scalar"));
}

TEST(Notes, FactsNameWhatIsNotUnderstood) {
  const ModelSpec spec = looked_at(with(llama_v5(), {{"attn_logit_softcapping", 50.0},
                                                     {"future_rope_trick", 3},
                                                     {"sliding_window", 128},
                                                     {"my_comment", "hello"}}));
  EXPECT_THAT(texts_of(spec.notes), Contains(HasSubstr("attn_logit_softcapping")));
  EXPECT_THAT(texts_of(spec.notes), Contains(HasSubstr("future_rope_trick")));
  EXPECT_THAT(texts_of(spec.notes), Contains(HasSubstr("sliding_window")));
  EXPECT_THAT(texts_of(spec.notes), Not(Contains(HasSubstr("my_comment"))));
  const ModelSpec block = looked_at(
      {{"model_type", "qwen2"}, {"rope_scaling", {{"type", "fancy"}, {"factor", 4.0}, {"wobble", 2}}}});
  EXPECT_THAT(texts_of(block.notes), Contains(HasSubstr("rope_scaling.type")));
  EXPECT_THAT(texts_of(block.notes), Contains(HasSubstr("rope_scaling.wobble")));
  EXPECT_EQ(block.positions.layers.at(0).at(0).mechanism, "rope");
}

}  // namespace
}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// What differs from layer to layer, scales, latent attention, tables, and what tensors tell. Numbers are
// those of llama.cpp's code (0.3.36 of llama_cpp_python).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "budgets.h"
#include "spec/gguf_models.h"

namespace locant {
namespace {

using namespace tests;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// One letter a layer: f full, w window, c chunk.
std::string kinds(const ModelSpec& spec) {
  std::string letters;
  for (const AttentionSpec& attention : spec.attention) letters += name_of(attention.kind).front();
  return letters;
}

/// One letter a layer: r rotates, t temperature, - neither.
std::string marks(const ModelSpec& spec) {
  std::string letters;
  for (const auto& layer : spec.positions.layers) {
    letters += layer.empty() ? '-' : layer.front().mechanism == "attention_temperature" ? 't' : 'r';
  }
  return letters;
}

TEST(GgufLayers, Windows) {
  GgufModel gemma2 = gguf_model("gemma2");
  EXPECT_EQ(kinds(read(gemma2)), "wfwf");
  EXPECT_EQ(read(gemma2).attention[0].window, 4096);
  GgufModel gemma3 = gguf_model("gemma3");
  EXPECT_EQ(kinds(read(gemma3)), "ffff") << "no width, no windows";
  gemma3.set("gemma3.block_count", 7).set("gemma3.attention.sliding_window", 512);
  const ModelSpec spec =
      read(gemma3.set("gemma3.rope.freq_base", 1e6).set("gemma3.rope.scaling.factor", 8.0));
  EXPECT_EQ(kinds(spec), "wwwwwfw");
  EXPECT_EQ(number_of(rope_of(spec, 0), "theta"), 10000) << "windows have a base of their own";
  EXPECT_EQ(rope_of(spec, 0).mechanism, "rope");
  EXPECT_EQ(number_of(rope_of(spec, 5), "theta"), 1e6);
  EXPECT_EQ(rope_of(spec, 5).mechanism, "linear");
  EXPECT_EQ(kinds(read(gemma3.set("gemma3.attention.sliding_window_pattern", 2))), "wfwfwfw");
  GgufModel listed = complete("mimo2");
  EXPECT_EQ(kinds(read(listed)), "wwwf");
  GgufModel modern = gguf_model("modern-bert");
  modern.set("modern-bert.attention.sliding_window", 128).set("modern-bert.attention.causal", false);
  const ModelSpec bert = read(modern);
  EXPECT_EQ(kinds(bert), "fwwf");
  EXPECT_EQ(bert.attention[1].window, 64) << "half on each side";
  EXPECT_TRUE(bert.attention[1].bidirectional);
  EXPECT_EQ(kinds(read(complete("phi3"))), "ffff") << "llama.cpp does not follow its key";
  EXPECT_THAT(texts(read(complete("phi3"))), Contains(HasSubstr("phi3.attention.sliding_window is 64")));
}

TEST(GgufLayers, WithoutPositions) {
  EXPECT_EQ(marks(read(gguf_model("smollm3"))), "rrr-");
  EXPECT_EQ(marks(read(complete("cohere2"))), "rrr-");
  EXPECT_EQ(marks(read(gguf_model("exaone4"))), "rrrr") << "no windows in the small model";
  GgufModel exaone = gguf_model("exaone4");
  exaone.set("exaone4.block_count", 64);
  EXPECT_EQ(marks(read(exaone)).substr(0, 8), "rrr-rrr-");
  const ModelSpec llama4 = read(gguf_model("llama4"));
  EXPECT_EQ(kinds(llama4), "cccf");
  EXPECT_EQ(llama4.attention[0].window, 8192);
  EXPECT_EQ(marks(llama4), "rrrt");
  EXPECT_EQ(whole_of(llama4.positions.layers[3][0], "shift"), 1);
  GgufModel mobile = gguf_model("llama4");
  EXPECT_EQ(marks(read(mobile.set("llama4.attention.sliding_window", 0))), "rrrr");
  GgufModel granite = complete("granite");
  EXPECT_EQ(marks(read(granite)), "rrrr");
  EXPECT_EQ(marks(read(granite.set("granite.rope.scaling.finetuned", false))), "----");
}

TEST(GgufLayers, WithoutAttention) {
  GgufModel jamba = gguf_model("jamba");
  jamba.set("jamba.attention.head_count_kv", std::vector<int>{0, 2, 0, 0});
  const ModelSpec spec = read(jamba);
  EXPECT_EQ(spec.kv_heads, 2);
  EXPECT_FALSE(spec.attention[0].attends);
  EXPECT_TRUE(spec.attention[1].attends);
  EXPECT_THAT(texts(spec), Contains(HasSubstr("3 of 4 layers hold no attention")));
  const ModelSpec next = read(gguf_model("qwen3next"));
  EXPECT_EQ(marks(next), "---r");
  GgufModel listed = gguf_model("qwen3next");
  listed.set("qwen3next.attention.recurrent_layers", std::vector<bool>{true, false, true, false});
  EXPECT_EQ(marks(read(listed)), "-r-r");
  GgufModel ahead = gguf_model("glm4moe");
  EXPECT_EQ(read(ahead.set("glm4moe.nextn_predict_layers", 1)).layers, 3);
}

TEST(GgufLayers, CountsThatDiffer) {
  GgufModel model = gguf_model("openelm");
  model.set("openelm.attention.head_count", std::vector<int>{4, 8, 8, 12})
      .set("openelm.attention.head_count_kv", std::vector<int>{1, 2, 2, 4})
      .set("openelm.feed_forward_length", std::vector<int>{32, 64, 64, 128})
      .set("openelm.attention.key_length", 16);
  const ModelSpec spec = read(model);
  EXPECT_EQ(spec.heads, 12);
  EXPECT_EQ(spec.kv_heads, 4);
  EXPECT_EQ(spec.mlp.width, 128);
  EXPECT_THAT(texts(spec),
              Contains(HasSubstr("openelm.attention.head_count differs from layer to layer, 4")));
}

TEST(GgufScales, OfEmbeddingHeadAndScores) {
  EXPECT_EQ(read(gguf_model("gemma")).embedding.scale, 8);
  const ModelSpec granite = read(complete("granite"));
  EXPECT_EQ(granite.head.scale, 2) << "divides";
  EXPECT_EQ(read(complete("command-r")).head.scale, 0.5) << "multiplies";
  EXPECT_EQ(read(gguf_model("command-r")).head.scale, 1);
  GgufModel scaled = complete("granitemoe");
  scaled.set("granitemoe.embedding_scale", 12.0).set("granitemoe.attention.scale", 0.25);
  EXPECT_EQ(read(scaled).embedding.scale, 12);
  EXPECT_EQ(read(scaled).embedding.scale_key, "granitemoe.embedding_scale");
  EXPECT_EQ(read(scaled).attention[0].scale, 0.25);
  const ModelSpec gemma2 = read(gguf_model("gemma2"));
  EXPECT_EQ(gemma2.head.softcap, 30);
  EXPECT_EQ(gemma2.attention[0].softcap, 50);
  GgufModel capped = gguf_model("gemma2");
  EXPECT_EQ(read(capped.set("gemma2.final_logit_softcapping", 20.0)).head.softcap, 20);
  EXPECT_EQ(read(gguf_model("gemma3")).head.softcap, 0);
  EXPECT_EQ(read(complete("gemma3n")).attention[0].scale, 1);
  GgufModel large = gguf_model("gemma2");
  large.set("gemma2.block_count", 46).set("gemma2.attention.key_length", 8);
  EXPECT_EQ(read(large).attention[0].scale, 0.25) << "the 27B model scales by hidden / heads";
  const ModelSpec grok = read(gguf_model("grok"));
  EXPECT_EQ(grok.attention[0].scale, 0.08838834764831845);
  EXPECT_EQ(grok.attention[0].softcap, 30);
  EXPECT_EQ(grok.head.scale, 0.5773502691896257);
  const ModelSpec minicpm = read(gguf_model("minicpm"));
  EXPECT_EQ(minicpm.embedding.scale, 12);
  EXPECT_THAT(texts(minicpm), Contains(HasSubstr("minicpm.logit_scale is not stated")));
  EXPECT_EQ(read(gguf_model("jais")).attention[0].scale, 1.0 / 16);
}

TEST(GgufLatent, TheSliceThatRotatesStandsBehind) {
  GgufModel model = gguf_model("deepseek2");
  model.set("deepseek2.attention.head_count_kv", 1)
      .set("deepseek2.attention.key_length", 40)
      .set("deepseek2.attention.key_length_mla", 24)
      .set("deepseek2.rope.dimension_count", 8)
      .set("deepseek2.rope.scaling.type", "yarn")
      .set("deepseek2.rope.scaling.factor", 40.0)
      .set("deepseek2.rope.scaling.original_context_length", 1024)
      .set("deepseek2.rope.scaling.yarn_log_multiplier", 0.0707);
  const ModelSpec spec = read(model);
  EXPECT_EQ(spec.family, "deepseek_v2");
  EXPECT_EQ(spec.head_dim, 24);
  EXPECT_EQ(spec.kv_heads, 4) << "one compressed head stands for all";
  EXPECT_EQ(whole_of(rope_of(spec), "rotary_offset"), 16);
  EXPECT_NEAR(planned(rope_of(spec)).amplitude, 1, budgets::kSpecScale);
  const double magnitude = 0.0707 * std::log(40.0) + 1;
  EXPECT_NEAR(spec.attention[0].scale, magnitude * magnitude / std::sqrt(24.0), 1e2 * budgets::kSpecScale);
  EXPECT_EQ(read(model.set("deepseek2.expert_gating_func", 2)).family, "deepseek_v3");
  const ModelSpec four = read(complete("deepseek4"));
  EXPECT_EQ(number_of(rope_of(four, 0), "theta"), 10000);
  EXPECT_EQ(number_of(rope_of(four, 1), "theta"), 160000);
}

TEST(GgufTables, PositionsTypesAndSlopes) {
  GgufModel bert = gguf_model("bert");
  bert.set("bert.attention.causal", false)
      .zeros("position_embd.weight", {20, 64})
      .zeros("token_types.weight", {2, 64});
  const ModelSpec spec = read(bert);
  ASSERT_EQ(spec.positions.embedding.size(), 2U);
  EXPECT_EQ(whole_of(spec.positions.embedding[0], "rows"), 20);
  EXPECT_EQ(spec.embedding.token_types, 2);
  EXPECT_TRUE(spec.embedding.normed);
  GgufModel mpt = gguf_model("mpt");
  EXPECT_EQ(marks(read(mpt)), "----");
  EXPECT_EQ(rope_of(read(mpt.set("mpt.attention.max_alibi_bias", 16.0))).mechanism, "alibi");
  EXPECT_EQ(number_of(rope_of(read(mpt)), "bias_max"), 16);
  EXPECT_EQ(rope_of(read(gguf_model("bloom"))).mechanism, "alibi");
  GgufModel jina = gguf_model("jina-bert-v2");
  EXPECT_EQ(word_of(rope_of(read(jina.set("jina-bert-v2.attention.causal", false))), "direction"),
            "bidirectional");
  GgufModel baichuan = gguf_model("baichuan");
  EXPECT_EQ(rope_of(read(baichuan)).mechanism, "rope");
  EXPECT_EQ(rope_of(read(baichuan.set("baichuan.block_count", 40))).mechanism, "alibi");
}

TEST(GgufTables, T5HasThreeStacks) {
  GgufModel model = gguf_model("t5");
  model.set("t5.attention.relative_buckets_count", 16).set("t5.decoder_block_count", 6);
  const ModelSpec spec = read(model);
  EXPECT_EQ(spec.layers, 6);
  ASSERT_EQ(spec.others.size(), 2U);
  EXPECT_EQ(spec.others[0].attention.size(), 4U);
  EXPECT_EQ(word_of(spec.others[0].positions.layers[0][0], "direction"), "bidirectional");
  EXPECT_EQ(word_of(rope_of(spec), "direction"), "causal");
  EXPECT_EQ(whole_of(rope_of(spec), "buckets"), 16);
  EXPECT_EQ(spec.attention[0].scale, 1);
}

TEST(GgufTensors, SayTieBiasesAndSinks) {
  GgufModel model = gguf_model("qwen2");
  EXPECT_FALSE(read(model).head.tied);
  EXPECT_FALSE(read(model).block.biases.q);
  model.zeros("blk.0.attn_q.bias", {64}).zeros("blk.0.attn_output.bias", {64}).zeros("output.bias", {48});
  model.zeros("blk.2.attn_sinks.weight", {4}).zeros("blk.0.ffn_down.bias", {64});
  const ModelSpec spec = read(model);
  EXPECT_TRUE(spec.block.biases.q);
  EXPECT_TRUE(spec.mlp.bias);
  EXPECT_TRUE(spec.head.bias);
  EXPECT_TRUE(spec.attention[2].sinks);
  EXPECT_FALSE(spec.attention[1].sinks);
  EXPECT_TRUE(read(model.drop_tensor("output.weight")).head.tied);
  EXPECT_EQ(spec.vocab, 48);
  EXPECT_THAT(texts(read(model.set("qwen2.vocab_size", 50))),
              Contains(HasSubstr("qwen2.vocab_size says 50")));
}

TEST(GgufTensors, IdsOfTheTokenizer) {
  GgufModel model = gguf_model("llama");
  model.set("tokenizer.ggml.bos_token_id", 1)
      .set("tokenizer.ggml.eos_token_id", 2)
      .set("tokenizer.ggml.padding_token_id", 0)
      .set("tokenizer.ggml.tokens", std::vector<std::string>{"<unk>", "<s>", "</s>"});
  const ModelSpec spec = read(model);
  EXPECT_EQ(spec.bos, 1);
  EXPECT_THAT(spec.eos, ElementsAre(2));
  EXPECT_EQ(spec.embedding.padding_id, 0);
  EXPECT_EQ(spec.vocab, 48) << "the rows of the table count";
  model.drop_tensor("token_embd.weight").drop_tensor("output.weight").drop_tensor("output_norm.weight");
  EXPECT_EQ(read(model).vocab, 3);
  EXPECT_THAT(texts(read(model)), Contains(HasSubstr("whether the head is tied is not told")));
}

TEST(GgufNotes, AKeyOfPositionsThatNobodyReads) {
  GgufModel model = gguf_model("llama");
  model.set("llama.rope.scaling.wobble", 3.0).set("llama.attention.clamp_kqv", 8.0);
  EXPECT_THAT(texts(read(model)), Contains(HasSubstr("llama.rope.scaling.wobble is not read")));
  EXPECT_THAT(texts(read(model)), Contains(HasSubstr("llama.attention.clamp_kqv is not read")));
  EXPECT_TRUE(texts(read(gguf_model("llama"))).empty());
  const Note note = read(model).notes.front();
  EXPECT_EQ(note.rule, "C102");
  EXPECT_EQ(note.key, "llama.rope.scaling.wobble");
  EXPECT_EQ(read(complete("phi3")).notes.front().rule, "C106");
}

}  // namespace
}  // namespace locant

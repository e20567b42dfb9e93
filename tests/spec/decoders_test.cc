// SPDX-License-Identifier: Apache-2.0
// The dense decoders that run computes: what each config says of a block, and one thing that each refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <set>
#include <string>

#include "spec/configs.h"

namespace locant {
namespace {

using namespace tests;
using testing::AllOf;
using testing::HasSubstr;

// 6 heads of 12, with as many of keys where the class counts these apart.
Json decoder(const std::string& family, const Json& changes = Json::object()) {
  static const std::set<std::string> kOneCount = {"falcon", "gpt_bigcode", "gpt_neo",  "gpt_neox",
                                                  "mpt",    "opt",         "persimmon"};
  Json counts = Json::object();
  if (!kOneCount.contains(family)) counts["num_key_value_heads"] = 6;
  return with(with({{"model_type", family},
                    {"vocab_size", 320},
                    {"hidden_size", 72},
                    {"num_hidden_layers", 4},
                    {"num_attention_heads", 6},
                    {"intermediate_size", 100}},
                   counts),
              changes);
}

Json gpt(const char* family, const Json& changes = Json::object()) {
  return with({{"model_type", family}, {"vocab_size", 320}, {"n_embd", 72}, {"n_layer", 4}, {"n_head", 6}},
              changes);
}

bool none(const ProjectionBiases& biases) {
  return !biases.q && !biases.k && !biases.v && !biases.out;
}
bool all(const ProjectionBiases& biases) {
  return biases.q && biases.k && biases.v && biases.out;
}
bool inputs_alone(const ProjectionBiases& biases) {
  return biases.q && biases.k && biases.v && !biases.out;
}
bool stands(const BranchNorms& norms, bool before, bool after, bool sum) {
  return norms.before == before && norms.after == after && norms.sum == sum;
}

TEST(Decoders, BiasesOfAttention) {
  EXPECT_TRUE(none(read(decoder("mistral")).block.biases));
  EXPECT_TRUE(inputs_alone(read(decoder("qwen2")).block.biases));
  EXPECT_TRUE(inputs_alone(read(decoder("glm", {{"head_dim", 12}})).block.biases));
  EXPECT_TRUE(inputs_alone(read(decoder("glm4", {{"head_dim", 12}})).block.biases));
  EXPECT_TRUE(none(read(decoder("glm", {{"attention_bias", false}})).block.biases));
  EXPECT_TRUE(inputs_alone(read(decoder("seed_oss")).block.biases));
  EXPECT_TRUE(all(read(decoder("seed_oss", {{"attention_out_bias", true}})).block.biases));
  EXPECT_TRUE(inputs_alone(read(decoder("helium", {{"attention_bias", true}})).block.biases));
  EXPECT_TRUE(all(read(decoder("qwen3", {{"attention_bias", true}})).block.biases));
  EXPECT_TRUE(all(read(decoder("phi")).block.biases));
  EXPECT_TRUE(all(read(decoder("persimmon")).block.biases));
  EXPECT_TRUE(all(read(decoder("gpt_neox")).block.biases));
  EXPECT_TRUE(none(read(decoder("gpt_neox", {{"attention_bias", false}})).block.biases));
  EXPECT_TRUE(none(read(gpt("gptj")).block.biases));
  EXPECT_TRUE(none(read(gpt("codegen", {{"n_head", 12}})).block.biases));
  EXPECT_TRUE(all(read(gpt("gpt_bigcode")).block.biases));
  EXPECT_TRUE(all(read(gpt("ctrl", {{"dff", 90}})).block.biases));
  const ProjectionBiases neo = read(decoder("gpt_neo")).block.biases;
  EXPECT_TRUE(neo.out && !neo.q && !neo.k && !neo.v);
  EXPECT_TRUE(all(read(decoder("falcon", {{"bias", true}})).block.biases));
  EXPECT_TRUE(none(read(decoder("falcon")).block.biases));
  EXPECT_TRUE(all(read(decoder("starcoder2")).block.biases));
  EXPECT_TRUE(none(read(decoder("starcoder2", {{"use_bias", false}})).block.biases));
  EXPECT_TRUE(inputs_alone(read(decoder("stablelm", {{"use_qkv_bias", true}})).block.biases));
  EXPECT_TRUE(all(read(decoder("ernie4_5", {{"use_bias", true}})).block.biases));
  EXPECT_TRUE(none(read(decoder("opt", {{"enable_bias", false}})).block.biases));
}

TEST(Decoders, BiasesOfTheMlpAndTheHead) {
  for (const char* family : {"phi", "gpt_neox", "persimmon", "opt", "gpt_neo", "starcoder2"})
    EXPECT_TRUE(read(decoder(family)).mlp.bias) << family;
  for (const char* family : {"mistral", "qwen2", "gemma2", "nemotron", "ernie4_5", "arcee", "falcon"})
    EXPECT_FALSE(read(decoder(family)).mlp.bias) << family;
  EXPECT_TRUE(read(decoder("ernie4_5", {{"use_bias", true}})).mlp.bias);
  EXPECT_TRUE(read(gpt("gptj")).head.bias);
  EXPECT_TRUE(read(gpt("codegen", {{"n_head", 12}})).head.bias);
  EXPECT_TRUE(read(gpt("ctrl", {{"dff", 90}})).head.bias);
  EXPECT_TRUE(read(decoder("phi")).head.bias);
  EXPECT_FALSE(read(decoder("gpt_neox")).head.bias);
}

TEST(Decoders, Branches) {
  for (const char* family : {"cohere", "cohere2", "phi"})
    EXPECT_EQ(read(decoder(family)).block.branches, Branches::shared_norm) << family;
  EXPECT_EQ(read(gpt("gptj")).block.branches, Branches::shared_norm);
  EXPECT_EQ(read(gpt("codegen", {{"n_head", 12}})).block.branches, Branches::shared_norm);
  EXPECT_EQ(read(decoder("gpt_neox")).block.branches, Branches::parallel);
  EXPECT_EQ(read(decoder("gpt_neox", {{"use_parallel_residual", false}})).block.branches, Branches::serial);
  EXPECT_EQ(read(decoder("stablelm")).block.branches, Branches::serial);
  EXPECT_EQ(read(decoder("stablelm", {{"use_parallel_residual", true}})).block.branches,
            Branches::shared_norm);
}

TEST(Decoders, WhereNormsStand) {
  for (const char* family : {"gemma2", "gemma3_text", "glm4"}) {
    const BlockSpec block = read(decoder(family)).block;
    EXPECT_TRUE(stands(block.attention, true, true, false)) << family;
    EXPECT_TRUE(stands(block.mlp, true, true, false)) << family;
  }
  for (const char* family : {"olmo2", "olmo3", "exaone4"}) {
    const BlockSpec block = read(decoder(family)).block;
    EXPECT_TRUE(stands(block.attention, false, true, false)) << family;
    EXPECT_TRUE(stands(block.mlp, false, true, false)) << family;
  }
  const ModelSpec opt = read(decoder("opt", {{"do_layer_norm_before", false}, {"word_embed_proj_dim", 40}}));
  EXPECT_TRUE(stands(opt.block.attention, false, false, true));
  EXPECT_TRUE(stands(opt.block.mlp, false, false, true));
  EXPECT_FALSE(opt.block.final_norm);
  EXPECT_EQ(opt.embedding.width, 40);
  EXPECT_EQ(opt.embedding.factorised_width, 40);
  EXPECT_TRUE(read(decoder("opt")).block.final_norm);
  EXPECT_FALSE(read(decoder("opt", {{"_remove_final_layer_norm", true}})).block.final_norm);
}

TEST(Decoders, Norms) {
  for (const char* family : {"gemma", "gemma2", "gemma3_text", "nemotron"})
    EXPECT_EQ(read(decoder(family)).norm.gain_offset, 1) << family;
  EXPECT_EQ(read(decoder("gemma3_text")).block.qk_norm.norm.gain_offset, 1);
  EXPECT_EQ(read(decoder("qwen3")).norm.gain_offset, 0);
  const NormSpec olmo = read(decoder("olmo")).norm;
  EXPECT_TRUE(olmo.kind == NormKind::layer && !olmo.gain && !olmo.bias);
  EXPECT_EQ(olmo.eps, 1e-5);
  const NormSpec cohere = read(decoder("cohere")).norm;
  EXPECT_TRUE(cohere.kind == NormKind::layer && cohere.gain && !cohere.bias);
  EXPECT_FALSE(read(gpt("mpt", {{"n_heads", 6}})).norm.bias);
  EXPECT_TRUE(read(decoder("phi")).norm.bias);
  const NormSpec bare = read(decoder("opt", {{"layer_norm_elementwise_affine", false}})).norm;
  EXPECT_TRUE(!bare.gain && !bare.bias);
}

TEST(Decoders, NormsOfQueriesAndKeys) {
  const auto kind = [](const Json& config) { return read(config).block.qk_norm.kind; };
  EXPECT_EQ(kind(decoder("qwen3")), QkNorm::head);
  EXPECT_EQ(kind(decoder("gemma3_text")), QkNorm::head);
  EXPECT_EQ(kind(decoder("exaone4")), QkNorm::head);
  EXPECT_EQ(kind(decoder("olmo2")), QkNorm::row);
  EXPECT_EQ(kind(decoder("olmo3")), QkNorm::row);
  EXPECT_EQ(kind(decoder("qwen2")), QkNorm::none);
  EXPECT_EQ(kind(decoder("cohere")), QkNorm::none);
  EXPECT_EQ(kind(decoder("cohere", {{"use_qk_norm", true}})), QkNorm::own_heads);
  EXPECT_EQ(kind(decoder("stablelm", {{"qk_layernorm", true}})), QkNorm::own_heads);
  EXPECT_EQ(kind(decoder("persimmon", {{"qk_layernorm", false}})), QkNorm::none);
  const QkNormSpec phi =
      read(decoder("phi", {{"qk_layernorm", true}, {"layer_norm_eps", 0.25}})).block.qk_norm;
  EXPECT_EQ(phi.kind, QkNorm::head);
  EXPECT_TRUE(phi.norm.kind == NormKind::layer && phi.norm.bias);
  EXPECT_EQ(phi.norm.eps, 0.25);
  EXPECT_TRUE(read(decoder("hunyuan_v1_dense")).block.qk_norm.after_rotation);
  EXPECT_FALSE(read(decoder("qwen3")).block.qk_norm.after_rotation);
}

TEST(Decoders, Activations) {
  EXPECT_EQ(read(decoder("arcee")).mlp.activation, Activation::relu_squared);
  EXPECT_FALSE(read(decoder("arcee")).mlp.gated);
  EXPECT_EQ(read(decoder("nemotron")).mlp.activation, Activation::relu_squared);
  EXPECT_EQ(read(gpt("ctrl", {{"dff", 90}})).mlp.activation, Activation::relu);
  EXPECT_EQ(read(gpt("mpt", {{"n_heads", 6}})).mlp.activation, Activation::gelu_erf);
  EXPECT_EQ(read(decoder("gemma", {{"hidden_act", "gelu"}})).mlp.activation, Activation::gelu_tanh);
  EXPECT_EQ(read(decoder("phi", {{"hidden_act", "quick_gelu"}})).mlp.activation, Activation::quick_gelu);
  // one of two names counts
  EXPECT_EQ(read(decoder("starcoder2", {{"activation_function", "gelu"}})).mlp.activation,
            Activation::gelu_tanh);
  EXPECT_EQ(read(decoder("gemma2", {{"hidden_act", "gelu"}})).mlp.activation, Activation::gelu_tanh);
}

TEST(Decoders, Scales) {
  const ModelSpec granite = read(decoder("granite", {{"embedding_multiplier", 3.0},
                                                     {"residual_multiplier", 0.25},
                                                     {"attention_multiplier", 0.5},
                                                     {"logits_scaling", 4.0}}));
  EXPECT_EQ(granite.block.branch_scale, 0.25);
  EXPECT_EQ(granite.embedding.scale, 3);
  EXPECT_EQ(granite.attention[0].scale, 0.5);
  EXPECT_EQ(granite.head.scale, 0.25);
  EXPECT_EQ(read(decoder("olmo", {{"clip_qkv", 8.0}})).block.clip_qkv, 8);
  EXPECT_EQ(read(gpt("mpt", {{"n_heads", 6}, {"attn_config", {{"clip_qkv", 6.0}}}})).block.clip_qkv, 6);
  EXPECT_EQ(read(decoder("gpt_neo")).attention[0].scale, 1);
}

TEST(Decoders, FalconsArchitectures) {
  const ModelSpec small = read(decoder("falcon"));
  EXPECT_EQ(small.kv_heads, 1);
  EXPECT_EQ(small.block.branches, Branches::shared_norm);
  const Json grouped = {{"new_decoder_architecture", true}, {"num_kv_heads", 2}};
  const ModelSpec large = read(decoder("falcon", grouped));
  EXPECT_EQ(large.kv_heads, 2);
  EXPECT_EQ(large.block.branches, Branches::parallel);
  EXPECT_EQ(read(decoder("falcon", with(grouped, {{"num_ln_in_parallel_attn", 1}}))).block.branches,
            Branches::shared_norm);
  const ModelSpec web =
      read(decoder("falcon", {{"alibi", true}, {"multi_query", false}, {"parallel_attn", false}}));
  EXPECT_EQ(web.kv_heads, 6);
  EXPECT_EQ(web.block.branches, Branches::serial);
  EXPECT_EQ(web.positions.layers[0][0].mechanism, "alibi");
}

TEST(Decoders, GptNeosPatternOfLayers) {
  const ModelSpec spec =
      read(decoder("gpt_neo", {{"attention_types", {{{"global", "local", "local"}, 1}, {{"global"}, 1}}},
                               {"window_size", 24}}));
  ASSERT_EQ(spec.attention.size(), 4U);
  const std::array<bool, 4> local = {false, true, true, false};
  for (std::size_t layer = 0; layer < local.size(); ++layer)
    EXPECT_EQ(spec.attention[layer].kind == AttentionKind::window, local.at(layer)) << layer;
  EXPECT_EQ(spec.attention[1].window, 24);
}

TEST(Decoders, TheTextModelInsideAnother) {
  const Json text = {
      {"model_type", "gemma3_text"}, {"vocab_size", 320},        {"hidden_size", 72},
      {"num_hidden_layers", 7},      {"num_attention_heads", 6}, {"num_key_value_heads", 2},
      {"intermediate_size", 100},    {"head_dim", 14},           {"_sliding_window_pattern", 3}};
  const Json outer = {
      {"model_type", "gemma3"}, {"text_config", text}, {"vision_config", {{"hidden_size", 32}}}};
  const ModelSpec spec = read(outer);
  EXPECT_EQ(spec.family, "gemma3");
  EXPECT_EQ(spec.block.qk_norm.kind, QkNorm::head);
  EXPECT_EQ(spec.attention[2].kind, AttentionKind::full);
  EXPECT_EQ(spec.attention[3].kind, AttentionKind::window);
  Json odd = outer;
  odd["text_config"]["attention_wobble"] = 3;
  EXPECT_THAT(refusal(odd), HasSubstr("text_config.attention_wobble"));
}

TEST(Decoders, KeysBesideTheirOwnAreReadWhereBothMayStand) {
  // a part of the head in both places, as transformers 5 writes configs of version 4
  const ModelSpec phi = read(decoder(
      "phi3", {{"partial_rotary_factor", 0.5}, {"rope_parameters", {{"partial_rotary_factor", 0.5}}}}));
  EXPECT_EQ(integer(phi.positions.layers[0][0], "rotary_dim"), 6);
}

struct Refused {
  const char* family;
  Json changes;
  const char* key;
};

TEST(Decoders, RefuseWhatTheirClassDoesNotCompute) {
  const Json norms = {{"num_ln_in_parallel_attn", 2}};
  const std::array kRefused = {
      Refused{"mistral", {{"attn_logit_softcapping", 50.0}}, "attn_logit_softcapping"},
      Refused{"qwen2", {{"use_mrope", true}}, "use_mrope"},
      Refused{"qwen3", {{"hidden_act", "mish"}}, "hidden_act"},
      Refused{"gemma", {{"use_bidirectional_attention", true}}, "use_bidirectional_attention"},
      Refused{"gemma2", {{"use_bidirectional_attention", true}}, "use_bidirectional_attention"},
      Refused{"gemma3_text", {{"use_bidirectional_attention", true}}, "use_bidirectional_attention"},
      Refused{"phi", {{"rope_scaling", {{"type", "fancy"}, {"factor", 2.0}}}}, "rope_scaling.type"},
      Refused{"phi3", {{"lm_head_bias", true}}, "lm_head_bias"},
      Refused{"gptj", {{"rotary_dim", nullptr}}, "rotary_dim"},
      Refused{"codegen", {{"rotary_dim", nullptr}}, "rotary_dim"},
      Refused{"gpt_neox", {{"num_key_value_heads", 4}}, "num_key_value_heads"},
      Refused{"opt", {{"enable_bias", 1}}, "enable_bias"},
      Refused{"falcon", norms, "num_ln_in_parallel_attn"},
      Refused{"falcon", {{"new_decoder_architecture", true}, {"parallel_attn", false}}, "parallel_attn"},
      Refused{"stablelm", {{"use_qkv_bias", "no"}}, "use_qkv_bias"},
      Refused{"starcoder2", {{"norm_type", "rms"}}, "norm_type"},
      Refused{"cohere", {{"use_parallel_block", false}}, "use_parallel_block"},
      Refused{"cohere2", {{"use_qk_norm", true}}, "use_qk_norm"},
      Refused{"olmo", {{"clip_qkv", -1.0}}, "clip_qkv"},
      Refused{"olmo2", {{"clip_qkv", 8.0}}, "clip_qkv"},
      Refused{"olmo3", {{"layer_types", {"full_attention"}}}, "layer_types"},
      Refused{"granite", {{"logits_scaling", 0}}, "logits_scaling"},
      Refused{"glm", {{"partial_rotary_factor", "half"}}, "partial_rotary_factor"},
      Refused{"glm4", {{"head_scale", 2}}, "head_scale"},
      Refused{"smollm3", {{"no_rope_layers", {1, 0}}}, "no_rope_layers"},
      Refused{"ctrl", {{"layer_norm_epsilon", 1e-3}}, "layer_norm_epsilon"},
      Refused{"gpt_neo", {{"attention_types", {{"global", 3}}}}, "attention_types"},
      Refused{"gpt_neo", {{"rotary", true}}, "rotary"},
      Refused{"gpt_bigcode", {{"position_embedding_type", "rope"}}, "position_embedding_type"},
      Refused{"exaone4", {{"sliding_window_pattern", -4}}, "sliding_window_pattern"},
      Refused{"ernie4_5", {{"moe_num_experts", 8}}, "moe_num_experts"},
      Refused{"hunyuan_v1_dense", {{"use_qk_norm", false}}, "use_qk_norm"},
      Refused{"ministral", {{"sliding_window", -1}}, "sliding_window"},
      Refused{"ministral3",
              {{"partial_rotary_factor", 0.5}, {"rope_parameters", {{"rope_theta", 5.0}}}},
              "partial_rotary_factor"},
      Refused{"seed_oss", {{"attention_sinks", true}}, "attention_sinks"},
      Refused{"arcee", {{"gated_mlp", true}}, "gated_mlp"},
      Refused{"helium", {{"hidden_multiplier", 2.0}}, "hidden_multiplier"},
      Refused{"nemotron", {{"norm_kind", "rms"}}, "norm_kind"},
      Refused{"persimmon", {{"num_key_value_heads", 4}}, "num_key_value_heads"},
      Refused{"mpt", {{"attn_config", {{"alibi", false}}}}, "attn_config.alibi"},
      Refused{"mpt", {{"attn_config", {{"qk_ln", true}}}}, "attn_config.qk_ln"},
      Refused{"mpt", {{"no_bias", false}}, "no_bias"},
  };
  for (const Refused& row : kRefused) {
    EXPECT_THAT(refusal(decoder(row.family, row.changes)),
                AllOf(HasSubstr("config.json: "), HasSubstr(row.key)))
        << row.family;
  }
}

// Real configs of these families are read without a word; what stands here says why the others are not.
TEST(Decoders, PublishedConfigsAreUnderstood) {
  namespace fs = std::filesystem;
  const std::string data = LOCANT_TEST_DATA_DIR;
  const fs::path folder = fs::path(data) / "hf-configs";
  if (data.empty() || !fs::is_directory(folder)) GTEST_SKIP() << "no published configs in " << folder;
  int understood = 0;
  for (const char* name : {"codegen-2b-reduced",
                           "e5-mistral-7b-instruct",
                           "exaone-4.0-32b",
                           "falcon-40b",
                           "falcon-7b-1layer",
                           "gemma-3-1b",
                           "gemma-3-4b",
                           "gemma-7b",
                           "gpt-j-6b-1layer",
                           "hunyuan-mt-7b",
                           "mistral-nemo-instruct-2407",
                           "mpt-7b",
                           "opt-125m",
                           "phi-1",
                           "phi-2",
                           "phi-3-mini-128k-instruct",
                           "phi-4",
                           "qwen1.5-7b-chat",
                           "qwen2.5-0.5b",
                           "qwen3-8b",
                           "stablelm-3b",
                           "wizardcoder-15b-v1.0"}) {
    SCOPED_TRACE(name);
    const fs::path file = folder / (std::string(name) + ".json");
    if (!fs::exists(file)) continue;
    const TempDir dir;
    fs::copy_file(file, dir.file("config.json"));
    EXPECT_NO_THROW((void)read_hf_config(dir.path()));
    ++understood;
  }
  EXPECT_GT(understood, 0);
}

}  // namespace
}  // namespace locant

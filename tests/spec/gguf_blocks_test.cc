// SPDX-License-Identifier: Apache-2.0
// How layers are put together, experts and ranks: what keys say, and what the tensors that are there tell.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "spec/gguf_models.h"

namespace locant {
namespace {

using namespace tests;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A model whose layers have attention and an mlp of 96, gated by a tensor of its own.
GgufModel layered(const std::string& name, const std::vector<std::string>& norms) {
  GgufModel model = complete(name).drop_tensor("position_embd.weight");
  if (name == "gpt2" || name == "bert") model.zeros("position_embd.weight", {20, 64});
  for (int layer = 0; layer < 4; ++layer) {
    const std::string at = "blk." + std::to_string(layer) + ".";
    for (const std::string& norm : norms) model.zeros(at + norm + ".weight", {64});
    model.zeros(at + "attn_q.weight", {64, 64}).zeros(at + "attn_k.weight", {32, 64});
    model.zeros(at + "attn_v.weight", {32, 64}).zeros(at + "attn_output.weight", {64, 64});
    model.zeros(at + "ffn_gate.weight", {96, 64}).zeros(at + "ffn_up.weight", {96, 64});
    model.zeros(at + "ffn_down.weight", {64, 96});
  }
  return model;
}

/// b before, a after, s sum; attention, then mlp.
std::string places(const ModelSpec& spec) {
  std::string text;
  for (const BranchNorms& norms : {spec.block.attention, spec.block.mlp}) {
    if (norms.before) text += 'b';
    if (norms.after) text += 'a';
    if (norms.sum) text += 's';
    text += ' ';
  }
  return text;
}

std::string message(const GgufModel& model) {
  try {
    (void)read(model);
  } catch (const FileError& e) {
    return e.what();
  }
  return "nothing was thrown";
}

TEST(GgufBlocks, NormsStandWhereTensorsSay) {
  EXPECT_EQ(places(read(layered("llama", {"attn_norm", "ffn_norm"}))), "b b ");
  EXPECT_EQ(
      places(read(layered("gemma2", {"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"}))),
      "ba ba ");
  EXPECT_EQ(places(read(layered("olmo2", {"post_attention_norm", "post_ffw_norm"}))), "a a ");
  EXPECT_EQ(places(read(layered("exaone4", {"post_attention_norm", "post_ffw_norm"}))), "a a ");
  EXPECT_EQ(places(read(layered("gpt-oss", {"attn_norm", "post_attention_norm"}))), "b b ")
      << "what the mlp reads, whatever its name";
  const ModelSpec bert =
      read(layered("bert", {"attn_output_norm", "layer_output_norm"}).drop_tensor("output_norm.weight"));
  EXPECT_EQ(places(bert), "s s ");
  EXPECT_FALSE(bert.block.final_norm);
  EXPECT_TRUE(bert.head.masked);
  EXPECT_EQ(places(read(layered("grok", {"attn_norm", "attn_output_norm", "ffn_norm", "layer_output_norm"}))),
            "ba ba ");
  GgufModel modern = layered("modern-bert", {"attn_norm", "ffn_norm"}).drop_tensor("blk.0.attn_norm.weight");
  EXPECT_FALSE(read(modern).block.first_norm);
  EXPECT_TRUE(read(layered("llama", {"attn_norm", "ffn_norm"})).block.first_norm);
}

TEST(GgufBlocks, Branches) {
  EXPECT_EQ(read(layered("llama", {"attn_norm", "ffn_norm"})).block.branches, Branches::serial);
  for (const char* const name : {"phi2", "command-r", "cohere2", "gptj", "stablelm", "falcon"})
    EXPECT_EQ(read(layered(name, {"attn_norm"})).block.branches, Branches::shared_norm) << name;
  EXPECT_EQ(read(layered("stablelm", {"attn_norm", "ffn_norm"})).block.branches, Branches::serial);
  EXPECT_EQ(read(layered("falcon", {"attn_norm", "attn_norm_2"})).block.branches, Branches::parallel);
  GgufModel neox = layered("gptneox", {"attn_norm", "ffn_norm"});
  EXPECT_EQ(read(neox).block.branches, Branches::parallel);
  EXPECT_EQ(read(neox.set("gptneox.use_parallel_residual", false)).block.branches, Branches::serial);
}

TEST(GgufBlocks, GainsAndBiases) {
  const ModelSpec olmo = read(layered("olmo", {}).drop_tensor("output_norm.weight"));
  EXPECT_FALSE(olmo.norm.gain);
  EXPECT_FALSE(olmo.norm.bias);
  EXPECT_TRUE(olmo.block.final_norm) << "a norm without weights";
  EXPECT_EQ(places(olmo), "b b ");
  GgufModel cohere = layered("command-r", {"attn_norm"});
  EXPECT_TRUE(read(cohere).norm.gain);
  EXPECT_FALSE(read(cohere).norm.bias);
  EXPECT_TRUE(read(cohere.zeros("blk.0.attn_norm.bias", {64})).norm.bias);
  GgufModel qwen = layered("qwen2", {"attn_norm", "ffn_norm"});
  for (const char* const part : {"q", "k", "v"})
    qwen.zeros(std::string("blk.0.attn_") + part + ".bias", {part[0] == 'q' ? 64 : 32});
  const ProjectionBiases biases = read(qwen).block.biases;
  EXPECT_TRUE(biases.q && biases.k && biases.v);
  EXPECT_FALSE(biases.out);
  EXPECT_FALSE(read(qwen).mlp.bias);
  EXPECT_TRUE(read(qwen.zeros("blk.0.ffn_up.bias", {96})).mlp.bias);
  EXPECT_TRUE(read(qwen.zeros("blk.0.attn_output.bias", {64})).block.biases.out);
  EXPECT_FALSE(read(layered("qwen2", {"attn_norm", "ffn_norm"})).block.biases.q);
}

TEST(GgufBlocks, NormsOfQueriesAndKeys) {
  const auto kind = [](const std::string& name, const std::vector<std::int64_t>& shape) {
    return read(layered(name, {"attn_norm", "ffn_norm"}).zeros("blk.0.attn_q_norm.weight", shape))
        .block.qk_norm;
  };
  EXPECT_EQ(kind("qwen3", {16}).kind, QkNorm::head);
  EXPECT_EQ(kind("qwen3", {16}).norm.kind, NormKind::rms);
  EXPECT_EQ(kind("olmo2", {64}).kind, QkNorm::row);
  EXPECT_EQ(kind("stablelm", {4, 16}).kind, QkNorm::own_heads);
  EXPECT_EQ(kind("stablelm", {4, 16}).norm.kind, NormKind::layer);
  EXPECT_FALSE(kind("stablelm", {4, 16}).norm.bias);
  EXPECT_TRUE(kind("hunyuan-dense", {16}).after_rotation);
  EXPECT_EQ(read(layered("stablelm", {"attn_norm", "ffn_norm"})).block.qk_norm.kind, QkNorm::none);
  GgufModel llama4 = layered("llama4", {"attn_norm", "ffn_norm"});
  llama4.set("llama4.expert_count", 16).set("llama4.expert_used_count", 1);
  const QkNormSpec plain = read(llama4).block.qk_norm;
  EXPECT_EQ(plain.kind, QkNorm::head);
  EXPECT_TRUE(plain.after_rotation && plain.rotating_only);
  EXPECT_FALSE(plain.norm.gain);
  EXPECT_EQ(read(llama4.set("llama4.expert_count", 128)).block.qk_norm.kind, QkNorm::none);
}

TEST(GgufBlocks, ClipsAndScales) {
  EXPECT_EQ(read(complete("mpt").set("mpt.attention.clamp_kqv", 8.0)).block.clip_qkv, 8);
  EXPECT_EQ(read(complete("mpt")).block.clip_qkv, 0);
  EXPECT_THAT(message(complete("olmo").set("olmo.attention.clamp_kqv", -1.0)),
              HasSubstr("\"olmo.attention.clamp_kqv\" is a number of at least 0, got -1"));
  EXPECT_EQ(read(complete("granite").set("granite.residual_scale", 0.25)).block.branch_scale, 0.25);
  EXPECT_EQ(read(complete("granite")).block.branch_scale, 1);
  EXPECT_DOUBLE_EQ(read(complete("minicpm")).block.branch_scale, 1.4 / 2);
}

TEST(GgufBlocks, OneTensorOfGateAndUp) {
  GgufModel phi3 = layered("phi3", {"attn_norm", "ffn_norm"});
  for (int layer = 0; layer < 4; ++layer) {
    const std::string at = "blk." + std::to_string(layer) + ".";
    phi3.drop_tensor(at + "ffn_gate.weight").zeros(at + "ffn_up.weight", {192, 64});
  }
  EXPECT_TRUE(read(phi3).mlp.gated);
  EXPECT_EQ(read(phi3).mlp.width, 96);
  for (int layer = 0; layer < 4; ++layer)
    phi3.zeros("blk." + std::to_string(layer) + ".ffn_up.weight", {96, 64});
  EXPECT_FALSE(read(phi3).mlp.gated);
}

GgufModel mixture(const std::string& name) {
  GgufModel model = complete(name);
  return model.set(name + ".expert_count", 8).set(name + ".expert_used_count", 2);
}

TEST(GgufExperts, ChosenAsTheCodeAndKeysSay) {
  const ExpertsSpec mixtral = read(mixture("llama")).experts;
  EXPECT_EQ(mixtral.count, 8);
  EXPECT_EQ(mixtral.chosen, 2);
  EXPECT_EQ(mixtral.width, 96);
  EXPECT_EQ(mixtral.router, RouterScore::softmax);
  EXPECT_TRUE(mixtral.normalised);
  EXPECT_EQ(mixtral.shared_width, 0);
  EXPECT_FALSE(read(mixture("qwen2moe")).experts.normalised);
  EXPECT_TRUE(read(mixture("qwen3moe")).experts.normalised);
  EXPECT_FALSE(read(mixture("olmoe")).experts.normalised);
  const ModelSpec oss = read(mixture("gpt-oss"));
  EXPECT_EQ(oss.experts.router, RouterScore::softmax_chosen);
  EXPECT_EQ(oss.mlp.activation, Activation::clamped_swiglu);
  const ExpertsSpec llama4 = read(mixture("llama4")).experts;
  EXPECT_EQ(llama4.router, RouterScore::sigmoid);
  EXPECT_TRUE(llama4.weighs_input);
  GgufModel deepseek = mixture("deepseek2");
  EXPECT_EQ(read(deepseek).experts.router, RouterScore::softmax);
  EXPECT_FALSE(read(deepseek).experts.normalised);
  deepseek.set("deepseek2.expert_gating_func", 2)
      .set("deepseek2.expert_weights_norm", true)
      .set("deepseek2.expert_weights_scale", 2.5)
      .set("deepseek2.expert_group_count", 4)
      .set("deepseek2.expert_group_used_count", 2);
  const ExpertsSpec v3 = read(deepseek).experts;
  EXPECT_EQ(v3.router, RouterScore::sigmoid);
  EXPECT_TRUE(v3.normalised);
  EXPECT_EQ(v3.scale, 2.5);
  EXPECT_EQ(v3.groups, 4);
  EXPECT_EQ(v3.chosen_groups, 2);
  EXPECT_TRUE(v3.group_pairs);
  const ExpertsSpec v2 = read(deepseek.set("deepseek2.expert_gating_func", 1)).experts;
  EXPECT_EQ(v2.groups, 4);
  EXPECT_FALSE(v2.group_pairs);
}

TEST(GgufExperts, LayersAndWidthsByKeys) {
  GgufModel model = mixture("ernie4_5-moe");
  model.set("ernie4_5-moe.leading_dense_block_count", 1)
      .set("ernie4_5-moe.interleave_moe_layer_step", 2)
      .set("ernie4_5-moe.expert_feed_forward_length", 20)
      .set("ernie4_5-moe.expert_shared_count", 3);
  const ExpertsSpec experts = read(model).experts;
  EXPECT_THAT(experts.layers, ElementsAre(false, true, false, true));
  EXPECT_EQ(experts.width, 20);
  EXPECT_EQ(experts.shared_width, 60);
}

TEST(GgufExperts, LayersAndWidthsByTensors) {
  GgufModel model = mixture("qwen2moe");
  for (const int layer : {1, 2}) {
    const std::string at = "blk." + std::to_string(layer) + ".";
    model.zeros(at + "ffn_gate_inp.weight", {8, 64}).zeros(at + "ffn_down_exps.weight", {8, 64, 24});
    model.zeros(at + "ffn_down_shexp.weight", {64, 40}).zeros(at + "ffn_gate_inp_shexp.weight", {64});
  }
  ExpertsSpec experts = read(model).experts;
  EXPECT_THAT(experts.layers, ElementsAre(false, true, true, false));
  EXPECT_EQ(experts.width, 24);
  EXPECT_EQ(experts.shared_width, 40);
  EXPECT_TRUE(experts.shared_gate);
  EXPECT_FALSE(experts.bias || experts.router_bias || experts.correction);
  model.zeros("blk.1.ffn_gate_inp.bias", {8}).zeros("blk.1.ffn_down_exps.bias", {8, 64});
  model.zeros("blk.1.exp_probs_b.bias", {8});
  experts = read(model).experts;
  EXPECT_TRUE(experts.bias && experts.router_bias && experts.correction);
}

TEST(GgufExperts, Refusals) {
  EXPECT_THAT(message(complete("llama").set("llama.expert_count", 8)),
              HasSubstr("\"llama.expert_used_count\" is a whole number from 1 to 8, it is missing"));
  EXPECT_THAT(message(mixture("llama").set("llama.expert_used_count", 9)), HasSubstr("from 1 to 8, got 9"));
  EXPECT_THAT(message(mixture("deepseek2").set("deepseek2.expert_group_count", 3)),
              HasSubstr("\"deepseek2.expert_group_count\" is a divisor of the 8 experts, got 3"));
  EXPECT_THAT(message(mixture("deepseek2").set("deepseek2.expert_group_used_count", 2)),
              HasSubstr("is at most the 1 groups, got 2"));
  EXPECT_THAT(message(mixture("deepseek2").set("deepseek2.expert_gating_func", 7)),
              HasSubstr("is 1 (softmax), 2 (sigmoid) or 3 (softmax of the chosen), got 7"));
}

TEST(GgufLatent, RanksAndWidths) {
  GgufModel model = complete("deepseek2");
  model.set("deepseek2.attention.kv_lora_rank", 18)
      .set("deepseek2.attention.q_lora_rank", 26)
      .set("deepseek2.attention.key_length", 24)
      .set("deepseek2.attention.value_length", 14)
      .set("deepseek2.rope.dimension_count", 6);
  LatentSpec latent = read(model).latent;
  EXPECT_EQ(latent.kv_rank, 18);
  EXPECT_EQ(latent.q_rank, 26);
  EXPECT_EQ(latent.still, 18);
  EXPECT_EQ(latent.rotating, 6);
  EXPECT_EQ(latent.value_width, 14);
  // As it is stored where scores are computed on the ranks: one head of rank + rotating channels.
  model.set("deepseek2.attention.head_count_kv", 1)
      .set("deepseek2.attention.value_length", 18)
      .set("deepseek2.attention.key_length_mla", 16)
      .set("deepseek2.attention.value_length_mla", 12);
  const ModelSpec spec = read(model);
  EXPECT_EQ(spec.head_dim, 16);
  EXPECT_EQ(spec.kv_heads, 4);
  EXPECT_EQ(spec.latent.still, 10);
  EXPECT_EQ(spec.latent.value_width, 12);
  EXPECT_EQ(read(complete("llama")).latent.kv_rank, 0);
}

}  // namespace
}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// Routers and experts by the keys of each mixture, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "spec/configs.h"

namespace locant {
namespace {

using namespace tests;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Sizes that every mixture states; `keys` are the family's own.
Json mixture(const char* family, const Json& keys) {
  Json config = {{"model_type", family},     {"vocab_size", 320},
                 {"hidden_size", 72},        {"num_hidden_layers", 4},
                 {"num_attention_heads", 6}, {"num_key_value_heads", 2},
                 {"intermediate_size", 100}, {"max_position_embeddings", 256}};
  config.update(keys);
  return config;
}

Json deepseek(const Json& keys) {
  Json config = mixture("deepseek_v3", {{"num_key_value_heads", 6},
                                        {"kv_lora_rank", 16},
                                        {"q_lora_rank", 24},
                                        {"qk_nope_head_dim", 10},
                                        {"qk_rope_head_dim", 6},
                                        {"v_head_dim", 14},
                                        {"n_routed_experts", 12},
                                        {"n_group", 4},
                                        {"topk_group", 2},
                                        {"num_experts_per_tok", 3},
                                        {"moe_intermediate_size", 20},
                                        {"n_shared_experts", 2},
                                        {"first_k_dense_replace", 1}});
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

TEST(Mixtures, Mixtral) {
  const ModelSpec spec = read(mixture("mixtral", {{"num_local_experts", 5}, {"num_experts_per_tok", 2}}));
  EXPECT_EQ(spec.experts.count, 5);
  EXPECT_EQ(spec.experts.chosen, 2);
  EXPECT_EQ(spec.experts.width, 100);
  EXPECT_EQ(spec.experts.router, RouterScore::softmax);
  EXPECT_TRUE(spec.experts.normalised);
  EXPECT_EQ(spec.experts.shared_width, 0);
  EXPECT_THAT(spec.experts.layers, ElementsAre(true, true, true, true));
  EXPECT_EQ(read(mixture("mixtral", Json::object())).experts.count, 8);
}

TEST(Mixtures, GptOss) {
  const ModelSpec spec = read(mixture("gpt_oss", {{"swiglu_limit", 5.0}}));
  EXPECT_EQ(spec.experts.count, 128);
  EXPECT_EQ(spec.experts.chosen, 4);
  EXPECT_EQ(spec.experts.router, RouterScore::softmax_chosen);
  EXPECT_TRUE(spec.experts.bias);
  EXPECT_TRUE(spec.experts.router_bias);
  EXPECT_EQ(spec.mlp.activation, Activation::clamped_swiglu);
  EXPECT_EQ(spec.mlp.limit, 5);
  EXPECT_TRUE(spec.attention[0].sinks);
  EXPECT_EQ(spec.attention[0].kind, AttentionKind::window);
  EXPECT_EQ(spec.attention[1].kind, AttentionKind::full);
  EXPECT_TRUE(spec.block.biases.out);
  EXPECT_THAT(refusal(mixture("gpt_oss", {{"swiglu_alpha", 1.5}})), HasSubstr("swiglu_alpha must be 1.702"));
  EXPECT_THAT(refusal(mixture("gpt_oss", {{"quantization_config", {{"quant_method", "mxfp4"}}}})),
              HasSubstr("quantised Hugging Face checkpoints are not read"));
}

TEST(Mixtures, DeepseekV3) {
  const ModelSpec spec = read(deepseek({{"routed_scaling_factor", 1.5}}));
  EXPECT_EQ(spec.head_dim, 16);
  EXPECT_EQ(spec.latent.kv_rank, 16);
  EXPECT_EQ(spec.latent.q_rank, 24);
  EXPECT_EQ(spec.latent.still, 10);
  EXPECT_EQ(spec.latent.rotating, 6);
  EXPECT_EQ(spec.latent.value_width, 14);
  EXPECT_EQ(spec.experts.router, RouterScore::sigmoid);
  EXPECT_TRUE(spec.experts.correction);
  EXPECT_TRUE(spec.experts.normalised);
  EXPECT_TRUE(spec.experts.group_pairs);
  EXPECT_EQ(spec.experts.groups, 4);
  EXPECT_EQ(spec.experts.chosen_groups, 2);
  EXPECT_EQ(spec.experts.width, 20);
  EXPECT_EQ(spec.experts.shared_width, 40);
  EXPECT_EQ(spec.experts.scale, 1.5);
  EXPECT_THAT(spec.experts.layers, ElementsAre(false, true, true, true));
  EXPECT_EQ(read(deepseek({{"q_lora_rank", nullptr}})).latent.q_rank, 0);
  EXPECT_FALSE(read(deepseek({{"norm_topk_prob", false}})).experts.normalised);
}

TEST(Mixtures, DeepseekRefuses) {
  EXPECT_THAT(refusal(deepseek({{"n_group", 5}})), HasSubstr("n_group must be a divisor of the 12 experts"));
  EXPECT_THAT(refusal(deepseek({{"n_group", 12}, {"topk_group", 3}})),
              HasSubstr("n_group must be groups of two experts or more"));
  EXPECT_THAT(refusal(deepseek({{"topk_group", 5}})),
              HasSubstr("topk_group must be a number of the 4 groups"));
  EXPECT_THAT(refusal(deepseek({{"n_group", 6}, {"topk_group", 1}})),
              HasSubstr("topk_group must be a number of the 6 groups that hold 3 experts or more, got 1"));
  EXPECT_THAT(refusal(deepseek({{"num_experts_per_tok", 13}})),
              HasSubstr("num_experts_per_tok must be at most the 12 experts, got 13"));
  EXPECT_THAT(refusal(deepseek({{"num_key_value_heads", 3}})),
              HasSubstr("num_key_value_heads must be the number of heads"));
  EXPECT_THAT(refusal(deepseek({{"attention_bias", true}})), HasSubstr("biases of latent attention"));
  EXPECT_THAT(refusal(deepseek({{"rms_norm_eps", 0.001}})), HasSubstr("rms_norm_eps must be 1e-06"));
  EXPECT_THAT(refusal(deepseek({{"moe_layer_freq", 2}})), HasSubstr("moe_layer_freq must be 1"));
  EXPECT_THAT(refusal(deepseek({{"scoring_func", "softmax"}})),
              HasSubstr("scoring_func must be \"sigmoid\""));
  EXPECT_THAT(refusal(deepseek({{"topk_method", "greedy"}})), HasSubstr("topk_method must be \"noaux_tc\""));
}

TEST(Mixtures, DeepseekV2) {
  const Json plain = with(deepseek({{"topk_method", "greedy"}}), {{"model_type", "deepseek_v2"}});
  const ModelSpec spec = read(plain);
  EXPECT_EQ(spec.experts.router, RouterScore::softmax);
  EXPECT_FALSE(spec.experts.normalised);
  EXPECT_FALSE(spec.experts.correction);
  EXPECT_EQ(spec.experts.groups, 1);
  EXPECT_EQ(spec.experts.scale, 1);
  EXPECT_EQ(read(with(plain, {{"topk_method", "group_limited_greedy"}})).experts.groups, 4);
  EXPECT_THAT(refusal(with(plain, {{"topk_method", "noaux_tc"}})),
              HasSubstr("topk_method must be greedy or group_limited_greedy"));
  EXPECT_THAT(refusal(with(plain, {{"norm_topk_prob", true}})), HasSubstr("norm_topk_prob must be false"));
  EXPECT_THAT(refusal(without(plain, "num_experts_per_tok")),
              HasSubstr("num_experts_per_tok must be stated, it is missing"));
}

TEST(Mixtures, Qwen) {
  const Json keys = {{"num_experts", 7},
                     {"num_experts_per_tok", 3},
                     {"moe_intermediate_size", 20},
                     {"mlp_only_layers", {1}},
                     {"decoder_sparse_step", 1}};
  const ModelSpec third = read(mixture("qwen3_moe", keys));
  EXPECT_EQ(third.block.qk_norm.kind, QkNorm::head);
  EXPECT_EQ(third.experts.width, 20);
  EXPECT_FALSE(third.experts.normalised);
  EXPECT_THAT(third.experts.layers, ElementsAre(true, false, true, true));
  const ModelSpec second = read(
      with(mixture("qwen2_moe", keys),
           {{"shared_expert_intermediate_size", 28}, {"norm_topk_prob", true}, {"decoder_sparse_step", 2}}));
  EXPECT_TRUE(second.block.biases.q);
  EXPECT_FALSE(second.block.biases.out);
  EXPECT_TRUE(second.experts.shared_gate);
  EXPECT_EQ(second.experts.shared_width, 28);
  EXPECT_TRUE(second.experts.normalised);
  EXPECT_THAT(second.experts.layers, ElementsAre(false, false, false, true));
}

TEST(Mixtures, Llama4) {
  const ModelSpec spec = read(mixture(
      "llama4_text",
      {{"num_local_experts", 5}, {"intermediate_size_mlp", 60}, {"moe_layers", {1, 3}}, {"head_dim", 12}}));
  EXPECT_TRUE(spec.experts.weighs_input);
  EXPECT_EQ(spec.experts.router, RouterScore::sigmoid);
  EXPECT_EQ(spec.experts.chosen, 1);
  EXPECT_EQ(spec.experts.width, 100);
  EXPECT_EQ(spec.experts.shared_width, 100);
  EXPECT_EQ(spec.mlp.width, 60);
  EXPECT_THAT(spec.experts.layers, ElementsAre(false, true, false, true));
  EXPECT_EQ(spec.block.qk_norm.kind, QkNorm::head);
  EXPECT_FALSE(spec.block.qk_norm.norm.gain);
  EXPECT_TRUE(spec.block.qk_norm.after_rotation);
  EXPECT_TRUE(spec.block.qk_norm.rotating_only);
}

TEST(Mixtures, Olmoe) {
  const ModelSpec olmoe = read(mixture("olmoe", {{"num_experts", 9}, {"clip_qkv", 0.9}}));
  EXPECT_EQ(olmoe.block.qk_norm.kind, QkNorm::row);
  EXPECT_EQ(olmoe.block.clip_qkv, 0.9);
  EXPECT_EQ(olmoe.experts.chosen, 8);
}

TEST(Mixtures, GraniteErnieAndGlm) {
  const ModelSpec granite = read(mixture("granitemoe", {{"residual_multiplier", 0.4}}));
  EXPECT_EQ(granite.block.branch_scale, 0.4);
  EXPECT_EQ(granite.experts.router, RouterScore::softmax_chosen);
  const ModelSpec ernie =
      read(mixture("ernie4_5_moe", {{"moe_num_experts", 9}, {"moe_k", 2}, {"moe_layer_interval", 2}}));
  EXPECT_EQ(ernie.experts.count, 9);
  EXPECT_TRUE(ernie.experts.correction);
  EXPECT_THAT(ernie.experts.layers, ElementsAre(false, true, false, true));
  EXPECT_THAT(refusal(mixture("ernie4_5_moe", {{"use_bias", true}})), HasSubstr("use_bias must be false"));
  const ModelSpec glm =
      read(mixture("glm4_moe", {{"use_qk_norm", true}, {"attention_bias", true}, {"n_routed_experts", 9}}));
  EXPECT_EQ(glm.block.qk_norm.kind, QkNorm::head);
  EXPECT_TRUE(glm.block.biases.q);
  EXPECT_FALSE(glm.block.biases.out);
}

TEST(Mixtures, AKeyThatNobodyReadsIsRefused) {
  EXPECT_THAT(refusal(mixture("mixtral", {{"expert_capacity", 3}})),
              AllOf(HasSubstr("expert_capacity must be absent"), HasSubstr("got 3")));
}

}  // namespace
}  // namespace locant

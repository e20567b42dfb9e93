// SPDX-License-Identifier: Apache-2.0
// What a file means as published, and what the runtime of a recipe makes of it.
#include "spec/under_recipe.h"

#include <cmath>

#include <gtest/gtest.h>

#include "spec/gguf_models.h"

namespace locant::tests {
namespace {

ModelSpec in_llama_cpp(const ModelSpec& spec) {
  return under_recipe(spec, find_recipe("llama.cpp"));
}

ModelSpec in_hf(const ModelSpec& spec) {
  return under_recipe(spec, find_recipe("hf"));
}

TEST(UnderRecipe, GeluIsTheOneThatWasPublished) {
  for (const char* name : {"bert", "jina-bert-v2", "jina-bert-v3", "nomic-bert-moe", "modern-bert", "gptneox",
                           "falcon", "mpt"}) {
    const ModelSpec spec = read(complete(name));
    EXPECT_EQ(spec.mlp.activation, Activation::gelu_erf) << name;
    EXPECT_EQ(in_hf(spec).mlp.activation, Activation::gelu_erf) << name;
    EXPECT_EQ(in_llama_cpp(spec).mlp.activation, Activation::gelu_tanh) << name;
  }
  for (const char* name : {"bloom", "codeshell", "gemma", "gemma2", "gemma3", "gpt2", "gptj", "grok", "phi2",
                           "starcoder", "starcoder2"}) {
    const ModelSpec spec = read(complete(name));
    EXPECT_EQ(spec.mlp.activation, Activation::gelu_tanh) << name;
    EXPECT_EQ(in_llama_cpp(spec).mlp.activation, Activation::gelu_tanh) << name;
  }
  EXPECT_EQ(in_llama_cpp(read(gguf_model("llama"))).mlp.activation, Activation::silu);
  EXPECT_EQ(in_llama_cpp(read(gguf_model("nemotron"))).mlp.activation, Activation::relu_squared);
}

// What no key tells, the number of layers does.
TEST(UnderRecipe, SizesOfOneArchitectureHaveTheirOwnGelu) {
  EXPECT_EQ(read(complete("gptneox").set("gptneox.block_count", 44)).mlp.activation, Activation::gelu_tanh);
  EXPECT_EQ(read(complete("starcoder").set("starcoder.block_count", 40)).mlp.activation,
            Activation::gelu_erf);
}

TEST(UnderRecipe, TheTiedHeadOfT5IsScaled) {
  GgufModel model = gguf_model("t5");
  model.set("t5.attention.relative_buckets_count", 16);
  EXPECT_EQ(read(model).head.scale, 1) << "a head of its own";
  ModelSpec spec = read(model);
  spec.head.tied = true;
  spec.head.scale = 1 / std::sqrt(static_cast<double>(spec.hidden));
  EXPECT_EQ(in_hf(spec).head.scale, spec.head.scale);
  EXPECT_EQ(in_llama_cpp(spec).head.scale, 1);
  spec.family = "mpt";
  EXPECT_EQ(in_llama_cpp(spec).head.scale, spec.head.scale);
}

TEST(UnderRecipe, GroupsOfDeepSeekV2CountByTheirBest) {
  ModelSpec v2;
  v2.experts.count = 8;
  v2.experts.groups = 4;
  EXPECT_FALSE(in_hf(v2).experts.group_pairs);
  EXPECT_TRUE(in_llama_cpp(v2).experts.group_pairs);
  v2.experts.groups = 1;
  EXPECT_FALSE(in_llama_cpp(v2).experts.group_pairs);
}

TEST(UnderRecipe, MiniCpmWithoutALogitScale) {
  ModelSpec spec = read(gguf_model("minicpm"));
  const double published = spec.head.scale;
  EXPECT_EQ(published, 256 / static_cast<double>(spec.hidden));
  EXPECT_EQ(in_hf(spec).head.scale, published);
  EXPECT_EQ(in_llama_cpp(spec).head.scale, 1 / published);
  spec.head.scale_key = "minicpm.logit_scale";
  EXPECT_EQ(in_llama_cpp(spec).head.scale, published);
}

TEST(UnderRecipe, OnlyLlamaCppChangesAnything) {
  ModelSpec spec = read(complete("bert"));
  spec.experts.groups = 2;
  for (const Recipe& recipe : recipes()) {
    const ModelSpec computed = under_recipe(spec, recipe);
    const bool is_llama_cpp = recipe.name == "llama.cpp";
    EXPECT_EQ(computed.mlp.activation == spec.mlp.activation, !is_llama_cpp) << recipe.name;
    EXPECT_EQ(computed.experts.group_pairs, is_llama_cpp) << recipe.name;
  }
}

}  // namespace
}  // namespace locant::tests

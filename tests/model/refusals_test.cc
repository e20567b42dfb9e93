// SPDX-License-Identifier: Apache-2.0
// Files that do not agree with themselves: one sentence that names the key, the tensor or the byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/temp_dir.h"
#include "model/feeding.h"
#include "model/made_gguf.h"
#include "model/one_token.h"

namespace locant {
namespace {

using namespace tests;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

/// The sentence behind the path; "" when the model runs.
std::string refusal(const std::string& bytes, const std::string& name = "model.gguf") {
  const TempDir folder;
  const std::string path = folder.write(name, bytes);
  ThreadPool pool(1);
  const std::string message = refusal_of_one_token(path, pool);
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  if (message.empty()) return message;
  EXPECT_THAT(message, StartsWith(path + ": "));
  return message.substr(path.size() + 2);
}

std::string refusal(const MadeGguf& made) {
  return refusal(made.bytes());
}

TEST(Gguf, TensorsAgainstKeys) {
  EXPECT_EQ(refusal(made_llama().tensor("blk.1.attn_k.weight", {8, 32})),
            "blk.1.attn_k.weight must be [16,32] by the config, got [8,32]");
  EXPECT_EQ(refusal(made_llama().tensor("output.weight", {41, 32})),
            "output.weight must be [40,32] by the config, got [41,32]");
  EXPECT_THAT(
      refusal(made_llama().tensor("token_embd.weight", {40, 16})),
      HasSubstr("\"token_embd.weight\" is rows of 32 by key \"llama.embedding_length\", got shape [40,16]"));
  EXPECT_EQ(refusal(made_llama().key("block_count", 3)),
            "blk.2.attn_norm.weight [32] must be there for a llama, it is missing");
  EXPECT_EQ(refusal(made_llama().key("block_count", 1)),
            "blk.1.attn_k.weight [16,32] is no part of a llama with 1 layers");
  EXPECT_EQ(refusal(made_llama().tensor("blk.0.ffn_up.weight", {64, 32}, GgmlType::i32)),
            "blk.0.ffn_up.weight must be f32, f16 or bf16, got i32");
  EXPECT_EQ(refusal(made_t5().tensor("dec.blk.0.attn_rel_b.weight", {8, 5})),
            "dec.blk.0.attn_rel_b.weight must be [8,4] by the config, got [8,5]");
}

TEST(Gguf, HeadsThatAreNone) {
  EXPECT_THAT(refusal(made_llama().key("attention.key_length", 0)),
              HasSubstr("key \"llama.attention.key_length\" is a whole number from 1 to"));
  EXPECT_THAT(refusal(made_llama().key("attention.head_count", 1U << 21U)),
              HasSubstr("key \"llama.attention.head_count\" is at most 1048576, got 2097152"));
}

TEST(Gguf, ArchitecturesThatRunDoesNotKnow) {
  MadeGguf made = made_base("newest");
  EXPECT_EQ(refusal(made),
            "general.architecture must be one that run knows (locant list families), got \"newest\"");
}

TEST(Gguf, Experts) {
  EXPECT_EQ(refusal(made_mixture().key("expert_count", 5)),
            "blk.0.ffn_gate_inp.weight must be [5,32] by the config, got [4,32]");
  EXPECT_EQ(refusal(made_mixture().tensor("blk.1.ffn_up_exps.weight", {3, 48, 32})),
            "blk.1.ffn_up_exps.weight must be [4,48,32] by the config, got [3,48,32]");
  EXPECT_THAT(refusal(made_mixture().key("expert_used_count", 5)),
              HasSubstr("key \"llama.expert_used_count\" is a whole number from 1 to 4, got 5"));
  EXPECT_THAT(refusal(made_mixture().key("expert_used_count", 0)),
              HasSubstr("key \"llama.expert_used_count\" is a whole number from 1 to 4, got 0"));
  EXPECT_EQ(refusal(made_mixture().key("expert_count", 2000)),
            "run routes among 1 to 1024 experts, got 2000");
  EXPECT_THAT(refusal(made_latent().key("expert_group_count", 3)),
              HasSubstr("key \"deepseek2.expert_group_count\" is a divisor of the 4 experts, got 3"));
  EXPECT_EQ(refusal(made_latent().key("expert_group_count", 4)),
            "groups that count by their two best must hold two experts or more, got groups of 1");
  EXPECT_EQ(refusal(made_latent().key("expert_used_count", 3)),
            "the experts of a token must be 1 to 2, got 3");
}

// No layer has experts, so no weight says how many there are.
TEST(Gguf, ExpertsWithoutALayerTakeNoRoom) {
  EXPECT_EQ(refusal(made_llama()
                        .key("expert_count", 1024)
                        .key("expert_used_count", 1024)
                        .key("leading_dense_block_count", 2)),
            "");
}

TEST(Gguf, LatentAttentionHasKeysForEveryHead) {
  EXPECT_EQ(refusal(made_latent().key("attention.head_count_kv", 1)),
            "run computes layers of attention and mlps, got latent attention with 4 heads for 1 of keys");
  EXPECT_THAT(refusal(made_latent().key("rope.dimension_count", 14)),
              HasSubstr("key \"deepseek2.rope.dimension_count\""));
}

TEST(Gguf, CrossAttentionHasKeysForEveryHead) {
  EXPECT_EQ(refusal(made_t5().key("attention.head_count_kv", 2)),
            "run computes layers of attention and mlps, got cross-attention with 4 heads for 2 of keys");
}

// A table of buckets in blocks is read as what it says.
TEST(Gguf, RelativeTablesInBlocks) {
  MadeGguf made = made_t5();
  for (const char* const side : {"enc.", "dec."})
    made.tensor(std::string(side) + "blk.0.attn_rel_b.weight", {8, 32}, GgmlType::q8_0);
  EXPECT_THAT(refusal(made), HasSubstr("attn_rel_b.weight must be [8,4]"));
}

TEST(Gguf, EveryCutIsNamed) {
  for (const MadeGguf& made : {made_llama(), made_mixture(), made_t5()}) {
    const std::string whole = made.bytes();
    for (std::size_t piece = 0; piece < 60; ++piece) {
      const std::string message = refusal(whole.substr(0, whole.size() * piece / 60));
      EXPECT_THAT(message, HasSubstr("byte")) << piece;
    }
  }
}

std::string int32s(const std::vector<std::int32_t>& numbers) {
  std::string bytes;
  for (const std::int32_t number : numbers) bytes += raw(number);
  return bytes;
}

TEST(Llama2c, EveryCutIsNamed) {
  // width 8, mlp 12, 2 layers, 2 heads, 1 of keys, 10 tokens, 16 positions
  const std::string header = int32s({8, 12, 2, 2, 1, 10, 16});
  const std::size_t floats = 10 * 8 + 2 * (8 + 64 + 32 + 32 + 64 + 8 + 3 * 96) + 8 + 16 * 4;
  const std::string whole = header + std::string(floats * 4, '\0');
  EXPECT_EQ(refusal(whole, "model.bin"), "");
  for (std::size_t size = 0; size < whole.size(); size += 97)
    EXPECT_THAT(refusal(whole.substr(0, size), "model.bin"), HasSubstr("byte"));
  EXPECT_THAT(refusal(whole + "1234", "model.bin"), HasSubstr("4 bytes follow"));
}

TEST(Llama2c, SizesThatNoModelHas) {
  const std::string rest(4096, '\0');
  EXPECT_THAT(refusal(int32s({8, 12, 3, 2, 1, 10, 16}) + rest, "model.bin"),
              HasSubstr("the header asks for more weights than the 4124 bytes here"));
  EXPECT_THAT(refusal(int32s({8, 12, 2, 0, 1, 10, 16}) + rest, "model.bin"),
              HasSubstr("n_heads must be at least 1, got 0, at byte 12"));
  EXPECT_THAT(refusal(int32s({8, 12, 2, 3, 1, 10, 16}) + rest, "model.bin"),
              HasSubstr("must divide each other"));
  EXPECT_THAT(refusal(int32s({1 << 30, 12, 2, 1, 1, 10, 16}) + rest, "model.bin"),
              HasSubstr("heads of at most 1048576, got 1 of 1073741824"));
  EXPECT_THAT(refusal(int32s({1 << 30, 12, 2, 1 << 29, 1, 10, 16}) + rest, "model.bin"),
              HasSubstr("at most 1048576 heads"));
}

/// A written checkpoint with changed weights, loaded.
std::string refusal(const Checkpoint& checkpoint) {
  const TempDir folder;
  write_checkpoint(folder, checkpoint);
  ThreadPool pool(1);
  return refusal_of_one_token(folder.path(), pool);
}

TEST(Checkpoints, LayersAgainstWeights) {
  EXPECT_THAT(refusal(tiny("llama")), "");
  Checkpoint more = tiny("llama");
  more.config["num_hidden_layers"] = 3;
  EXPECT_THAT(refusal(more),
              HasSubstr("model.layers.2.input_layernorm.weight [54] must be there for a llama"));
  Checkpoint fewer = tiny("llama");
  fewer.config["num_hidden_layers"] = 1;
  EXPECT_THAT(refusal(fewer),
              HasSubstr("model.layers.1.input_layernorm.weight [54] is no part of a llama with 1"));
  Checkpoint most = tiny("llama");
  most.config["num_hidden_layers"] = 65536;
  EXPECT_THAT(refusal(most), HasSubstr("model.layers.2.input_layernorm.weight [54] must be there"));
}

TEST(Checkpoints, VocabularyAgainstTable) {
  Checkpoint checkpoint = tiny("gpt2");
  checkpoint.config["vocab_size"] = kVocab + 1;
  EXPECT_THAT(refusal(checkpoint),
              HasSubstr("transformer.wte.weight must be [98,60] by the config, got [97,60]"));
}

TEST(Checkpoints, EveryCutIsNamed) {
  const TempDir folder;
  write_checkpoint(folder, tiny("llama"));
  const std::string whole = slurp(folder.file("model.safetensors"));
  ThreadPool pool(1);
  for (std::size_t piece = 0; piece < 40; ++piece) {
    (void)folder.write("model.safetensors", whole.substr(0, whole.size() * piece / 40));
    EXPECT_THAT(refusal_of_one_token(folder.path(), pool),
                AllOf(HasSubstr("model.safetensors: "), HasSubstr("byte")));
  }
}

}  // namespace
}  // namespace locant

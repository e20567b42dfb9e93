// SPDX-License-Identifier: Apache-2.0
// What read_gguf() refuses: one sentence that names the file, the key or tensor, the rule and the value.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/temp_dir.h"
#include "formats/gguf_header.h"
#include "formats/gguf_writer.h"
#include "locant/spec.h"
#include "spec/gguf_spec.h"

namespace locant {
namespace {

using ::testing::StartsWith;
using tests::gguf_model;
using tests::GgufModel;
using tests::GgufStored;
using tests::message_of;
using tests::TempDir;

/// What reading says behind the path, without the place; "" when it reads.
std::string refusal(const GgufModel& model) {
  const TempDir dir;
  const std::string path = dir.write("model.gguf", model.bytes());
  const std::string message = message_of<FileError>([&] { (void)read_gguf(path); });
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  if (message.empty()) return message;
  EXPECT_THAT(message, StartsWith(path + ": "));
  const std::size_t begin = path.size() + 2;
  return message.substr(begin, std::min(message.find(", at byte "), message.size()) - begin);
}

std::string refusal_with(const std::string& key, GgufStored value) {
  return refusal(gguf_model("llama").set("llama." + key, std::move(value)));
}

TEST(GgufRefuses, AMissingKey) {
  EXPECT_EQ(refusal(GgufModel()), "key \"general.architecture\" must be stated, it is missing");
  for (const std::string key :
       {"context_length", "embedding_length", "block_count", "attention.head_count"}) {
    EXPECT_EQ(refusal(gguf_model("llama").drop("llama." + key)),
              "key \"llama." + key + "\" must be stated, it is missing");
  }
  EXPECT_EQ(refusal(gguf_model("llama")
                        .drop("llama.attention.layer_norm_rms_epsilon")
                        .drop("llama.attention.layer_norm_epsilon")),
            "key \"llama.attention.layer_norm_rms_epsilon\" must be stated, it is missing");
  struct Demand {
    const char* name;
    const char* key;
  };
  for (const Demand& demand :
       {Demand{"granite", "logit_scale"}, Demand{"cohere2", "logit_scale"},
        Demand{"gpt-oss", "attention.sliding_window"}, Demand{"gemma3n", "attention.sliding_window"},
        Demand{"qwen2vl", "rope.dimension_sections"}, Demand{"t5", "attention.relative_buckets_count"},
        Demand{"deepseek4", "attention.sliding_window"}}) {
    GgufModel model = gguf_model(demand.name);
    if (std::string(demand.name) == "cohere2") model.set("cohere2.attention.sliding_window", 64);
    EXPECT_EQ(refusal(model),
              "key \"" + std::string(demand.name) + "." + demand.key + "\" must be stated, it is missing");
  }
  EXPECT_EQ(refusal(gguf_model("gemma4").set("gemma4.attention.sliding_window", 64)),
            "key \"gemma4.attention.sliding_window_pattern\" must be stated, it is missing");
  EXPECT_EQ(refusal(gguf_model("gpt2")), "tensor \"position_embd.weight\" is missing");
}

TEST(GgufRefuses, AValueOfAnotherType) {
  for (const std::string key :
       {"context_length", "embedding_length", "block_count", "attention.head_count",
        "attention.head_count_kv", "feed_forward_length", "rope.dimension_count", "attention.key_length"}) {
    EXPECT_EQ(refusal_with(key, 1.5), "key \"llama." + key + "\" is a whole number, got f32");
    EXPECT_EQ(refusal_with(key, "4"), "key \"llama." + key + "\" is a whole number, got string");
    EXPECT_EQ(refusal_with(key, true), "key \"llama." + key + "\" is a whole number, got bool");
  }
  for (const std::string key : {"rope.freq_base", "rope.scaling.factor", "rope.scale_linear"}) {
    EXPECT_EQ(refusal_with(key, 10000), "key \"llama." + key + "\" is a floating-point number, got u32");
  }
  EXPECT_EQ(refusal_with("attention.layer_norm_rms_epsilon", 1),
            "key \"llama.attention.layer_norm_rms_epsilon\" is a floating-point number, got u32");
  EXPECT_EQ(refusal_with("rope.scaling.type", 2), "key \"llama.rope.scaling.type\" is a string, got u32");
  EXPECT_EQ(refusal_with("attention.causal", 1), "key \"llama.attention.causal\" is a bool, got u32");
  EXPECT_EQ(refusal_with("attention.head_count", std::vector<std::string>{"4"}),
            "key \"llama.attention.head_count\" is an array of whole numbers, got an array of string");
  EXPECT_EQ(refusal(gguf_model("llama").set("general.architecture", 7)),
            "key \"general.architecture\" is a string, got u32");
  EXPECT_EQ(
      refusal(
          gguf_model("llama").set("tokenizer.ggml.tokens", "all of them").drop_tensor("token_embd.weight")),
      "key \"tokenizer.ggml.tokens\" is an array, got string");
}

TEST(GgufRefuses, CountsThatNoModelHas) {
  const std::string rule = " is a whole number from 1 to 2147483647, got ";
  for (const std::string key :
       {"context_length", "embedding_length", "block_count", "attention.key_length"}) {
    EXPECT_EQ(refusal_with(key, 0), "key \"llama." + key + "\"" + rule + "0");
    EXPECT_EQ(refusal_with(key, std::uint32_t{1} << 31U), "key \"llama." + key + "\"" + rule + "2147483648");
    EXPECT_EQ(refusal_with(key, std::uint64_t{1} << 63U),
              "key \"llama." + key + "\" is a whole number below 2^63, got 9223372036854775808");
  }
  EXPECT_EQ(refusal_with("block_count", 70000),
            "key \"llama.block_count\" is a whole number from 1 to 65536, got 70000");
  EXPECT_EQ(refusal_with("attention.head_count", 0),
            "key \"llama.attention.head_count\" is at least 1 in some layer, got 0");
  EXPECT_EQ(refusal_with("attention.head_count_kv", 3),
            "key \"llama.attention.head_count_kv\" is a divisor of the 4 heads, got 3");
  EXPECT_EQ(refusal_with("attention.head_count_kv", 0),
            "key \"llama.attention.head_count_kv\" is at least 1 in some layer, got 0");
  EXPECT_EQ(refusal_with("attention.head_count", 96),
            "key \"llama.embedding_length\" is at least the 96 heads, got 64");
  EXPECT_EQ(refusal_with("attention.head_count", std::vector<int>{4, 4}),
            "key \"llama.attention.head_count\" is an array of at least 4 numbers, got an array of 2 i32");
  EXPECT_EQ(
      refusal_with("attention.head_count", std::vector<int>{4, 4, 4, -1}),
      "key \"llama.attention.head_count\" is an array of whole numbers from 0 to 2147483647, got -1 in it");
  EXPECT_EQ(refusal_with("nextn_predict_layers", 4),
            "key \"llama.nextn_predict_layers\" is below block_count, 4, got 4");
  EXPECT_EQ(refusal(gguf_model("t5")
                        .set("t5.attention.relative_buckets_count", 32)
                        .set("t5.decoder_block_count", 70000)),
            "key \"t5.decoder_block_count\" is a whole number from 1 to 65536, got 70000");
}

TEST(GgufRefuses, RotationsThatNoModelHas) {
  EXPECT_EQ(refusal_with("rope.dimension_count", 8),
            "key \"llama.rope.dimension_count\" is the width of a head, 16, in this architecture, got 8");
  EXPECT_EQ(refusal(gguf_model("qwen2").set("qwen2.rope.dimension_count", 18)),
            "key \"qwen2.rope.dimension_count\" is an even number up to the width of a head, 16, got 18");
  EXPECT_EQ(refusal(gguf_model("qwen2").set("qwen2.rope.dimension_count", 7)),
            "key \"qwen2.rope.dimension_count\" is an even number up to the width of a head, 16, got 7");
  EXPECT_EQ(refusal_with("rope.freq_base", 0.0), "key \"llama.rope.freq_base\" is a number above 0, got 0");
  EXPECT_EQ(refusal_with("rope.freq_base", std::nan("")),
            "key \"llama.rope.freq_base\" is a finite number, got nan");
  EXPECT_EQ(refusal_with("rope.scaling.factor", std::numeric_limits<double>::infinity()),
            "key \"llama.rope.scaling.factor\" is a finite number, got inf");
  EXPECT_EQ(refusal_with("rope.scaling.factor", -2.0),
            "key \"llama.rope.scaling.factor\" is a number of at least 0, got -2");
  EXPECT_EQ(refusal_with("rope.scaling.type", "dynamic"),
            "key \"llama.rope.scaling.type\" is none, linear, yarn or longrope, got \"dynamic\"");
  EXPECT_EQ(refusal(gguf_model("qwen3vl").set("qwen3vl.rope.dimension_sections", std::vector<int>{4, 4})),
            "key \"qwen3vl.rope.dimension_sections\" is three axes, got an array of 2 i32");
  EXPECT_EQ(refusal(gguf_model("gemma3")
                        .set("gemma3.attention.sliding_window", 8)
                        .set("gemma3.attention.sliding_window_pattern", std::vector<bool>{true})),
            "key \"gemma3.attention.sliding_window_pattern\" is an array with a value for each of the 4 "
            "layers, got an array of 1 bool");
}

TEST(GgufRefuses, TensorsThatDoNotFit) {
  EXPECT_EQ(
      refusal(gguf_model("llama").zeros("token_embd.weight", {48, 32})),
      "tensor \"token_embd.weight\" is rows of 64 by key \"llama.embedding_length\", got shape [48,32]");
  EXPECT_EQ(refusal(gguf_model("llama").zeros("token_embd.weight", {64})),
            "tensor \"token_embd.weight\" is rows of 64 by key \"llama.embedding_length\", got shape [64]");
  EXPECT_EQ(refusal(gguf_model("llama").floats("rope_freqs.weight", {1, 1, 1})),
            "tensor \"rope_freqs.weight\" is one row of at least 8 numbers, got shape [3]");
  EXPECT_EQ(refusal(gguf_model("llama").zeros("rope_freqs.weight", {8})),
            "tensor \"rope_freqs.weight\" is all finite numbers above 0, got 0");
  EXPECT_EQ(refusal(gguf_model("llama").zeros("rope_freqs.weight", {32}, GgmlType::q8_0)),
            "tensor \"rope_freqs.weight\" is of F32, F16 or BF16, got Q8_0");
  EXPECT_EQ(refusal(gguf_model("phi3").floats("rope_factors_long.weight", {1, 1, 1, 1, 1, 1, 1, 1})),
            "tensors \"rope_factors_short.weight\" and \"rope_factors_long.weight\" stand beside each other, "
            "\"rope_factors_short.weight\" is missing");
}

/// As read_gguf() of a file with these bytes.
ModelSpec read_bytes(const std::string& bytes) {
  const GgufHeader header = parse_gguf_header(bytes, "x");
  const std::span<const std::byte> all(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size());
  std::vector<GgufTensor> tensors;
  for (const GgufEntry& entry : header.entries) {
    GgufTensor tensor;
    tensor.name = entry.name;
    tensor.type = entry.type;
    tensor.shape = entry.shape;
    tensor.path = "x";
    if (entry.bytes > 0) {
      tensor.bytes = all.subspan(static_cast<std::size_t>(header.data_begin + entry.begin),
                                 static_cast<std::size_t>(entry.bytes));
    }
    tensors.push_back(std::move(tensor));
  }
  return read_gguf(GgufContents{.path = "x", .metadata = header.metadata, .tensors = tensors});
}

/// Every cut either reads, where only padding is gone, or is refused in one sentence.
void expect_one_sentence(const std::string& cut, bool whole) {
  try {
    (void)read_bytes(cut);
    EXPECT_TRUE(whole) << "read " << cut.size() << " bytes";
  } catch (const FileError& error) {
    EXPECT_FALSE(whole) << error.what();
    ASSERT_THAT(error.what(), StartsWith("x: "));
    ASSERT_EQ(std::string(error.what()).find('\n'), std::string::npos);
  }
}

TEST(GgufRefuses, EveryCut) {
  for (const char* const name : {"llama", "gemma2", "bloom", "newest"}) {
    SCOPED_TRACE(name);
    const std::string file = gguf_model(name).bytes();
    const GgufHeader header = parse_gguf_header(file, "x");
    std::int64_t end = 0;
    for (const GgufEntry& entry : header.entries)
      end = std::max(end, header.data_begin + entry.begin + entry.bytes);
    const auto begin = static_cast<std::size_t>(header.data_begin);
    for (std::size_t size = 0; size < begin; ++size) expect_one_sentence(file.substr(0, size), false);
    for (std::size_t i = 0; i < 200; ++i) {
      const std::size_t size = begin + (file.size() - begin) * i / 200;
      expect_one_sentence(file.substr(0, size), static_cast<std::int64_t>(size) >= end);
    }
    expect_one_sentence(file, true);
  }
}

TEST(GgufRefuses, AnyByteChangedIsReadOrRefused) {
  const std::string file = gguf_model("gemma3").set("gemma3.attention.sliding_window", 8).bytes();
  const auto begin = static_cast<std::size_t>(parse_gguf_header(file, "x").data_begin);
  int refused = 0;
  for (std::size_t at = 0; at < begin; ++at) {
    for (const unsigned flip : {1U, 0x80U, 0xffU}) {
      std::string changed = file;
      changed[at] = static_cast<char>(static_cast<unsigned char>(changed[at]) ^ flip);
      try {
        const ModelSpec spec = read_bytes(changed);
        EXPECT_EQ(spec.attention.size(), static_cast<std::size_t>(spec.layers));
      } catch (const FileError&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace locant

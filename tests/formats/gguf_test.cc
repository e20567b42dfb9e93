// SPDX-License-Identifier: Apache-2.0
// Right files: those of the gguf package, of llama.cpp and a trained model's; parts of a split file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/temp_dir.h"
#include "formats/gguf_files.h"
#include "formats/gguf_header.h"
#include "locant/formats.h"

namespace locant {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using tests::from_hex;
using tests::gguf;
using tests::gguf_golden;
using tests::info;
using tests::message_of;
using tests::pair;
using tests::raw;
using tests::TempDir;

const std::string kData = LOCANT_TEST_DATA_DIR;

/// The golden files, by name.
void write_golden(const TempDir& dir) {
  const Json golden = gguf_golden();
  for (const auto& [name, hex] : golden.at("files").items()) dir.write(name, from_hex(hex));
}

std::vector<float> floats_of(const GgufTensor& tensor) {
  std::vector<float> out(static_cast<std::size_t>(tensor.size()));
  dequantize(tensor.type, tensor.bytes.data(), tensor.size(), out.data());
  return out;
}

TEST(Gguf, ReadsEveryTypeOfValue) {
  const TempDir dir;
  write_golden(dir);
  const GgufFile file(dir.file("golden.gguf"));
  EXPECT_EQ(file.version(), 3);
  EXPECT_EQ(file.alignment(), 64);
  EXPECT_EQ(file.bytes(), static_cast<std::int64_t>(std::filesystem::file_size(dir.file("golden.gguf"))));
  EXPECT_EQ(file.value("v.u8").as_int64(), 255);
  EXPECT_EQ(file.value("v.i8").as_int64(), -128);
  EXPECT_EQ(file.value("v.u16").as_int64(), 65535);
  EXPECT_EQ(file.value("v.i16").as_int64(), -32768);
  EXPECT_EQ(file.value("v.u32").as_int64(), 4294967295);
  EXPECT_EQ(file.value("v.i32").as_int64(), -2147483648LL);
  EXPECT_EQ(file.value("v.i64").as_int64(), INT64_MIN);
  EXPECT_EQ(std::get<std::uint64_t>(file.value("v.u64").value), UINT64_MAX);
  EXPECT_EQ(file.value("v.f32").as_double(), static_cast<double>(0.1F));
  EXPECT_EQ(file.value("v.f64").as_double(), 0.1);
  EXPECT_TRUE(file.value("v.bool").as_bool());
  EXPECT_EQ(file.value("v.string").as_string(),
            "a \xc4\xa0"
            "b");
  EXPECT_THAT(file.value("a.i32").as_int64s(), ElementsAre(1, -2, 3));
  EXPECT_THAT(file.value("a.f32").as_doubles(), ElementsAre(0.5, -0.25));
  EXPECT_THAT(file.value("a.string").as_strings(), ElementsAre("<unk>",
                                                               "\xe2\x96\x81"
                                                               "a",
                                                               "b c"));
  EXPECT_THAT(std::get<std::vector<bool>>(file.value("a.bool").as_array().values),
              ElementsAre(true, false, true));
  const auto& nested = std::get<std::vector<GgufArray>>(file.value("a.nested").as_array().values);
  ASSERT_EQ(nested.size(), 2U);
  EXPECT_THAT(std::get<std::vector<std::int32_t>>(nested[0].values), ElementsAre(1, 2));
  EXPECT_THAT(std::get<std::vector<std::int32_t>>(nested[1].values), ElementsAre(3));
  EXPECT_EQ(nested[1].size(), 1);
  for (const auto& [key, value] : file.metadata()) EXPECT_EQ(value.key, key);
}

TEST(Gguf, ReadsTensors) {
  const TempDir dir;
  write_golden(dir);
  const GgufFile file(dir.file("golden.gguf"));
  ASSERT_EQ(file.tensors().size(), 3U);
  EXPECT_EQ(file.tensors()[0].name, "ramp.f16");
  EXPECT_EQ(file.find("ramp"), nullptr);
  const GgufTensor& ramp = *file.find("ramp.f32");
  EXPECT_THAT(ramp.shape, ElementsAre(2, 3, 32));
  EXPECT_EQ(ramp.file_offset % file.alignment(), 0);
  const std::string whole = tests::slurp(ramp.path);
  EXPECT_EQ(whole.substr(static_cast<std::size_t>(ramp.file_offset), ramp.bytes.size()),
            std::string(reinterpret_cast<const char*>(ramp.bytes.data()), ramp.bytes.size()));
  const std::vector<float> values = floats_of(ramp);
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], static_cast<float>(i));
  const TensorRef tensor = ramp.tensor().value();
  EXPECT_EQ(tensor.shape_text(), "[2,3,32]");
  EXPECT_TRUE(tensor.is_contiguous());
  EXPECT_EQ(tensor.data, ramp.bytes.data());
  const GgufTensor& halves = *file.find("ramp.f16");
  EXPECT_EQ(halves.tensor().value().dtype, DType::f16);
  EXPECT_EQ(floats_of(halves)[95], 95.F);
  const GgufTensor& blocks = *file.find("ramp.q8_0");
  EXPECT_EQ(blocks.type, GgmlType::q8_0);
  EXPECT_FALSE(blocks.tensor().has_value());
  EXPECT_EQ(blocks.bytes.size(), 3U * 34U);
  EXPECT_THAT(blocks.shape, ElementsAre(3, 32));
}

TEST(Gguf, GettersNameKeyAndType) {
  const TempDir dir;
  write_golden(dir);
  const std::string path = dir.file("golden.gguf");
  const GgufFile file(path);
  const auto cause = [&](auto get) {
    const std::string message = message_of<FileError>([&] { get(file); });
    return message.substr(std::min(message.size(), path.size()), message.find(", at byte") - path.size());
  };
  EXPECT_EQ(cause([](const GgufFile& f) { (void)f.value("v.f32").as_int64(); }),
            ": key \"v.f32\" is a whole number, got f32");
  EXPECT_EQ(cause([](const GgufFile& f) { (void)f.value("v.bool").as_int64(); }),
            ": key \"v.bool\" is a whole number, got bool");
  EXPECT_EQ(cause([](const GgufFile& f) { (void)f.value("v.u64").as_int64(); }),
            ": key \"v.u64\" is a whole number below 2^63, got 18446744073709551615");
  EXPECT_EQ(cause([](const GgufFile& f) { (void)f.value("v.u32").as_double(); }),
            ": key \"v.u32\" is a floating-point number, got u32");
  EXPECT_EQ(cause([](const GgufFile& f) { (void)f.value("v.u8").as_bool(); }),
            ": key \"v.u8\" is a bool, got u8");
  EXPECT_EQ(cause([](const GgufFile& f) { (void)f.value("a.string").as_string(); }),
            ": key \"a.string\" is a string, got an array of string");
  EXPECT_EQ(cause([](const GgufFile& f) { (void)f.value("v.i8").as_array(); }),
            ": key \"v.i8\" is an array, got i8");
  EXPECT_EQ(cause([](const GgufFile& f) { (void)f.value("a.bool").as_int64s(); }),
            ": key \"a.bool\" is an array of whole numbers, got an array of bool");
  EXPECT_EQ(cause([](const GgufFile& f) { (void)f.value("a.nested").as_int64s(); }),
            ": key \"a.nested\" is an array of whole numbers, got an array of array");
  EXPECT_EQ(cause([](const GgufFile& f) { (void)f.value("a.i32").as_doubles(); }),
            ": key \"a.i32\" is an array of floating-point numbers, got an array of i32");
  EXPECT_EQ(cause([](const GgufFile& f) { (void)f.value("v.string").as_strings(); }),
            ": key \"v.string\" is an array of strings, got string");
  EXPECT_EQ(cause([](const GgufFile& f) { (void)f.value("a.f32").as_strings(); }),
            ": key \"a.f32\" is an array of strings, got an array of f32");
  EXPECT_EQ(message_of<FileError>([&] { (void)file.value("llama.block_count"); }),
            path + ": key \"llama.block_count\" is missing");
  EXPECT_EQ(file.find_value("llama.block_count"), nullptr);
  const std::int64_t at = file.value("v.f32").file_offset;
  EXPECT_EQ(message_of<FileError>([&] { (void)file.value("v.f32").as_bool(); }),
            path + ": key \"v.f32\" is a bool, got f32, at byte " + std::to_string(at));
  EXPECT_EQ(tests::slurp(path).substr(static_cast<std::size_t>(at), 4), raw(0.1F));
}

TEST(Gguf, CopiesShareTheMapping) {
  const TempDir dir;
  write_golden(dir);
  auto file = std::make_unique<GgufFile>(dir.file("golden.gguf"));
  const GgufFile copy = *file;
  const std::byte* const data = file->find("ramp.f32")->bytes.data();
  file.reset();
  EXPECT_EQ(copy.find("ramp.f32")->bytes.data(), data);
  EXPECT_EQ(floats_of(*copy.find("ramp.f32"))[5], 5.F);
}

TEST(Gguf, PartsAreOneFile) {
  const TempDir dir;
  write_golden(dir);
  const GgufFile whole(dir.file("golden.gguf"));
  for (const std::string name : {"golden-00001-of-00002.gguf", "golden-00002-of-00002.gguf"}) {
    const GgufFile parts(dir.file(name));
    ASSERT_EQ(parts.tensors().size(), whole.tensors().size());
    for (std::size_t i = 0; i < whole.tensors().size(); ++i) {
      EXPECT_EQ(parts.tensors()[i].name, whole.tensors()[i].name);
      EXPECT_EQ(parts.tensors()[i].shape, whole.tensors()[i].shape);
      EXPECT_EQ(floats_of(parts.tensors()[i]), floats_of(whole.tensors()[i]));
    }
    EXPECT_EQ(parts.find("ramp.q8_0")->path, dir.file("golden-00002-of-00002.gguf"));
    EXPECT_EQ(parts.value("v.i8").as_int64(), -128);
    EXPECT_EQ(parts.value("split.no").as_int64(), 0);
    EXPECT_EQ(parts.alignment(), 32);
    EXPECT_GT(parts.bytes(), whole.bytes());
  }
}

TEST(Gguf, PartsThatDoNotBelong) {
  const TempDir dir;
  write_golden(dir);
  const std::string first = dir.file("golden-00001-of-00002.gguf");
  const std::string second = dir.file("golden-00002-of-00002.gguf");
  const auto cause = [](const std::string& path) {
    return message_of<FileError>([&] { (void)GgufFile(path); });
  };
  EXPECT_THAT(cause(dir.write("alone.gguf", tests::slurp(first))),
              HasSubstr("key \"split.count\" says 2 parts, the name of a part ends in -00001-of-00002.gguf"));
  std::filesystem::copy(first, dir.file("x-00001-of-00003.gguf"));
  EXPECT_THAT(cause(dir.file("x-00001-of-00003.gguf")),
              HasSubstr("key \"split.count\" is 3 by the files' names and tensors, got 2"));
  std::filesystem::copy(second, dir.file("y-00001-of-00002.gguf"));
  EXPECT_THAT(cause(dir.file("y-00001-of-00002.gguf")),
              HasSubstr("key \"split.no\" is 0 by the files' names and tensors, got 1"));
  const std::string empty = gguf({});
  dir.write("z-00001-of-00002.gguf", tests::slurp(first));
  dir.write("z-00002-of-00002.gguf", empty);
  EXPECT_THAT(cause(dir.file("z-00001-of-00002.gguf")),
              HasSubstr("key \"split.tensors.count\" is 2 by the files' names and tensors, got 3"));
  const std::string one = gguf({.tensors = 1, .body = info({}), .data = std::string(16, 'x')});
  dir.write("w-00001-of-00002.gguf", one);
  dir.write("w-00002-of-00002.gguf", one);
  EXPECT_THAT(cause(dir.file("w-00001-of-00002.gguf")), HasSubstr("tensor \"t\" stands in two parts, "));
  std::filesystem::remove(second);
  EXPECT_THAT(cause(first), HasSubstr("golden-00002-of-00002.gguf"));
  // no names of parts: read alone
  EXPECT_EQ(cause(dir.write("a-00003-of-00002.gguf", empty)), "");
  EXPECT_EQ(cause(dir.write("a-00000-of-00002.gguf", empty)), "");
  EXPECT_EQ(cause(dir.write("a-0001-of-00002.gguf", empty)), "");
  EXPECT_EQ(cause(dir.write("a-+0001-of-00002.gguf", empty)), "");
  EXPECT_EQ(cause(dir.write("a-00001-of-00001.gguf", empty)), "");
  const std::string merged =
      gguf({.pairs = 1, .body = pair("split.count", GgufType::u16, raw(std::uint16_t{0}))});
  EXPECT_EQ(cause(dir.write("merged.gguf", merged)), "");
}

TEST(Gguf, Version2) {
  const auto header = parse_gguf_header(
      gguf({.version = 2, .tensors = 1, .body = info({.extents = {2, 3}}), .data = std::string(24, 'x')}),
      "x");
  EXPECT_EQ(header.version, 2);
  EXPECT_EQ(header.alignment, 32);
  EXPECT_THAT(header.entries.at(0).shape, ElementsAre(3, 2));
}

TEST(Gguf, FactsOfPublishedVocabularies) {
  if (kData.empty()) GTEST_SKIP() << "needs LOCANT_TEST_DATA";
  const auto open = [](const std::string& name) {
    return GgufFile(kData + "/ggml-vocab-gguf/ggml-vocab-" + name + ".gguf");
  };
  const GgufFile neox = open("gpt-neox");
  EXPECT_EQ(neox.tensors().size(), 0U);
  EXPECT_EQ(neox.metadata().size(), 17U);
  EXPECT_EQ(neox.value("gptneox.rope.dimension_count").as_int64(), 24);
  EXPECT_EQ(neox.value("gptneox.embedding_length").as_int64(), 6144);
  EXPECT_EQ(neox.value("gptneox.attention.head_count").as_int64(), 64);
  EXPECT_TRUE(neox.value("gptneox.use_parallel_residual").as_bool());
  EXPECT_EQ(neox.value("tokenizer.ggml.tokens").as_strings().size(), 50432U);
  EXPECT_EQ(neox.value("tokenizer.ggml.merges").as_strings().at(0), "\xc4\xa0 \xc4\xa0");
  EXPECT_EQ(open("mpt").value("mpt.attention.max_alibi_bias").as_double(), 8.0);
  const GgufFile phi = open("phi-3");
  EXPECT_EQ(phi.value("phi3.rope.freq_base").as_double(), 10000.0);
  EXPECT_EQ(phi.value("phi3.rope.dimension_count").as_int64(), 96);
  EXPECT_EQ(phi.value("phi3.rope.scaling.original_context_length").as_int64(), 4096);
  EXPECT_EQ(phi.value("tokenizer.ggml.scores").as_doubles().at(0), -1000.0);
  const GgufFile bert = open("bert-bge");
  EXPECT_FALSE(bert.value("bert.attention.causal").as_bool());
  EXPECT_EQ(bert.value("tokenizer.ggml.token_type_count").as_int64(), 2);
  EXPECT_EQ(bert.value("tokenizer.ggml.token_type").as_int64s().size(), 30522U);
  const GgufFile falcon = open("falcon");
  EXPECT_EQ(falcon.value("falcon.attention.head_count").as_int64(), 71);
  EXPECT_EQ(falcon.value("falcon.attention.head_count_kv").as_int64(), 1);
  EXPECT_EQ(open("gpt-2").value("gpt2.context_length").as_int64(), 1024);
}

TEST(Gguf, TrainedModelEqualsItsSafetensors) {
  if (kData.empty()) GTEST_SKIP() << "needs LOCANT_TEST_DATA";
  const SafetensorsFile stored(kData + "/stories260k/hf/model.safetensors");
  std::vector<std::pair<std::string, std::string>> names{{"token_embd", "embed_tokens"},
                                                         {"output_norm", "norm"}};
  for (int layer = 0; layer < 5; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    const std::string of = "layers." + std::to_string(layer) + ".";
    names.emplace_back(block + "attn_norm", of + "input_layernorm");
    names.emplace_back(block + "ffn_norm", of + "post_attention_layernorm");
    names.emplace_back(block + "attn_v", of + "self_attn.v_proj");
    names.emplace_back(block + "attn_output", of + "self_attn.o_proj");
    names.emplace_back(block + "ffn_gate", of + "mlp.gate_proj");
    names.emplace_back(block + "ffn_up", of + "mlp.up_proj");
    names.emplace_back(block + "ffn_down", of + "mlp.down_proj");
  }
  for (const std::string kind : {"f32", "f16"}) {
    const GgufFile file(kData + "/stories260k/stories260K-" + kind + ".gguf");
    EXPECT_EQ(file.tensors().size(), stored.tensors().size());
    EXPECT_EQ(file.value("llama.attention.head_count_kv").as_int64(), 4);
    EXPECT_EQ(file.value("general.file_type").as_int64(), kind == "f16" ? 1 : 0);
    for (const auto& [name, of] : names) {
      const GgufTensor* const tensor = file.find(name + ".weight");
      const StoredTensor* const wanted = stored.find("model." + of + ".weight");
      ASSERT_NE(tensor, nullptr) << name;
      ASSERT_NE(wanted, nullptr) << of;
      ASSERT_EQ(tensor->shape.size(), wanted->tensor.rank);
      for (std::size_t axis = 0; axis < tensor->shape.size(); ++axis) {
        ASSERT_EQ(tensor->shape[axis], wanted->tensor.shape[axis]) << name;
      }
      EXPECT_EQ(tensor->type == GgmlType::f16, kind == "f16" && tensor->shape.size() == 2) << name;
      const std::vector<float> values = floats_of(*tensor);
      for (std::size_t i = 0; i < values.size(); ++i) {
        float value = 0;
        std::memcpy(&value, static_cast<const std::byte*>(wanted->tensor.data) + 4 * i, sizeof(value));
        if (tensor->type == GgmlType::f16) value = f32_from(half_from_f32(value));
        ASSERT_EQ(values[i], value) << name << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace locant

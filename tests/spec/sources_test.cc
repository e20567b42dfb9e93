// SPDX-License-Identifier: Apache-2.0
// params.json of Meta and Mistral, and the header of llama2.c.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "budgets.h"
#include "locant/positions.h"
#include "spec/configs.h"

namespace locant {
namespace {

using namespace tests;
using testing::HasSubstr;
using testing::IsEmpty;

ModelSpec read_params(const Json& params) {
  const TempDir dir;
  return read_meta_params(dir.write("params.json", params.dump()));
}

Rotation rotation_of(const ModelSpec& spec, std::size_t layer = 0) {
  const Plan plan = locant::plan(spec.positions, find_recipe("exact"), {});
  return plan.kinds.at(static_cast<std::size_t>(plan.layers.at(layer))).rotation.value();
}

TEST(MetaParams, Llama2LeavesTheVocabularyToTheTokenizer) {
  const ModelSpec spec = read_params({{"dim", 4096},
                                      {"multiple_of", 256},
                                      {"n_heads", 32},
                                      {"n_layers", 32},
                                      {"norm_eps", 1e-5},
                                      {"vocab_size", -1}});
  EXPECT_EQ(spec.format, "meta");
  EXPECT_EQ(spec.vocab, 0);
  EXPECT_EQ(spec.mlp.width, 11008);
  EXPECT_EQ(spec.kv_heads, 32);
  EXPECT_EQ(spec.head_dim, 128);
  EXPECT_FALSE(spec.head.tied);
  ASSERT_EQ(spec.notes.size(), 1U);
  EXPECT_THAT(spec.notes[0].text, HasSubstr("vocab_size"));
  EXPECT_EQ(rotation_of(spec).read, Pairing::interleaved);
  EXPECT_NEAR(rotation_of(spec).inv_freq[1], std::pow(10000.0, -1.0 / 64), budgets::kFrequencyExact);
}

TEST(MetaParams, Llama31) {
  const ModelSpec spec = read_params({{"dim", 4096},
                                      {"n_layers", 32},
                                      {"n_heads", 32},
                                      {"n_kv_heads", 8},
                                      {"vocab_size", 128256},
                                      {"ffn_dim_multiplier", 1.3},
                                      {"multiple_of", 1024},
                                      {"norm_eps", 1e-5},
                                      {"rope_theta", 500000.0},
                                      {"use_scaled_rope", true}});
  EXPECT_THAT(spec.notes, IsEmpty());
  EXPECT_EQ(spec.mlp.width, 14336);
  const PositionSpec& rope = spec.positions.layers.at(31).at(0);
  EXPECT_EQ(rope.mechanism, "llama3");
  EXPECT_EQ(std::get<double>(rope.find("factor")->value), 8);
  EXPECT_EQ(std::get<std::int64_t>(rope.find("original_length")->value), 8192);
  EXPECT_NEAR(rotation_of(spec).inv_freq[63], std::pow(500000.0, -126.0 / 128) / 8, budgets::kFrequencyExact);
}

TEST(MetaParams, Llama4LeavesOutLayersAndChunks) {
  const ModelSpec spec = read_params({{"dim", 5120},
                                      {"n_layers", 8},
                                      {"n_heads", 40},
                                      {"n_kv_heads", 8},
                                      {"vocab_size", 202048},
                                      {"rope_theta", 500000},
                                      {"use_scaled_rope", true},
                                      {"rope_scaling_factor", 16.0},
                                      {"rope_high_freq_factor", 1.0},
                                      {"nope_layer_interval", 4},
                                      {"attention_chunk_size", 8192},
                                      {"attn_temperature_tuning", true},
                                      {"floor_scale", 8192},
                                      {"attn_scale", 0.1}});
  for (std::size_t layer = 0; layer < 8; ++layer) {
    const bool nope = layer % 4 == 3;
    ASSERT_EQ(spec.positions.layers[layer].size(), 1U);
    EXPECT_EQ(spec.positions.layers[layer][0].mechanism, nope ? "attention_temperature" : "llama3");
    EXPECT_EQ(spec.attention[layer].kind, nope ? AttentionKind::full : AttentionKind::chunk);
  }
  EXPECT_EQ(spec.positions.layers[0][0].find("factor")->key, "rope_scaling_factor");
}

TEST(MetaParams, MistralsBlocks) {
  const ModelSpec spec =
      read_params({{"dim", 512},
                   {"n_layers", 2},
                   {"n_heads", 8},
                   {"head_dim", 40},
                   {"hidden_dim", 900},
                   {"n_kv_heads", 2},
                   {"vocab_size", 131072},
                   {"rope_theta", 1e6},
                   {"sliding_window", 300},
                   {"tied_embeddings", true},
                   {"yarn",
                    {{"factor", 16},
                     {"original_max_position_embeddings", 16384},
                     {"beta", 32},
                     {"alpha", 1},
                     {"apply_scale", false}}},
                   {"llama_4_scaling", {{"beta", 0.1}, {"original_max_position_embeddings", 16384}}}});
  EXPECT_EQ(spec.mlp.width, 900);
  EXPECT_TRUE(spec.head.tied);
  EXPECT_EQ(spec.head.tied_key, "tied_embeddings");
  EXPECT_EQ(spec.attention[1].window, 300);
  ASSERT_EQ(spec.positions.layers[1].size(), 2U);
  EXPECT_EQ(spec.positions.layers[1][0].mechanism, "yarn");
  EXPECT_EQ(spec.positions.layers[1][0].find("beta_slow")->key, "yarn.alpha");
  EXPECT_EQ(spec.positions.layers[1][1].mechanism, "attention_temperature");
  EXPECT_EQ(rotation_of(spec).amplitude, 1);
  EXPECT_EQ(rotation_of(spec).head_dim, 40);
}

TEST(MetaParams, Refusals) {
  const Json good = {{"dim", 512}, {"n_layers", 2}, {"n_heads", 8}};
  const auto refused = [](const Json& params) {
    return message_of<SpecError>([&] { (void)read_params(params); });
  };
  EXPECT_EQ(refused(good), "");
  for (const char* key : {"dim", "n_layers", "n_heads"})
    EXPECT_THAT(refused(without(good, key)), HasSubstr(key));
  EXPECT_THAT(refused(with(good, {{"n_heads", 7}})), HasSubstr("dim"));
  EXPECT_THAT(refused(with(good, {{"n_kv_heads", 3}})), HasSubstr("n_kv_heads"));
  EXPECT_THAT(refused(with(good, {{"n_layers", 1 << 20}})), HasSubstr("n_layers"));
  EXPECT_THAT(refused(with(good, {{"ffn_dim_multiplier", -1.0}})), HasSubstr("ffn_dim_multiplier"));
  EXPECT_THAT(refused(with(good, {{"rope_theta", "big"}})), HasSubstr("rope_theta"));
  EXPECT_THAT(refused(with(good, {{"yarn", {{"beta", 3}}}})), HasSubstr("yarn.factor"));
  EXPECT_THAT(refused(Json::array()), HasSubstr("params"));
}

std::string header(const std::vector<std::int32_t>& integers, const std::string& rest = {}) {
  std::string bytes;
  for (const std::int32_t integer : integers) {
    for (unsigned shift = 0; shift < 32; shift += 8) {
      bytes.push_back(static_cast<char>(static_cast<std::uint32_t>(integer) >> shift));
    }
  }
  return bytes + rest;
}

ModelSpec read_export(const std::string& bytes) {
  const TempDir dir;
  return read_llama2c(dir.write("model.bin", bytes));
}

constexpr std::int32_t kAk42 = 0x616b3432;

TEST(Llama2c, VersionZero) {
  const ModelSpec tied = read_export(header({64, 172, 5, 8, 4, 512, 300}));
  EXPECT_EQ(tied.format, "llama2c");
  EXPECT_EQ(tied.hidden, 64);
  EXPECT_EQ(tied.mlp.width, 172);
  EXPECT_EQ(tied.layers, 5);
  EXPECT_EQ(tied.kv_heads, 4);
  EXPECT_EQ(tied.head_dim, 8);
  EXPECT_EQ(tied.vocab, 512);
  EXPECT_EQ(tied.lengths.configured, 300);
  EXPECT_TRUE(tied.head.tied);
  EXPECT_EQ(rotation_of(tied).read, Pairing::interleaved);
  EXPECT_FALSE(read_export(header({64, 172, 5, 8, 4, -512, 300})).head.tied);
  EXPECT_EQ(read_export(header({64, 172, 5, 8, 4, -512, 300})).vocab, 512);
}

TEST(Llama2c, VersionsOneAndTwo) {
  for (const std::int32_t version : {1, 2}) {
    EXPECT_TRUE(read_export(header({kAk42, version, 64, 172, 5, 8, 4, 512, 300}, "\x01")).head.tied);
    EXPECT_FALSE(
        read_export(header({kAk42, version, 64, 172, 5, 8, 4, 512, 300}, std::string(1, '\0'))).head.tied);
  }
}

TEST(Llama2c, Refusals) {
  const auto refused = [](const std::string& bytes) {
    return message_of<FileError>([&] { (void)read_export(bytes); });
  };
  const std::string good = header({64, 172, 5, 8, 4, 512, 300});
  for (std::size_t bytes = 0; bytes < good.size(); ++bytes) {
    EXPECT_THAT(refused(good.substr(0, bytes)), HasSubstr("28 bytes")) << bytes;
  }
  EXPECT_THAT(refused(header({kAk42, 3, 64, 172, 5, 8, 4, 512, 300}, "x")), HasSubstr("version"));
  EXPECT_THAT(refused(header({kAk42, 1, 64, 172, 5, 8, 4, 512, 300})), HasSubstr("37 bytes"));
  EXPECT_THAT(refused(header({64, 172, 5, 7, 7, 512, 300})), HasSubstr("dim, n_heads"));
  EXPECT_THAT(refused(header({64, 172, 5, 8, 3, 512, 300})), HasSubstr("n_kv_heads"));
  EXPECT_THAT(refused(header({64, 172, 1 << 20, 8, 4, 512, 300})), HasSubstr("n_layers"));
  for (std::size_t i = 0; i < 7; ++i) {
    std::vector<std::int32_t> sizes = {64, 172, 5, 8, 4, 512, 300};
    sizes[i] = 0;
    EXPECT_THAT(refused(header(sizes)), HasSubstr("at least 1, got 0")) << i;
  }
}

TEST(Llama2c, FilesOfPyTorchAreNamed) {
  const auto refused = [](std::string bytes) {
    bytes.resize(64);
    return message_of<FileError>([&] { (void)read_export(bytes); });
  };
  EXPECT_THAT(refused("PK\x03\x04"), HasSubstr("this is a PyTorch file"));
  EXPECT_THAT(refused("\x80\x02\x8A\x0A"), HasSubstr("this is a PyTorch file"));
  EXPECT_THAT(refused("\x80\x02}q"), HasSubstr("this is a PyTorch file"));
  // 640 channels begin with the same two bytes
  EXPECT_EQ(read_export(header({0x0280, 172, 5, 8, 4, 512, 300})).hidden, 640);
}

TEST(Llama2c, TheRealOne) {
  const std::filesystem::path path =
      std::filesystem::path(LOCANT_TEST_DATA_DIR) / "stories260k" / "stories260K.bin";
  if (std::string(LOCANT_TEST_DATA_DIR).empty() || !std::filesystem::exists(path)) {
    GTEST_SKIP() << "no stories260k in the test data";
  }
  const ModelSpec spec = read_llama2c(path.string());
  EXPECT_EQ(spec.hidden, 64);
  EXPECT_EQ(spec.layers, 5);
  EXPECT_EQ(spec.vocab, 512);
  EXPECT_TRUE(spec.head.tied);
}

}  // namespace
}  // namespace locant

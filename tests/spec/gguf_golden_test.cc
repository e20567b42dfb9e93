// SPDX-License-Identifier: Apache-2.0
// Files of the gguf package against what transformers makes of them and against llama.cpp's frequencies
// (golden/gguf.json, by golden/generate_gguf.py), and published files.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "budgets.h"
#include "core/temp_dir.h"
#include "formats/gguf_files.h"
#include "locant/positions.h"
#include "locant/spec.h"

namespace locant {
namespace {

using tests::TempDir;
using Row = nlohmann::json;

Row golden() {
  return Row::parse(std::ifstream(std::string(LOCANT_SOURCE_DIR) + "/tests/spec/golden/gguf.json"));
}

const PositionSpec* rotation_of(const ModelSpec& spec) {
  for (auto layer = spec.positions.layers.rbegin(); layer != spec.positions.layers.rend(); ++layer) {
    for (const PositionSpec& position : *layer) {
      if (find_mechanism(position.mechanism).site == Site::rotation) return &position;
    }
  }
  return nullptr;
}

void expect_number(const Row& row, const char* key, std::int64_t ours) {
  if (row.at(key).is_null()) return;
  EXPECT_EQ(ours, row.at(key).get<std::int64_t>()) << key;
}

void expect_rotation(const ModelSpec& spec, const Row& row) {
  const PositionSpec* const position = rotation_of(spec);
  const Row& frequencies = row.at("inv_freq");
  ASSERT_EQ(position == nullptr, frequencies.is_null());
  if (position == nullptr) return;
  const auto rotation =
      std::get<Rotation>(find_mechanism(position->mechanism).plan(*position, find_recipe("llama.cpp"), {}));
  ASSERT_EQ(rotation.inv_freq.size(), frequencies.size());
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double wanted = frequencies[i].get<double>();
    EXPECT_NEAR(rotation.inv_freq[i], wanted, budgets::kFrequencyExact * wanted) << "pair " << i;
  }
  EXPECT_EQ(rotation.amplitude, 1);
  if (!row.at("theta").is_null()) {
    EXPECT_EQ(std::get<double>(position->find("theta")->value), row.at("theta").get<double>());
  }
}

TEST(GgufGolden, AgreesWithTransformersAndTheFrequenciesOfLlamaCpp) {
  const TempDir dir;
  const Row cases = golden();
  int seen = 0;
  for (const auto& [name, row] : cases.items()) {
    SCOPED_TRACE(name);
    const ModelSpec spec =
        read_gguf(dir.write(name + ".gguf", tests::from_hex(row.at("bytes").get<std::string>())));
    EXPECT_EQ(spec.format, "gguf");
    EXPECT_FALSE(spec.generic);
    EXPECT_EQ(spec.family, row.at("model_type").get<std::string>());
    expect_number(row, "layers", spec.layers);
    expect_number(row, "hidden", spec.hidden);
    expect_number(row, "heads", spec.heads);
    expect_number(row, "kv_heads", spec.kv_heads);
    expect_number(row, "head_dim", spec.head_dim);
    expect_number(row, "vocab", spec.vocab);
    expect_number(row, "length", spec.lengths.configured.value_or(0));
    if (!row.at("window").is_null()) expect_number(row, "window", spec.attention.front().window);
    if (!row.at("tied").is_null()) {
      EXPECT_EQ(spec.head.tied, row.at("tied").get<bool>());
    }
    EXPECT_EQ(spec.attention.size(), static_cast<std::size_t>(spec.layers));
    EXPECT_EQ(spec.positions.layers.size(), static_cast<std::size_t>(spec.layers));
    EXPECT_FLOAT_EQ(static_cast<float>(spec.norm.eps), 3e-5F);
    expect_rotation(spec, row);
    ++seen;
  }
  EXPECT_GE(seen, 20);
}

TEST(GgufGolden, ATrainedModelIsWhatItsConfigSays) {
  const std::string data = LOCANT_TEST_DATA_DIR;
  if (data.empty()) GTEST_SKIP() << "needs LOCANT_TEST_DATA";
  const ModelSpec config = read_hf_config(data + "/stories260k/hf");
  for (const char* const kind : {"f32", "f16"}) {
    const ModelSpec spec = read_gguf(data + "/stories260k/stories260K-" + kind + ".gguf");
    EXPECT_EQ(spec.family, config.family);
    EXPECT_EQ(spec.layers, config.layers);
    EXPECT_EQ(spec.hidden, config.hidden);
    EXPECT_EQ(spec.heads, config.heads);
    EXPECT_EQ(spec.kv_heads, config.kv_heads);
    EXPECT_EQ(spec.head_dim, config.head_dim);
    EXPECT_EQ(spec.vocab, config.vocab);
    EXPECT_EQ(spec.mlp.width, config.mlp.width);
    EXPECT_EQ(spec.head.tied, config.head.tied);
    EXPECT_EQ(spec.norm.kind, config.norm.kind);
    EXPECT_EQ(spec.lengths.configured, config.lengths.configured);
    const PositionSpec& rope = spec.positions.layers.at(0).at(0);
    EXPECT_EQ(rope.mechanism, "rope");
    EXPECT_EQ(std::get<std::string>(rope.find("pairing")->value), "interleaved") << "q and k were permuted";
  }
}

TEST(GgufGolden, PublishedVocabularies) {
  const std::string data = LOCANT_TEST_DATA_DIR;
  if (data.empty()) GTEST_SKIP() << "needs LOCANT_TEST_DATA";
  const auto read = [&](const std::string& name) {
    return read_gguf(data + "/ggml-vocab-gguf/ggml-vocab-" + name + ".gguf");
  };
  const ModelSpec neox = read("gpt-neox");
  EXPECT_EQ(neox.family, "gpt_neox");
  EXPECT_EQ(neox.layers, 44);
  EXPECT_EQ(neox.vocab, 50432);
  EXPECT_EQ(std::get<std::int64_t>(rotation_of(neox)->find("rotary_dim")->value), 24);
  const ModelSpec mpt = read("mpt");
  EXPECT_EQ(mpt.positions.layers.at(0).at(0).mechanism, "alibi");
  const ModelSpec bert = read("bert-bge");
  ASSERT_EQ(bert.positions.embedding.size(), 2U);
  EXPECT_EQ(bert.positions.embedding[0].mechanism, "learned");
  EXPECT_EQ(bert.embedding.token_types, 2);
  EXPECT_TRUE(bert.attention.at(0).bidirectional);
  const ModelSpec falcon = read("falcon");
  EXPECT_EQ(falcon.kv_heads, 1);
  EXPECT_EQ(falcon.head_dim, 64);
  const ModelSpec gpt2 = read("gpt-2");
  EXPECT_EQ(std::get<std::int64_t>(gpt2.positions.embedding.at(0).find("rows")->value), 1024);
  const ModelSpec phi = read("phi-3");
  EXPECT_EQ(phi.lengths.trained, 4096);
  EXPECT_EQ(phi.lengths.trained_basis, "phi3.rope.scaling.original_context_length");
  EXPECT_EQ(std::get<std::string>(rotation_of(phi)->find("pairing")->value), "half");
}

}  // namespace
}  // namespace locant

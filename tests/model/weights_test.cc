// SPDX-License-Identifier: Apache-2.0
// Binding a checkpoint's tensors: each wrong one is named with what was expected; shards, prefixes, ties,
// storage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <string>

#include "budgets.h"
#include "model/feeding.h"
#include "model/oracle.h"

namespace locant {
namespace {

using namespace tests;
using testing::AllOf;
using testing::HasSubstr;

class Binding : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, Binding, testing::ValuesIn(four_families()),
                         [](const auto& f) { return f.param; });

LoadOptions storing(WeightStorage weights) {
  LoadOptions options;
  options.weights = weights;
  return options;
}

template <class Error = SpecError>
std::string refusal(const Checkpoint& checkpoint, const OtherDTypes& others = {}) {
  const TempDir dir;
  write_checkpoint(dir, checkpoint, others);
  ThreadPool pool(1);
  return message_of<Error>([&] { (void)Model::load(dir.path(), {}, pool); });
}

TEST_P(Binding, EveryTensorIsNeeded) {
  const Checkpoint whole = tiny(GetParam());
  for (const auto& [name, tensor] : whole.tensors) {
    Checkpoint lacking = whole;
    lacking.tensors.erase(name);
    EXPECT_THAT(refusal(lacking), AllOf(HasSubstr(name + " ["), HasSubstr("missing")));
  }
}

TEST_P(Binding, EveryShapeIsChecked) {
  const Checkpoint whole = tiny(GetParam());
  for (const auto& [name, tensor] : whole.tensors) {
    SCOPED_TRACE(name);
    Checkpoint longer = whole;
    Tensor& grown = longer.tensors[name];
    grown.values.resize(grown.values.size() / static_cast<std::size_t>(grown.shape[0]) *
                        static_cast<std::size_t>(grown.shape[0] + 1));
    ++grown.shape[0];
    EXPECT_THAT(refusal(longer),
                AllOf(HasSubstr("model.safetensors: " + name + " must be ["), HasSubstr("got [")));
    Checkpoint ranked = whole;
    ranked.tensors[name].shape.insert(ranked.tensors[name].shape.begin(), 1);
    EXPECT_THAT(refusal(ranked), AllOf(HasSubstr(name + " must be ["), HasSubstr("got [1,")));
  }
}

TEST(Shapes, ATransposedMatrixIsNamed) {
  Checkpoint checkpoint = tiny("llama");
  Tensor& tensor = checkpoint.tensors["model.layers.1.mlp.down_proj.weight"];
  std::swap(tensor.shape[0], tensor.shape[1]);
  EXPECT_THAT(refusal(checkpoint),
              HasSubstr("model.layers.1.mlp.down_proj.weight must be [54,85] by the config, got [85,54]"));
}

TEST_P(Binding, EveryDtypeIsChecked) {
  const Checkpoint whole = tiny(GetParam());
  for (const auto& [name, tensor] : whole.tensors) {
    EXPECT_THAT(refusal(whole, {{name, DType::f64}}),
                AllOf(HasSubstr(name + " must be f32, f16 or bf16"), HasSubstr("got f64")));
  }
}

TEST_P(Binding, ATensorNobodyTakesIsRefused) {
  for (const char* name :
       {"model.extra.weight", "transformer.h.2.ln_1.weight", "model.layers.2.input_layernorm.weight",
        "model.layers.0.self_attn.q_norm.weight", "score.weight"}) {
    Checkpoint checkpoint = tiny(GetParam());
    checkpoint.tensors[name] = {.shape = {2}, .values = {1, 2}};
    EXPECT_THAT(refusal(checkpoint), HasSubstr(std::string(name) + " [2]"));
  }
}

TEST(Leftovers, SavedBuffersArePassedOver) {
  Checkpoint llama = tiny("llama");
  llama.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = {.shape = {5}, .values = {1, 2, 3, 4, 5}};
  EXPECT_EQ(refusal(llama), "");
  Checkpoint gpt2 = tiny("gpt2");
  gpt2.tensors["transformer.h.0.attn.bias"] = {.shape = {1, 1, 2, 2}, .values = {1, 0, 1, 1}};
  gpt2.tensors["transformer.h.1.attn.masked_bias"] = {.shape = {}, .values = {-10000}};
  EXPECT_EQ(refusal(gpt2), "");
  Checkpoint xglm = tiny("xglm");
  xglm.tensors["model.embed_positions.weights"] = {.shape = {2, 2}, .values = {0, 0, 0, 0}};
  EXPECT_EQ(refusal(xglm), "");
}

TEST_P(Binding, ATiedHeadInTheFileIsNotRead) {
  Checkpoint checkpoint = tiny(GetParam(), {{"tie_word_embeddings", true}});
  const Loaded plain(checkpoint);
  checkpoint.tensors["lm_head.weight"] = {.shape = {2, 2}, .values = {9, 9, 9, 9}};
  const Loaded beside(checkpoint);
  const Ids ids = some_ids(5, 41);
  EXPECT_EQ(alone(plain, ids), alone(beside, ids));
  EXPECT_EQ(plain.model->parameters(), beside.model->parameters());
}

TEST_P(Binding, ABareBodyHasNoPrefix) {
  const Checkpoint checkpoint = tiny(GetParam(), {{"tie_word_embeddings", true}});
  Checkpoint bare = checkpoint;
  bare.tensors.clear();
  for (const auto& [name, tensor] : checkpoint.tensors)
    bare.tensors[name.substr(name.find('.') + 1)] = tensor;
  const Ids ids = some_ids(5, 42);
  EXPECT_EQ(alone(Loaded(bare), ids), alone(Loaded(checkpoint), ids));
}

TEST_P(Binding, ShardsAreOneCheckpoint) {
  const Checkpoint checkpoint = tiny(GetParam());
  const TempDir dir;
  write_shards(dir, checkpoint);
  ThreadPool pool(1);
  const auto model = Model::load(dir.path(), {}, pool);
  const Ids ids = some_ids(9, 43);
  const auto session = model->open_session({.rows = 1, .capacity = 9});
  EXPECT_EQ(feed(*session, {ids})[0], alone(Loaded(checkpoint), ids));
  std::filesystem::remove(dir.file("model-00002-of-00003.safetensors"));
  EXPECT_THAT(message_of<FileError>([&] { (void)Model::load(dir.path(), {}, pool); }),
              HasSubstr("model-00002-of-00003"));
}

// bf16 matrices beside f32 norms, as checkpoints have them.
TEST_P(Binding, DtypesMayBeMixed) {
  Checkpoint checkpoint = tiny(GetParam(), Json::object(), DType::bf16);
  OtherDTypes others;
  int index = 0;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (++index % 3 == 0) others[name] = DType::f32;
    if (index % 3 == 1) others[name] = DType::f16;
  }
  const Loaded plain(checkpoint);
  // every bf16 value of this size is exact in f32; in f16 too, since none is below 2^-14 * 2^-10 times its
  // ulp
  for (auto& [name, tensor] : checkpoint.tensors) {
    for (double& value : tensor.values)
      value = held_as(others.contains(name) ? others[name] : DType::bf16, value);
  }
  const TempDir dir;
  write_checkpoint(dir, checkpoint, others);
  ThreadPool pool(1);
  const auto model = Model::load(dir.path(), {}, pool);
  const Ids ids = some_ids(9, 44);
  const auto session = model->open_session({.rows = 1, .capacity = 9});
  EXPECT_LE(distance(feed(*session, {ids})[0], alone(plain, ids)), budgets::kConformanceFamily);
}

struct Stored {
  WeightStorage storage;
  DType dtype;
  double budget;
};

TEST_P(Binding, WeightsMayBeKeptNarrower) {
  const Checkpoint checkpoint = tiny(GetParam());
  const Loaded whole(checkpoint);
  const Ids ids = some_ids(30, 45);
  const Logits want = alone(whole, ids);
  for (const Stored& kept : {Stored{WeightStorage::f32, DType::f32, budgets::kConformancePadding},
                             Stored{WeightStorage::f16, DType::f16, budgets::kConformanceWeightsF16},
                             Stored{WeightStorage::bf16, DType::bf16, budgets::kConformanceWeightsBf16}}) {
    const Loaded narrow(checkpoint, storing(kept.storage));
    const Logits got = alone(narrow, ids);
    EXPECT_LE(distance(got, want), kept.budget) << name_of(kept.dtype);
    if (kept.dtype == DType::f32) {
      EXPECT_EQ(got, want);
    } else {
      EXPECT_LT(narrow.model->weight_bytes(), whole.model->weight_bytes());
      EXPECT_NE(got, want);
    }
  }
}

// Kept as f32 or as stored, 16-bit weights mean the same numbers.
TEST_P(Binding, WideningChangesNothing) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Checkpoint checkpoint = tiny(GetParam(), Json::object(), dtype);
    const Ids ids = some_ids(30, 46);
    EXPECT_LE(
        distance(alone(Loaded(checkpoint), ids), alone(Loaded(checkpoint, storing(WeightStorage::f32)), ids)),
        budgets::kConformancePadding);
  }
}

// x rounded to bf16 moves answers as weights rounded to bf16 do; where no weight is bf16 nothing moves, and
// that is said.
TEST_P(Binding, ActivationsMayBeNarrower) {
  const Checkpoint checkpoint = tiny(GetParam());
  const Ids ids = some_ids(30, 48);
  const auto told = [](const Loaded& loaded) {
    for (const Note& note : loaded.model->spec().notes) {
      if (note.text.starts_with("activations")) return note.text;
    }
    return std::string();
  };
  for (const WeightStorage weights : {WeightStorage::f32, WeightStorage::bf16}) {
    LoadOptions options = storing(weights);
    const Loaded plain(checkpoint, options);
    const Logits want = alone(plain, ids);
    EXPECT_EQ(told(plain), "");
    options.activations = Activations::bf16;
    const Loaded rounded(checkpoint, options);
    const Logits got = alone(rounded, ids);
    if (weights == WeightStorage::f32) {
      EXPECT_EQ(got, want);
      EXPECT_EQ(told(rounded), "activations bf16 change nothing: no weight is bf16");
    } else {
      EXPECT_NE(got, want);
      EXPECT_LE(distance(got, want), budgets::kConformanceWeightsBf16);
      EXPECT_EQ(told(rounded), "");
    }
    options.activations = Activations::int8;
    EXPECT_EQ(told(Loaded(checkpoint, options)), "activations int8 change nothing: no weight is of blocks");
  }
}

TEST_P(Binding, CachesMayBeNarrower) {
  const Loaded loaded(tiny(GetParam()));
  const Ids ids = some_ids(30, 47);
  const Logits want = alone(loaded, ids);
  const auto kept = [&](DType dtype) {
    const auto session = loaded.session(1, 30, dtype);
    Logits got = feed(*session, {part(ids, 0, 20)})[0];
    for (std::size_t t = 20; t < 30; ++t) got.push_back(feed(*session, {{ids[t]}})[0].at(0));
    return got;
  };
  EXPECT_LE(distance(kept(DType::f16), want), budgets::kConformanceCacheF16);
  EXPECT_LE(distance(kept(DType::bf16), want), budgets::kConformanceCacheBf16);
  EXPECT_GT(distance(kept(DType::bf16), want), budgets::kConformanceFamily);
  const auto bytes = [&](DType dtype) {
    return loaded.model->cache_bytes({.rows = 1, .capacity = 30, .cache = dtype});
  };
  const OracleShape shape = Oracle(loaded.checkpoint).sizes();
  EXPECT_EQ(bytes(DType::f32) - bytes(DType::f16),
            30 * 2 * shape.layers * shape.kv_heads * shape.head_dim * 2);
  EXPECT_EQ(bytes(DType::bf16), bytes(DType::f16));
}

TEST_P(Binding, TheFirstWeightThatIsNotFinite) {
  Checkpoint checkpoint = tiny(GetParam());
  EXPECT_FALSE(Loaded(checkpoint).model->first_non_finite().has_value());
  const std::string last = checkpoint.tensors.rbegin()->first;
  checkpoint.tensors[last].values[3] = std::numeric_limits<double>::infinity();
  const auto one = Loaded(checkpoint).model->first_non_finite();
  ASSERT_TRUE(one.has_value());
  EXPECT_EQ(one->tensor, last);
  EXPECT_EQ(one->index, 3);
  const std::string first = checkpoint.tensors.begin()->first;
  checkpoint.tensors[first].values[17] = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    checkpoint.dtype = dtype;
    const auto found = Loaded(checkpoint).model->first_non_finite();
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->tensor, first);
    EXPECT_EQ(found->index, 17);
  }
}

TEST(Directories, WithoutWhatTheyNeed) {
  ThreadPool pool(1);
  const TempDir dir;
  EXPECT_THAT(message_of<FileError>([&] { (void)Model::load(dir.file("absent"), {}, pool); }),
              HasSubstr("absent: "));
  EXPECT_THAT(message_of<FileError>([&] { (void)Model::load(dir.path(), {}, pool); }),
              HasSubstr("config.json"));
  (void)dir.write("config.json", tiny_config("llama").dump());
  EXPECT_THAT(message_of<FileError>([&] { (void)Model::load(dir.path(), {}, pool); }),
              HasSubstr("model.safetensors"));
  EXPECT_THAT(message_of<FileError>([&] { (void)Model::load(dir.file("config.json"), {}, pool); }),
              HasSubstr("directory"));
  (void)dir.write("model.safetensors", "short");
  EXPECT_THROW((void)Model::load(dir.path(), {}, pool), FileError);
}

}  // namespace
}  // namespace locant

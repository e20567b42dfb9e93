// SPDX-License-Identifier: Apache-2.0
// A trace that was damaged at random: a report or one sentence, whatever shapes, dtypes and numbers it holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "check/made_trace.h"
#include "core/temp_dir.h"
#include "locant/check.h"
#include "locant/formats.h"
#include "locant/trace.h"

namespace locant {
namespace {

using tests::Json;
using tests::MadeTrace;
using tests::Recording;
using tests::TempDir;

const Json kRope = {{"model_type", "llama"},  {"vocab_size", 40},         {"hidden_size", 24},
                    {"num_hidden_layers", 2}, {"num_attention_heads", 6}, {"num_key_value_heads", 2},
                    {"head_dim", 12},         {"intermediate_size", 16},  {"max_position_embeddings", 64},
                    {"rope_theta", 50000.0},  {"sliding_window", nullptr}};
const Json kAlibi = {
    {"model_type", "bloom"}, {"vocab_size", 40}, {"hidden_size", 24}, {"n_layer", 2}, {"n_head", 6}};
const Json kLearned = {{"model_type", "gpt2"}, {"vocab_size", 40}, {"n_embd", 24},
                       {"n_layer", 2},         {"n_head", 6},      {"n_positions", 64}};

struct Held {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

std::vector<Held> tensors_of(const std::string& path) {
  const SafetensorsFile file(path);
  std::vector<Held> all;
  for (const StoredTensor& stored : file.tensors()) {
    const TensorRef& tensor = stored.tensor;
    const auto* const data = static_cast<const std::byte*>(tensor.data);
    const auto size =
        static_cast<std::size_t>(tensor.size()) * static_cast<std::size_t>(size_of(tensor.dtype));
    all.push_back({stored.name,
                   tensor.dtype,
                   {tensor.shape.begin(), tensor.shape.begin() + static_cast<std::ptrdiff_t>(tensor.rank)},
                   {data, data + size}});
  }
  return all;
}

class Mutator {
 public:
  explicit Mutator(std::uint32_t seed) : random_(seed) {}

  std::int64_t below(std::int64_t end) {
    return std::uniform_int_distribution<std::int64_t>(0, end - 1)(random_);
  }

  void once(std::vector<Held>& all) {
    Held& one = all[static_cast<std::size_t>(below(static_cast<std::int64_t>(all.size())))];
    switch (below(9)) {
      case 0:
        all.erase(all.begin() + (&one - all.data()));
        break;
      case 1:
        reshape(one);
        break;
      case 2:
        one.dtype = kDtypes[static_cast<std::size_t>(below(static_cast<std::int64_t>(kDtypes.size())))];
        fit(one);
        break;
      case 3:
        numbers(one);
        break;
      case 4:
        std::swap(one.shape.front(), one.shape.back());
        break;
      case 5:
        rename(one, all);
        break;
      case 6:
        one.shape.push_back(1 + below(3));
        fit(one);
        break;
      case 7:
        if (one.shape.size() > 1) one.shape.pop_back();
        fit(one);
        break;
      default:
        one.name = "encoder." + one.name;
        break;
    }
  }

 private:
  static constexpr std::array kDtypes = {DType::f32, DType::f16, DType::bf16, DType::f64,
                                         DType::i64, DType::i32, DType::u8,   DType::boolean};

  static void fit(Held& one) {
    std::size_t size = static_cast<std::size_t>(size_of(one.dtype));
    for (const std::int64_t extent : one.shape) size *= static_cast<std::size_t>(extent);
    one.bytes.resize(size, std::byte{1});
  }

  void reshape(Held& one) {
    if (one.shape.empty()) return;
    std::int64_t& extent =
        one.shape[static_cast<std::size_t>(below(static_cast<std::int64_t>(one.shape.size())))];
    extent = below(3) == 0 ? 0 : 1 + below(2 * extent + 1);
    fit(one);
  }

  void numbers(Held& one) {
    const double odd[] = {std::nan(""), INFINITY, -INFINITY, 0, -1, 1e30, 9e18, -9e18};
    const double value = odd[below(8)];
    for (std::int64_t i = below(4);
         i < static_cast<std::int64_t>(one.bytes.size() / static_cast<std::size_t>(size_of(one.dtype)));
         i += 1 + below(5)) {
      std::byte* const at = one.bytes.data() + i * size_of(one.dtype);
      if (one.dtype == DType::i64) {
        const std::int64_t whole = std::isfinite(value) ? static_cast<std::int64_t>(value)
                                                        : std::numeric_limits<std::int64_t>::min();
        std::memcpy(at, &whole, sizeof whole);
      } else if (one.dtype == DType::f32) {
        const auto number = static_cast<float>(value);
        std::memcpy(at, &number, sizeof number);
      }
    }
  }

  void rename(Held& one, const std::vector<Held>& all) {
    const char* const names[] = {"step.1/input_ids",
                                 "rope.cos",
                                 "rope.sin",
                                 "rope.inv_freq",
                                 "bias.slopes",
                                 "pooled",
                                 "layers.1.cache.k",
                                 "layers.0.cache.positions",
                                 "layers.0.cache.source",
                                 "layers.0.attn.bias",
                                 "image_grid_thw",
                                 "segment_ids",
                                 "logits",
                                 "step.2/logits"};
    const std::string name = names[below(std::size(names))];
    if (std::none_of(all.begin(), all.end(), [&](const Held& other) { return other.name == name; }))
      one.name = name;
  }

  std::mt19937 random_;
};

void write(const std::string& path, const std::vector<Held>& all) {
  SafetensorsWriter writer(path);
  writer.set_metadata("locant.trace", "1");
  std::set<std::string> names;
  for (const Held& one : all) {
    if (!names.insert(one.name).second) continue;
    TensorRef tensor;
    tensor.data = one.bytes.data();
    tensor.dtype = one.dtype;
    tensor.rank = one.shape.size();
    std::int64_t stride = 1;
    for (std::size_t axis = one.shape.size(); axis-- > 0;) {
      tensor.shape[axis] = one.shape[axis];
      tensor.strides[axis] = stride;
      stride *= std::max<std::int64_t>(one.shape[axis], 1);
    }
    writer.add(one.name, tensor);
  }
  writer.finish();
}

class Mutated : public testing::TestWithParam<const Json*> {};

TEST_P(Mutated, IsAReportOrOneSentence) {
  Recording recording;
  recording.config = *GetParam();
  recording.lengths = {9, 14};
  recording.steps = 2;
  recording.with_mask = true;
  recording.with_tables = (*GetParam())["model_type"] == "llama";
  const MadeTrace made(recording);
  const std::vector<Held> whole = tensors_of(made.path());
  const TempDir folder;
  const std::string path = folder.file("mutated.safetensors");
  int reports = 0;
  int refusals = 0;
  const std::uint32_t seeds = std::getenv("LOCANT_FULL") != nullptr ? 3000 : 150;
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(seed);
    Mutator mutator(seed);
    std::vector<Held> tensors = whole;
    for (std::int64_t times = 1 + mutator.below(3); times > 0 && tensors.size() > 1; --times)
      mutator.once(tensors);
    write(path, tensors);
    CheckQuery query;
    query.spec = &made.spec();
    query.weights = made.weights();
    query.traces = {path};
    try {
      const CheckReport report = check(query);
      EXPECT_EQ(report.passed.size() + report.skipped.size() > 0, true);
      ++reports;
    } catch (const FileError& error) {
      EXPECT_STRNE(error.what(), "");
      ++refusals;
    } catch (const SpecError& error) {
      EXPECT_STRNE(error.what(), "");
      ++refusals;
    } catch (const std::out_of_range& error) {
      EXPECT_STRNE(error.what(), "");
      ++refusals;
    }
  }
  EXPECT_GT(reports, 0);
  EXPECT_GT(refusals, 0);
}

INSTANTIATE_TEST_SUITE_P(Families, Mutated, testing::Values(&kRope, &kAlibi, &kLearned));

}  // namespace
}  // namespace locant

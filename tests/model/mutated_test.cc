// SPDX-License-Identifier: Apache-2.0
// A GGUF model whose keys and tensors were damaged at random: it runs, or it is refused in one sentence. No
// size from a file is allocated before it is believed.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/temp_dir.h"
#include "model/feeding.h"
#include "model/heap.h"
#include "model/made_gguf.h"
#include "model/one_token.h"

namespace locant {
namespace {

using namespace tests;

class Mutator {
 public:
  explicit Mutator(std::uint32_t seed) : random_(seed) {}

  std::size_t below(std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random_);
  }

  void once(MadeGguf& made) {
    if (below(2) == 0) {
      key(made);
    } else {
      tensor(made);
    }
  }

 private:
  template <class Map>
  auto any(Map& map) {
    return std::next(map.begin(), static_cast<std::ptrdiff_t>(below(map.size())));
  }

  GgufStored value() {
    constexpr std::array<std::uint32_t, 14> kSizes = {
        0, 1, 2, 3, 5, 7, 8, 16, 33, 65, 1U << 16U, (1U << 31U) - 1, 1U << 31U, ~0U};
    const std::array<double, 9> numbers = {0, -1, 0.5, 1e-30, 1e30, std::nan(""), INFINITY, -INFINITY, 3};
    switch (below(10)) {
      case 0:
        return numbers[below(numbers.size())];
      case 1:
        return below(2) == 0;
      case 2:
        return std::string(below(3), 'x');
      case 3:
        return std::vector<int>(below(5), static_cast<int>(kSizes[below(10)]));
      case 4:
        return std::uint64_t{1} << (30U + below(34));
      default:
        return kSizes[below(kSizes.size())];
    }
  }

  void key(MadeGguf& made) {
    const auto chosen = any(made.keys);
    switch (below(8)) {
      case 0:
        made.keys.erase(chosen);
        break;
      case 1:
        made.key(kOthers[below(kOthers.size())], value());
        break;
      case 2:
        chosen->second = any(made.keys)->second;
        break;
      default:
        if (chosen->first != "general.architecture") chosen->second = value();
        break;
    }
  }

  void tensor(MadeGguf& made) {
    if (made.tensors.empty()) return;
    const auto chosen = any(made.tensors);
    std::vector<std::int64_t>& shape = chosen->second.shape;
    const std::size_t axis = below(shape.size());
    switch (below(9)) {
      case 0:
        made.tensors.erase(chosen);
        break;
      case 1:
        std::swap(shape.front(), shape.back());
        break;
      case 2:
        shape[axis] *= 2;
        break;
      case 3:
        shape[axis] = std::max<std::int64_t>(shape[axis] - 1, 1);
        break;
      case 4:
        shape[axis] += 1;
        break;
      case 5:
        if (shape.size() < 4) shape.insert(shape.begin(), static_cast<std::int64_t>(1 + below(3)));
        break;
      case 6:
        if (shape.size() > 1) shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
        break;
      case 7: {
        const std::string name = any(made.tensors)->first;
        made.tensors[name] = chosen->second;
        break;
      }
      default:
        chosen->second.type = kTypes[below(kTypes.size())];
        break;
    }
    fit(made);
  }

  // What the file's reader refuses on its own is not what is asked here.
  static void fit(MadeGguf& made) {
    for (auto& [name, place] : made.tensors) {
      if (place.shape.back() % block_elements(place.type) != 0) place.type = GgmlType::f16;
    }
  }

  static constexpr std::array kTypes = {GgmlType::f16,  GgmlType::bf16, GgmlType::q4_0,   GgmlType::q8_0,
                                        GgmlType::q5_1, GgmlType::i32,  GgmlType::iq4_nl, GgmlType::mxfp4,
                                        GgmlType::f64,  GgmlType::i8};
  static constexpr std::array kOthers = {"attention.key_length",
                                         "attention.value_length",
                                         "attention.key_length_mla",
                                         "attention.value_length_mla",
                                         "attention.head_count_kv",
                                         "attention.sliding_window",
                                         "attention.scale",
                                         "attention.causal",
                                         "attention.kv_lora_rank",
                                         "rope.dimension_count",
                                         "rope.freq_base",
                                         "rope.scaling.type",
                                         "rope.scaling.factor",
                                         "rope.dimension_sections",
                                         "expert_count",
                                         "expert_used_count",
                                         "expert_group_count",
                                         "expert_group_used_count",
                                         "expert_shared_count",
                                         "interleave_moe_layer_step",
                                         "leading_dense_block_count",
                                         "nextn_predict_layers",
                                         "decoder_block_count",
                                         "vocab_size",
                                         "logit_scale",
                                         "tokenizer.ggml.tokens",
                                         "tokenizer.ggml.bos_token_id",
                                         "tokenizer.ggml.eos_token_id"};

  std::mt19937 random_;
};

struct Case {
  const char* name;
  std::function<MadeGguf()> make;
};

class MutatedModels : public testing::TestWithParam<Case> {};

TEST_P(MutatedModels, RunOrAreRefused) {
  const MadeGguf whole = GetParam().make();
  const TempDir folder;
  ThreadPool pool(1);
  ASSERT_EQ(refusal_of_one_token(folder.write("whole.gguf", whole.bytes()), pool), "");
  int ran = 0;
  int refused = 0;
  const std::uint32_t seeds = std::getenv("LOCANT_FULL") != nullptr ? 5000 : 250;
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(seed);
    Mutator mutator(seed);
    MadeGguf made = whole;
    for (std::size_t times = 1 + mutator.below(3); times > 0; --times) mutator.once(made);
    const std::string path = folder.write("mutated.gguf", made.bytes());
    forget_allocations();
    const std::string refusal = refusal_of_one_token(path, pool);
    EXPECT_LE(largest_allocation(), kMostAllocated) << refusal;
    EXPECT_EQ(refusal.find('\n'), std::string::npos) << refusal;
    ++(refusal.empty() ? ran : refused);
  }
  EXPECT_GT(ran, 0);
  EXPECT_GT(refused, 0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, MutatedModels,
                         testing::Values(Case{"llama", [] { return made_llama(); }},
                                         Case{"blocks", [] { return made_llama(GgmlType::q4_0); }},
                                         Case{"mixture", made_mixture}, Case{"latent", made_latent},
                                         Case{"gpt2", [] { return made_gpt("gpt2"); }},
                                         Case{"bloom", [] { return made_gpt("bloom"); }},
                                         Case{"bert", made_bert}, Case{"t5", made_t5}),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace locant

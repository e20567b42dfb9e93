// SPDX-License-Identifier: Apache-2.0
// A checkpoint whose config.json and tensors were damaged at random: it runs, or it is refused in one
// sentence.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

#include "core/temp_dir.h"
#include "model/feeding.h"
#include "model/heap.h"
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

  void once(Checkpoint& checkpoint) {
    if (below(3) == 0) {
      tensor(checkpoint);
    } else {
      key(checkpoint.config);
    }
  }

 private:
  Json value() {
    static const Json kValues = Json::parse(R"([null, true, false, 0, 1, 2, 3, 5, 7, 64, 1048577, 2147483647,
      2147483648, 9223372036854775807, 18446744073709551615, -1, 0.5, 1e300, -1e300, 1e-300, "", "relu", "gelu_new",
      [], [1, 2], {}, {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4},
      {"rope_type": "llama3", "factor": 8.0}, {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4},
      {"rope_type": "longrope", "short_factor": [1], "long_factor": [2]}, ["full_attention", "sliding_attention"]])");
    return kValues[below(kValues.size())];
  }

  void key(Json& config) {
    auto chosen = config.begin();
    std::advance(chosen, static_cast<std::ptrdiff_t>(below(config.size())));
    switch (below(5)) {
      case 0:
        config.erase(chosen);
        break;
      case 1:
        config[kOthers[below(kOthers.size())]] = value();
        break;
      case 2:
        if (chosen.value().is_number_integer()) *chosen = chosen.value().get<double>() * 2;
        break;
      case 3:
        if (chosen.value().is_number_integer())
          *chosen = chosen.value().get<std::int64_t>() * static_cast<std::int64_t>(1 + below(3));
        break;
      default:
        if (chosen.key() != "model_type") *chosen = value();
        break;
    }
  }

  void tensor(Checkpoint& checkpoint) {
    auto chosen = checkpoint.tensors.begin();
    std::advance(chosen, static_cast<std::ptrdiff_t>(below(checkpoint.tensors.size())));
    Tensor& one = chosen->second;
    switch (below(5)) {
      case 0:
        checkpoint.tensors.erase(chosen);
        return;
      case 1:
        std::swap(one.shape.front(), one.shape.back());
        break;
      case 2:
        one.shape.push_back(1);
        break;
      case 3:
        one.shape.front() = static_cast<std::int64_t>(below(70));
        break;
      default:
        if (one.shape.size() > 1) one.shape.pop_back();
        break;
    }
    std::size_t size = 1;
    for (const std::int64_t extent : one.shape) size *= static_cast<std::size_t>(extent);
    one.values.resize(size, 0.25);
  }

  static constexpr std::array kOthers = {"head_dim",
                                         "num_key_value_heads",
                                         "sliding_window",
                                         "layer_types",
                                         "rope_scaling",
                                         "rope_parameters",
                                         "partial_rotary_factor",
                                         "max_position_embeddings",
                                         "original_max_position_embeddings",
                                         "tie_word_embeddings",
                                         "attention_bias",
                                         "mlp_bias",
                                         "n_inner",
                                         "scale_attn_by_inverse_layer_idx",
                                         "scale_embedding",
                                         "text_config",
                                         "pad_token_id",
                                         "eos_token_id",
                                         "quantization_config",
                                         "architectures"};

  std::mt19937 random_;
};

class MutatedCheckpoints : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, MutatedCheckpoints, testing::ValuesIn(four_families()),
                         [](const auto& f) { return f.param; });

TEST_P(MutatedCheckpoints, RunOrAreRefused) {
  const Checkpoint whole = tiny(GetParam());
  const TempDir folder;
  ThreadPool pool(1);
  int ran = 0;
  int refused = 0;
  const std::uint32_t seeds = std::getenv("LOCANT_FULL") != nullptr ? 5000 : 250;
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(seed);
    Mutator mutator(seed);
    Checkpoint checkpoint = whole;
    for (std::size_t times = 1 + mutator.below(2); times > 0; --times) mutator.once(checkpoint);
    write_checkpoint(folder, checkpoint);
    forget_allocations();
    const std::string refusal = refusal_of_one_token(folder.path(), pool);
    EXPECT_LE(largest_allocation(), kMostAllocated) << refusal;
    EXPECT_EQ(refusal.find('\n'), std::string::npos) << refusal;
    ++(refusal.empty() ? ran : refused);
  }
  EXPECT_GT(ran, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace locant

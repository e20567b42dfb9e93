// SPDX-License-Identifier: Apache-2.0
// Real checkpoints against logits computed in f64 by another program.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "budgets.h"
#include "locant/formats.h"
#include "locant/model.h"
#include "model/feeding.h"

namespace locant {
namespace {

using namespace tests;
namespace fs = std::filesystem;

struct Golden {
  std::string folder, model;
};

class GoldenLogits : public testing::TestWithParam<Golden> {};
INSTANTIATE_TEST_SUITE_P(All, GoldenLogits,
                         testing::Values(Golden{"stories260k", "stories260k/hf"},
                                         Golden{"capp-gpt2", "capp-gpt2"}),
                         [](const auto& golden) {
                           return golden.param.folder == "capp-gpt2" ? "capp" : "stories";
                         });

TEST_P(GoldenLogits, AreReached) {
  const fs::path data = LOCANT_TEST_DATA_DIR;
  const fs::path model_path = data / GetParam().model;
  const fs::path ids_path = data / GetParam().folder / "golden-ids.npy";
  if (data.empty() || !fs::exists(model_path) || !fs::exists(ids_path))
    GTEST_SKIP() << "no " << GetParam().model;
  const Ids ids = read_npy(ids_path.string()).as_int64("golden");
  const NpyArray golden = read_npy((data / GetParam().folder / "golden-logits.npy").string());
  ASSERT_EQ(golden.dtype, DType::f64);
  ASSERT_EQ(golden.shape.at(0), static_cast<std::int64_t>(ids.size()));
  const auto vocab = static_cast<std::size_t>(golden.shape.at(1));
  std::vector<std::vector<double>> want(ids.size(), std::vector<double>(vocab));
  for (std::size_t t = 0; t < ids.size(); ++t) {
    std::memcpy(want[t].data(), golden.data.data() + t * vocab * sizeof(double), vocab * sizeof(double));
  }

  ThreadPool pool(2);
  const auto model = Model::load(model_path.string(), {}, pool);
  EXPECT_EQ(model->first_non_finite(), std::nullopt);
  const auto session = model->open_session({.rows = 1, .capacity = static_cast<std::int64_t>(ids.size())});
  const Logits at_once = feed(*session, {ids})[0];
  EXPECT_LE(distance(at_once, want), budgets::kConformanceGolden);

  const auto stepping = model->open_session({.rows = 1, .capacity = static_cast<std::int64_t>(ids.size())});
  Logits steps;
  for (const std::int64_t id : ids) steps.push_back(feed(*stepping, {{id}})[0].at(0));
  EXPECT_LE(distance(steps, want), budgets::kConformanceGolden);

  const SessionOptions bytes{
      .rows = 1, .capacity = static_cast<std::int64_t>(ids.size()), .cache = DType::i8};
  SessionOptions floats = bytes;
  floats.cache = DType::f32;
  EXPECT_LT(model->cache_bytes(bytes), model->cache_bytes(floats));
  const Logits stored = feed(*model->open_session(bytes), {ids})[0];
  EXPECT_LE(distance(stored, want), budgets::kConformanceCacheInt8);
  EXPECT_GT(distance(stored, want), budgets::kConformanceGolden) << "nothing was rounded";
}

}  // namespace

bool operator==(const NonFinite& a, const NonFinite& b) {
  return a.tensor == b.tensor && a.index == b.index;
}

}  // namespace locant

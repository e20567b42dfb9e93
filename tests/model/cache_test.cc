// SPDX-License-Identifier: Apache-2.0
// What a trace shows of a cache of bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "budgets.h"
#include "model/feeding.h"
#include "model/recorder.h"

namespace locant {
namespace {

using namespace tests;

// An int8 cache shows what attention sees: numbers again, each within half a step of its row's scale.
TEST(TracedBytes, AreNumbersAgain) {
  const Loaded loaded(tiny("llama"));
  const Ids ids = some_ids(9, 75);
  Recorder exact, bytes;
  for (const DType dtype : {DType::f32, DType::i8}) {
    const auto session = loaded.session(1, 20, dtype);
    session->set_trace(dtype == DType::f32 ? &exact : &bytes, Padding::right);
    (void)feed(*session, {ids});
  }
  for (const char* name : {"layers.0.cache.k", "layers.0.cache.v"}) {
    const Recorded& want = exact.got.at(name);
    const Recorded& got = bytes.got.at(name);
    ASSERT_EQ(got.shape, want.shape);
    const auto width = static_cast<std::size_t>(want.shape.back());
    for (std::size_t row = 0; row < want.values.size(); row += width) {
      double largest = 0;
      for (std::size_t i = row; i < row + width; ++i) largest = std::max(largest, std::abs(want.values[i]));
      for (std::size_t i = row; i < row + width; ++i)
        ASSERT_LE(std::abs(got.values[i] - want.values[i]), budgets::kStoreInt8 * largest)
            << name << " " << i;
    }
  }
  EXPECT_NE(bytes.got.at("layers.0.cache.k").values, exact.got.at("layers.0.cache.k").values);
}

}  // namespace
}  // namespace locant

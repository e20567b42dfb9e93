// SPDX-License-Identifier: Apache-2.0
// A trace sink that keeps what it is handed, row-major and in double.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "locant/positions.h"
#include "locant/trace.h"

namespace locant::tests {

struct Recorded {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::vector<double> values;  ///< row-major
};

/// Keeps everything that passes `only` (all when empty).
class Recorder final : public TraceSink {
 public:
  explicit Recorder(std::set<std::string, std::less<>> only = {}) : only_(std::move(only)) {}
  bool wants(std::string_view name, std::int64_t elements) override {
    asked[std::string(name)] = elements;
    return only_.empty() || only_.contains(name);
  }
  void begin_pass() override { ++passes; }
  void record(std::string_view name, const TensorRef& tensor) override {
    EXPECT_GT(passes, 0);
    ASSERT_FALSE(got.contains(std::string(name))) << name;
    Recorded& to = got[std::string(name)];
    to.dtype = tensor.dtype;
    to.shape.assign(tensor.shape.begin(), tensor.shape.begin() + static_cast<std::ptrdiff_t>(tensor.rank));
    std::vector<std::int64_t> at(tensor.rank, 0);
    for (std::int64_t i = 0; i < tensor.size(); ++i) {
      std::int64_t offset = 0;
      for (std::size_t axis = 0; axis < tensor.rank; ++axis) offset += at[axis] * tensor.strides[axis];
      to.values.push_back(tensor.dtype == DType::i64
                              ? static_cast<double>(static_cast<const std::int64_t*>(tensor.data)[offset])
                              : static_cast<double>(static_cast<const float*>(tensor.data)[offset]));
      for (std::size_t axis = tensor.rank; axis-- > 0;) {
        if (++at[axis] < tensor.shape[axis]) break;
        at[axis] = 0;
      }
    }
  }
  [[nodiscard]] std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& [name, tensor] : got) found.insert(name);
    return found;
  }

  std::map<std::string, Recorded> got;
  std::map<std::string, std::int64_t> asked;
  int passes = 0;

 private:
  std::set<std::string, std::less<>> only_;
};

/// Where a row's tokens stand in a batch of width T.
struct Place {
  std::int64_t width = 0;
  Padding side = Padding::right;
  [[nodiscard]] std::int64_t column(std::int64_t t, std::int64_t tokens) const {
    return side == Padding::left ? width - tokens + t : t;
  }
};

}  // namespace locant::tests

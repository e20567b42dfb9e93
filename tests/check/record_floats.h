// SPDX-License-Identifier: Apache-2.0
// Numbers of a test into a trace: row-major, stored as f32, or as bf16 where that is what is computed in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "locant/trace.h"

namespace locant::tests {

struct FloatTensor {
  const std::vector<double>& values;
  const std::vector<std::int64_t>& shape;
  DType dtype = DType::f32;
};

inline void record_floats(TraceWriter& writer, const std::string& name, const FloatTensor& made) {
  const std::vector<float> singles(made.values.begin(), made.values.end());
  std::vector<BFloat16> narrow;
  TensorRef tensor;
  tensor.rank = made.shape.size();
  std::int64_t step = 1;
  for (std::size_t axis = made.shape.size(); axis-- > 0;) {
    tensor.shape.at(axis) = made.shape[axis];
    tensor.strides.at(axis) = step;
    step *= made.shape[axis];
  }
  tensor.data = singles.data();
  if (made.dtype == DType::bf16) {
    for (const float single : singles) narrow.push_back(bfloat16_from_f32(single));
    tensor.data = narrow.data();
    tensor.dtype = DType::bf16;
  }
  writer.record(name, tensor);
}

}  // namespace locant::tests

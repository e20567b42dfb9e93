// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "locant/core.h"

namespace locant {

TensorRef::TensorRef(const void* data_, DType dtype_, std::initializer_list<std::int64_t> shape_)
    : data(data_), dtype(dtype_), rank(shape_.size()) {
  if (rank > kMaxRank) {
    throw SpecError("tensor: at most " + std::to_string(kMaxRank) + " axes, got " + std::to_string(rank));
  }
  std::copy(shape_.begin(), shape_.end(), shape.begin());
  std::int64_t step = 1;
  for (std::size_t axis = rank; axis-- > 0;) {
    strides[axis] = step;
    step *= shape[axis];
  }
}

std::int64_t TensorRef::size() const noexcept {
  std::int64_t elements = 1;
  for (std::size_t axis = 0; axis < rank; ++axis) elements *= shape[axis];
  return elements;
}

bool TensorRef::is_contiguous() const noexcept {
  if (size() == 0) return true;
  std::int64_t step = 1;
  for (std::size_t axis = rank; axis-- > 0;) {
    if (shape[axis] != 1 && strides[axis] != step) return false;
    step *= shape[axis];
  }
  return true;
}

std::string TensorRef::shape_text() const {
  std::string text = "[";
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (axis != 0) text += ',';
    text += std::to_string(shape[axis]);
  }
  return text + "]";
}

}  // namespace locant

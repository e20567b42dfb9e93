// SPDX-License-Identifier: Apache-2.0
// Weights as operations take them.
#include "kernels/blocks.h"
#include "locant/ops.h"
#include "ops/check.h"

namespace locant {

bool can_multiply(GgmlType type) noexcept {
  return kernels::is_unpacked(type);
}

Matrix matrix(const TensorRef& tensor) {
  if (tensor.rank != 2)
    check_ops::fail("matrix: a weight is {}, expected [rows, columns]", tensor.shape_text());
  if (tensor.shape[1] > 1 && tensor.strides[1] != 1)
    check_ops::fail("matrix: columns have stride {}, expected 1", tensor.strides[1]);
  const Matrix m{.data = tensor.data,
                 .dtype = tensor.dtype,
                 .rows = tensor.shape[0],
                 .columns = tensor.shape[1],
                 .row_stride = tensor.strides[0]};
  check_ops::weight("matrix", "a weight", m);
  return m;
}

}  // namespace locant

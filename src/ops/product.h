// SPDX-License-Identifier: Apache-2.0
// What operations with a product share: the kernel, chosen once a call, and its blocks.
#pragma once

#include <cstdint>

#include "kernels/project.h"
#include "locant/ops.h"

namespace locant {

using ProductKernel = void (*)(const kernels::ProjectBlock&) noexcept;
/// For a call of that many tokens.
[[nodiscard]] ProductKernel product_kernel(const Matrix& weight, Activations activations,
                                           std::int64_t tokens) noexcept;

/// Where a block stands: tokens from `token` on, rows of the weight from `row` on.
struct BlockAt {
  std::int64_t token = 0, tokens = 0;
  std::int64_t row = 0, rows = 0;
};
/// Without an out. `bias` may be empty.
[[nodiscard]] kernels::ProjectBlock product_block(View<const float, 2> x, const Matrix& weight,
                                                  View<const float, 1> bias, const BlockAt& at) noexcept;

}  // namespace locant

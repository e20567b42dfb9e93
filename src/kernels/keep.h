// SPDX-License-Identifier: Apache-2.0
// Rows of a cache beside f32, f16 and bf16 rows: rounded to 8 bits, and bounds of their norms.
#pragma once

#include <cstdint>

#include "locant/core.h"

namespace locant::kernels {

/// q[i] = x[i] / scale rounded to nearest even, scale = max |x| / 127, which is returned. A row below 2^-119
/// is zero, one with a NaN or an infinity has q = 0 and a NaN for its scale.
[[nodiscard]] float write_int8_row(const float* x, std::int64_t count, std::int8_t* q) noexcept;

/// At least the 2-norm of a stored row (f32, f16, bf16; i8 times `scale`), above it by a share of at most
/// (count + 8) 2^-23 and 2^-63 sqrt(count); infinity when an element is no number.
[[nodiscard]] float norm_bound(const void* row, DType dtype, std::int64_t count, float scale) noexcept;

}  // namespace locant::kernels

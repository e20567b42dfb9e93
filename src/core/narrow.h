// SPDX-License-Identifier: Apache-2.0
// A value as a narrower dtype keeps it.
#pragma once

#include "locant/core.h"

namespace locant {

/// x rounded to f16 or bf16 (nearest, ties to even) and back; other dtypes leave an f32 as it is.
[[nodiscard]] inline float narrowed(float x, DType dtype) noexcept {
  if (dtype == DType::f16) return f32_from(half_from_f32(x));
  if (dtype == DType::bf16) return f32_from(bfloat16_from_f32(x));
  return x;
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// Single passes over a row of logits, and the search for a value that is not finite.
#pragma once

#include <cstddef>
#include <cstdint>

#include "locant/core.h"

namespace locant::kernels {

/// Largest element, ignoring NaN; -inf for none.
[[nodiscard]] float maximum(const float* x, std::int64_t count) noexcept;

/// Sum of exp(x[i] - shift) in f64; NaN when an x is NaN.
[[nodiscard]] double sum_exp(const float* x, std::int64_t count, float shift) noexcept;

/// First index at or behind `from` with x[i] > threshold, or count.
[[nodiscard]] std::int64_t first_above(const float* x, std::int64_t count, std::int64_t from,
                                       float threshold) noexcept;

/// First NaN or infinity of a contiguous row, or count; f64, f32, f16 or bf16, may be unaligned.
[[nodiscard]] std::int64_t first_non_finite(const void* x, DType dtype, std::int64_t count) noexcept;

}  // namespace locant::kernels

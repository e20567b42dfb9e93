// SPDX-License-Identifier: Apache-2.0
// Angular frequencies of a geometric ladder, in f64 or the way torch computes them in f32.
#pragma once

#include <cstdint>
#include <vector>

#include "locant/recipe.h"

namespace locant {

/// theta^(-2i/width), i = 0 .. width/2 - 1. f64: relative error (3 ln(theta) + 1) 2^-53. f32: 1 /
/// theta^(2i/width) with every step rounded to f32 and the power correctly rounded; torch's own power is
/// within one ulp of that.
[[nodiscard]] std::vector<double> power_ladder(double theta, std::int64_t width, DType frequency);

/// exp(-k * step), k = 0 .. count - 1, in the same two ways: f32 rounds step, k * step and the exponential.
[[nodiscard]] std::vector<double> exponential_ladder(double step, std::int64_t count, DType frequency);

/// Whether every frequency is finite.
[[nodiscard]] bool all_finite(const std::vector<double>& inv_freq) noexcept;

}  // namespace locant

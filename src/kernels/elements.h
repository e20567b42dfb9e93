// SPDX-License-Identifier: Apache-2.0
// Sums, factors, limits and caps of one row, element by element.
#pragma once

#include <cstdint>

namespace locant::kernels {

/// out[i] += scale * x[i]: the product is rounded, then the sum.
void add_scaled(const float* x, float scale, std::int64_t count, float* out) noexcept;
/// out[i] = factor * x[i]; out may be x.
void scale(const float* x, float factor, std::int64_t count, float* out) noexcept;
/// out[i] = x[i] held at +-limit; NaN stays. out may be x.
void clamp(const float* x, float limit, std::int64_t count, float* out) noexcept;
/// out[i] = cap tanh(x[i] / cap); NaN stays. out may be x.
void softcap(const float* x, float cap, std::int64_t count, float* out) noexcept;

}  // namespace locant::kernels

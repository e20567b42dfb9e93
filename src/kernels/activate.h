// SPDX-License-Identifier: Apache-2.0
// Activation functions of one row, with or without a gate.
#pragma once

#include <cstdint>

namespace locant::kernels {

enum class Curve : std::uint8_t { silu, gelu_erf, gelu_tanh, relu, relu_squared, quick_gelu, tanh };

/// out[i] = f(x[i]), times up[i] when up is not null; out may be x or up.
void activate(Curve curve, const float* x, const float* up, std::int64_t count, float* out) noexcept;

/// out[i] = (u + 1) g / (1 + exp(-1.702 g)) with u = up[i] held at +-limit and g = x[i] at limit from above;
/// out may be x or up.
void clamped_swiglu(const float* x, const float* up, float limit, std::int64_t count, float* out) noexcept;

}  // namespace locant::kernels

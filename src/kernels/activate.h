// SPDX-License-Identifier: Apache-2.0
// Activation functions of one row, with or without a gate.
#pragma once

#include <cstdint>

namespace locant::kernels {

enum class Curve : std::uint8_t { silu, gelu_erf, gelu_tanh, relu };

/// out[i] = f(x[i]), times up[i] when up is not null; out may be x or up.
void activate(Curve curve, const float* x, const float* up, std::int64_t count, float* out) noexcept;

}  // namespace locant::kernels

// SPDX-License-Identifier: Apache-2.0
// cos and sin of many angles, with the bits that std::cos and std::sin in f64, rounded to f32, have.
#pragma once

#include <cstdint>

namespace locant {

/// cos[i] = f32(f64(cos(angle)) * cos_factor) * after, and sin alike, angle = position * frequencies[i] in
/// f64; the rounding is that of static_cast<float>. `after` is applied in f32.
struct SinCosCall {
  double position = 1;
  const double* frequencies = nullptr;
  std::int64_t count = 0;
  double cos_factor = 1;
  double sin_factor = 1;
  float cos_after = 1;
  float sin_after = 1;
  float* cos = nullptr;
  float* sin = nullptr;
};
void sin_cos(const SinCosCall& call) noexcept;

}  // namespace locant

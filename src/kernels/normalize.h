// SPDX-License-Identifier: Apache-2.0
// RMS and layer norm of one row.
#pragma once

#include <cstdint>

namespace locant::kernels {

/// x, out [count]; gain and bias [count] or null. out may be x.
struct NormRow {
  const float* x = nullptr;
  const float* gain = nullptr;
  const float* bias = nullptr;
  float* out = nullptr;
  std::int64_t count = 0;
  double eps = 0;
};
/// x / sqrt(mean(x^2) + eps) * gain + bias.
void rms_norm(const NormRow& row) noexcept;
/// (x - mean) / sqrt(var + eps) * gain + bias; the mean first, then the variance around it.
void layer_norm(const NormRow& row) noexcept;

}  // namespace locant::kernels

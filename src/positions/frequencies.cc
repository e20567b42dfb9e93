// SPDX-License-Identifier: Apache-2.0
#include "positions/frequencies.h"

#include <cmath>

namespace locant {

std::vector<double> power_ladder(double theta, std::int64_t width, DType frequency) {
  std::vector<double> inv_freq(static_cast<std::size_t>(width / 2));
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    const auto channel = static_cast<double>(2 * i);
    if (frequency == DType::f32) {
      const float exponent = static_cast<float>(channel) / static_cast<float>(width);
      const auto power = static_cast<float>(
          std::pow(static_cast<double>(static_cast<float>(theta)), static_cast<double>(exponent)));
      inv_freq[i] = static_cast<double>(1.0F / power);
    } else {
      inv_freq[i] = std::pow(theta, -channel / static_cast<double>(width));
    }
  }
  return inv_freq;
}

std::vector<double> exponential_ladder(double step, std::int64_t count, DType frequency) {
  std::vector<double> inv_freq(static_cast<std::size_t>(count));
  for (std::size_t k = 0; k < inv_freq.size(); ++k) {
    if (frequency == DType::f32) {
      const float exponent = static_cast<float>(k) * static_cast<float>(-step);
      inv_freq[k] = static_cast<double>(static_cast<float>(std::exp(static_cast<double>(exponent))));
    } else {
      inv_freq[k] = std::exp(-step * static_cast<double>(k));
    }
  }
  return inv_freq;
}

bool all_finite(const std::vector<double>& inv_freq) noexcept {
  for (const double w : inv_freq) {
    if (!std::isfinite(w)) return false;
  }
  return true;
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
#include "positions/frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace locant {

std::vector<double> power_ladder(double theta, std::int64_t width, DType frequency) {
  std::vector<double> inv_freq(static_cast<std::size_t>((width + 1) / 2));
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

double stretched_base(double theta, double alpha, std::int64_t width) {
  const auto d = static_cast<double>(width);
  return theta * std::pow(alpha, d / (d - 2));
}

Band band_of(double theta, std::int64_t width, const Turns& turns, BandEdges edges) {
  const auto d = static_cast<double>(width);
  const auto pair_of = [&](double count) {
    return d * std::log(turns.length / (count * 2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  Band band{.low = pair_of(turns.many), .high = pair_of(turns.few)};
  if (edges == BandEdges::whole) band = {.low = std::floor(band.low), .high = std::ceil(band.high)};
  band.low = std::max(band.low, 0.0);
  band.high = std::min(band.high, d - 1);
  if (band.low == band.high) band.high += 0.001;
  return band;
}

bool all_finite(const std::vector<double>& inv_freq) noexcept {
  for (const double w : inv_freq) {
    if (!std::isfinite(w)) return false;
  }
  return true;
}

}  // namespace locant

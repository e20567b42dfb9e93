// SPDX-License-Identifier: Apache-2.0
// Angular frequencies of a geometric ladder, in f64 or the way torch computes them in f32.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "locant/recipe.h"

namespace locant {

/// theta^(-2i/width), i = 0 .. width/2 - 1, width/2 rounded up. f64: relative error (3 ln(theta) + 1) 2^-53.
/// f32: 1 / theta^(2i/width) with every step rounded to f32 and the power correctly rounded; torch's own
/// power is within one ulp of that.
[[nodiscard]] std::vector<double> power_ladder(double theta, std::int64_t width, DType frequency);

/// exp(-k * step), k = 0 .. count - 1, in the same two ways: f32 rounds step, k * step and the exponential.
[[nodiscard]] std::vector<double> exponential_ladder(double step, std::int64_t count, DType frequency);

/// theta^(2i/width), i = 0 .. width/2 - 1, in float or double with every step rounded to it; the float power
/// is correctly rounded, torch's own is within one ulp of that.
template <class Real>
[[nodiscard]] std::vector<Real> powers(double theta, std::int64_t width) {
  std::vector<Real> result(static_cast<std::size_t>(width / 2));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const Real exponent = static_cast<Real>(2 * i) / static_cast<Real>(width);
    result[i] = static_cast<Real>(
        std::pow(static_cast<double>(static_cast<Real>(theta)), static_cast<double>(exponent)));
  }
  return result;
}

/// make(Real{}) -> std::vector<Real> in the arithmetic of a recipe's frequencies: a schedule is written once.
template <class Make>
[[nodiscard]] std::vector<double> in_arithmetic(DType frequency, Make&& make) {
  if (frequency != DType::f32) return make(double{});
  const std::vector<float> narrow = make(float{});
  return std::vector<double>(narrow.begin(), narrow.end());
}

/// theta * alpha^(width/(width - 2)): the base under which the slowest pair is alpha times slower and the
/// fastest as before. width > 2.
[[nodiscard]] double stretched_base(double theta, double alpha, std::int64_t width);

/// The pairs between two numbers of turns over a length, for schedules that treat fast and slow pairs apart.
struct Band {
  double low = 0;   ///< pair that makes the larger number of turns over `length` tokens
  double high = 0;  ///< pair that makes the smaller one
};
struct Turns {
  double many = 32;
  double few = 1;
  double length = 0;  ///< tokens
};
enum class BandEdges : std::uint8_t { whole, real };
/// low >= 0, high <= width - 1 (all published code has width - 1 here, not width/2 - 1); equal edges are
/// 0.001 apart. theta != 1.
[[nodiscard]] Band band_of(double theta, std::int64_t width, const Turns& turns, BandEdges edges);

/// 0 below a band, 1 above it, linear inside.
template <class Real>
[[nodiscard]] Real ramp(const Band& band, std::size_t pair) {
  const Real x =
      (static_cast<Real>(pair) - static_cast<Real>(band.low)) / static_cast<Real>(band.high - band.low);
  return x < 0 ? Real{0} : x > 1 ? Real{1} : x;
}

/// Whether every frequency is finite.
[[nodiscard]] bool all_finite(const std::vector<double>& inv_freq) noexcept;

}  // namespace locant

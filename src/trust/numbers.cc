// SPDX-License-Identifier: Apache-2.0
#include "trust/numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace locant::trust_room {
namespace {

constexpr double kZ95 = 1.6448536269514722;
constexpr std::int64_t kResamples = 2000;

}  // namespace

std::uint64_t Chance::next() noexcept {
  state_ += 0x9E3779B97F4A7C15ULL;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

std::int64_t Chance::below(std::int64_t count) noexcept {
  // the bias of the remainder is below 2^-32 for every count used here
  return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(count));
}

double student_t95(std::int64_t degrees) {
  const auto v = static_cast<double>(std::max<std::int64_t>(degrees, 1));
  const double z = kZ95;
  return z + (std::pow(z, 3) + z) / (4 * v) +
         (5 * std::pow(z, 5) + 16 * std::pow(z, 3) + 3 * z) / (96 * v * v);
}

Estimate bootstrap_mean(std::span<const double> values, std::uint64_t seed) {
  const auto count = static_cast<std::int64_t>(values.size());
  double sum = 0;
  for (const double value : values) sum += value;
  const double mean = sum / static_cast<double>(count);
  const double infinite = std::numeric_limits<double>::infinity();
  if (count < 2 || !std::isfinite(mean)) return {mean, std::isfinite(mean) ? -infinite : mean, infinite};
  Chance chance(seed);
  std::vector<double> means(static_cast<std::size_t>(kResamples));
  for (double& resampled : means) {
    double total = 0;
    for (std::int64_t i = 0; i < count; ++i) total += values[static_cast<std::size_t>(chance.below(count))];
    resampled = total / static_cast<double>(count);
  }
  std::sort(means.begin(), means.end());
  const auto at = [&](double share) {
    return means[static_cast<std::size_t>(share * static_cast<double>(kResamples - 1))];
  };
  const double widen =
      std::sqrt(static_cast<double>(count) / static_cast<double>(count - 1)) * student_t95(count - 1) / kZ95;
  return {mean, mean + widen * (at(0.05) - mean), mean + widen * (at(0.95) - mean)};
}

Estimate wilson_rate(std::int64_t right, std::int64_t trials) {
  const auto n = static_cast<double>(trials);
  const double rate = static_cast<double>(right) / n;
  const double square = kZ95 * kZ95;
  const double centre = (rate + square / (2 * n)) / (1 + square / n);
  const double half = kZ95 / (1 + square / n) * std::sqrt(rate * (1 - rate) / n + square / (4 * n * n));
  return {rate, std::max(centre - half, 0.0), std::min(centre + half, 1.0)};
}

}  // namespace locant::trust_room

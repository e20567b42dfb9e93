// SPDX-License-Identifier: Apache-2.0
// Numbers with their uncertainty, and chance that can be repeated.
#pragma once

#include <cstdint>
#include <span>

#include "locant/trust.h"

namespace locant::trust_room {

/// splitmix64 (Steele et al. 2014): the same numbers on every machine.
class Chance {
 public:
  explicit Chance(std::uint64_t seed) noexcept : state_(seed) {}
  [[nodiscard]] std::uint64_t next() noexcept;
  /// In [0, count); count >= 1.
  [[nodiscard]] std::int64_t below(std::int64_t count) noexcept;

 private:
  std::uint64_t state_;
};

/// The mean with one-sided 95 % bounds, by resampling whole values; widened as Student's t and n/(n-1) do for
/// few of them. One value, or one that is not finite, has infinite bounds.
[[nodiscard]] Estimate bootstrap_mean(std::span<const double> values, std::uint64_t seed);

/// A rate with Wilson's one-sided 95 % bounds (Wilson 1927). trials >= 1.
[[nodiscard]] Estimate wilson_rate(std::int64_t right, std::int64_t trials);

/// 95 % quantile of Student's t (Hill's expansion about the normal one, within 1 % from 5 degrees on).
[[nodiscard]] double student_t95(std::int64_t degrees);

}  // namespace locant::trust_room

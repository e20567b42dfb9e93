// SPDX-License-Identifier: Apache-2.0
// Whole steps of a logarithmic ladder from unit to end, decided in whole numbers: no bucket depends on how a
// logarithm is rounded.
#pragma once

#include <cstdint>

namespace locant {

/// Most buckets of a relative table; published models have 32 to 512.
inline constexpr std::int64_t kMaxBuckets = 4096;
/// Longest distance that buckets tell apart.
inline constexpr std::int64_t kMaxDistance = (std::int64_t{1} << 31) - 1;

/// steps(value) = count * ln(value/unit) / ln(end/unit); 1 <= unit < end <= kMaxDistance,
/// 1 <= count <= kMaxBuckets.
struct LogLadder {
  std::int64_t unit = 1;
  std::int64_t end = 2;
  std::int64_t count = 1;
};

/// floor and ceil of steps(value), unit <= value <= kMaxDistance. Exact up to 2 * kMaxBuckets steps; past
/// them a value within 1e-6 of a whole number counts as whole.
[[nodiscard]] std::int64_t floor_steps(std::int64_t value, const LogLadder& ladder);
[[nodiscard]] std::int64_t ceil_steps(std::int64_t value, const LogLadder& ladder);

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
#include "positions/log_buckets.h"

#include <cmath>
#include <compare>
#include <numeric>
#include <vector>

namespace locant {
namespace {

/// A whole number of any size, least limb first, no zero limb at the end.
using Limbs = std::vector<std::uint32_t>;

/// limbs * factor^exponent; factor is below 2^32.
void multiply_power(Limbs& limbs, std::int64_t factor, std::int64_t exponent) {
  const auto by = static_cast<std::uint64_t>(factor);
  for (std::int64_t i = 0; i < exponent; ++i) {
    std::uint64_t carry = 0;
    for (std::uint32_t& limb : limbs) {
      const std::uint64_t product = limb * by + carry;
      limb = static_cast<std::uint32_t>(product);
      carry = product >> 32;
    }
    if (carry != 0) limbs.push_back(static_cast<std::uint32_t>(carry));
  }
}

std::strong_ordering compared(const Limbs& a, const Limbs& b) {
  if (a.size() != b.size()) return a.size() <=> b.size();
  for (std::size_t i = a.size(); i-- > 0;) {
    if (a[i] != b[i]) return a[i] <=> b[i];
  }
  return std::strong_ordering::equal;
}

/// steps(value) against a whole number: (value/unit)^count against (end/unit)^steps.
std::strong_ordering compared_steps(std::int64_t value, const LogLadder& ladder, std::int64_t steps) {
  const std::int64_t common = std::gcd(ladder.count, steps);
  const std::int64_t count = ladder.count / common;
  steps /= common;
  Limbs left{1};
  multiply_power(left, value, count);
  Limbs right{1};
  multiply_power(right, ladder.end, steps);
  // Both sides times unit^max(count, steps).
  if (steps > count) {
    multiply_power(left, ladder.unit, steps - count);
  } else {
    multiply_power(right, ladder.unit, count - steps);
  }
  return compared(left, right);
}

double ratio_log(std::int64_t value, std::int64_t unit) {
  return std::log1p(static_cast<double>(value - unit) / static_cast<double>(unit));
}

struct Steps {
  std::int64_t floor = 0;
  bool whole = false;
};

Steps steps_of(std::int64_t value, const LogLadder& ladder) {
  // Within 1e-7 of the real number for every ladder inside the bounds: only a near whole number is in doubt.
  constexpr double kDoubt = 1e-6;
  const double steps =
      static_cast<double>(ladder.count) * ratio_log(value, ladder.unit) / ratio_log(ladder.end, ladder.unit);
  const auto near = static_cast<std::int64_t>(std::llround(steps));
  if (std::abs(steps - static_cast<double>(near)) > kDoubt) {
    return {static_cast<std::int64_t>(std::floor(steps)), false};
  }
  if (near > 2 * kMaxBuckets) return {near, true};
  const std::strong_ordering order = compared_steps(value, ladder, near);
  return {std::is_lt(order) ? near - 1 : near, std::is_eq(order)};
}

}  // namespace

std::int64_t floor_steps(std::int64_t value, const LogLadder& ladder) {
  return steps_of(value, ladder).floor;
}

std::int64_t ceil_steps(std::int64_t value, const LogLadder& ladder) {
  const Steps steps = steps_of(value, ladder);
  return steps.whole ? steps.floor : steps.floor + 1;
}

}  // namespace locant

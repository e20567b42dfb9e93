// SPDX-License-Identifier: Apache-2.0
// What the numerics of a recipe lose on the way to cos: its table against cos in f64 of the same frequencies.
// An f32 product p w is off by up to p w 2^-24 rad, so the error grows with the position: the last ones are
// looked at one by one, those before them at even steps.
#include <algorithm>
#include <cmath>

#include "trust/parts.h"

namespace locant::trust_room {
namespace {

constexpr std::int64_t kLast = 512;     // positions looked at one by one
constexpr std::int64_t kSpread = 1024;  // and before them

std::vector<std::int64_t> looked_at(std::int64_t to) {
  std::vector<std::int64_t> positions;
  const std::int64_t first = std::max<std::int64_t>(to - kLast, 0);
  const std::int64_t step = std::max<std::int64_t>(first / kSpread, 1);
  for (std::int64_t p = 0; p < first; p += step) positions.push_back(p);
  for (std::int64_t p = first; p < to; ++p) positions.push_back(p);
  return positions;
}

}  // namespace

TableError table_error(const Rotation& rotation, const Numerics& numerics, std::int64_t to) {
  TableError worst;
  const auto pairs = static_cast<std::int64_t>(rotation.inv_freq.size());
  if (pairs == 0) return worst;
  const std::vector<std::int64_t> positions = looked_at(to);
  const auto count = static_cast<std::int64_t>(positions.size());
  std::vector<float> cos(static_cast<std::size_t>(count * pairs));
  std::vector<float> sin(cos.size());
  Rotation one_axis = rotation;
  one_axis.axis.clear();
  rotation_table(one_axis, numerics, {positions.data(), {1, count}}, {cos.data(), {count, pairs}},
                 {sin.data(), {count, pairs}});
  for (std::int64_t t = 0; t < count; ++t) {
    for (std::int64_t i = 0; i < pairs; ++i) {
      const double angle = static_cast<double>(positions[static_cast<std::size_t>(t)]) *
                           rotation.inv_freq[static_cast<std::size_t>(i)];
      const double error = std::abs(static_cast<double>(cos[static_cast<std::size_t>(t * pairs + i)]) -
                                    rotation.amplitude * std::cos(angle));
      if (error > worst.error) worst = {error, positions[static_cast<std::size_t>(t)]};
    }
  }
  return worst;
}

}  // namespace locant::trust_room

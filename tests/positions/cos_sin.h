// SPDX-License-Identifier: Apache-2.0
// cos and sin of a rotation as owned tables, and the rotation of one head in double, for tests.
#pragma once

#include <utility>
#include <vector>

#include "locant/positions.h"

namespace locant::tables {

struct CosSin {
  std::int64_t pairs = 0;
  std::vector<float> cos;  ///< [T, P]
  std::vector<float> sin;

  [[nodiscard]] double c(std::int64_t t, std::int64_t i) const {
    return cos[static_cast<std::size_t>(t * pairs + i)];
  }
  [[nodiscard]] double s(std::int64_t t, std::int64_t i) const {
    return sin[static_cast<std::size_t>(t * pairs + i)];
  }
};

/// One axis.
inline CosSin cos_sin(const Rotation& rotation, const Numerics& numerics,
                      std::vector<std::int64_t> positions) {
  const auto tokens = static_cast<std::int64_t>(positions.size());
  const auto pairs = static_cast<std::int64_t>(rotation.inv_freq.size());
  CosSin table{pairs, std::vector<float>(static_cast<std::size_t>(tokens * pairs)),
               std::vector<float>(static_cast<std::size_t>(tokens * pairs))};
  rotation_table(rotation, numerics, View<std::int64_t, 2>(positions.data(), {1, tokens}),
                 View<float, 2>(table.cos.data(), {tokens, pairs}),
                 View<float, 2>(table.sin.data(), {tokens, pairs}));
  return table;
}

/// Channels of pair i.
inline std::pair<std::size_t, std::size_t> channels(const Rotation& r, Pairing pairing, std::int64_t i) {
  const std::int64_t a = r.offset + (pairing == Pairing::half ? i : 2 * i);
  const std::int64_t b = r.offset + (pairing == Pairing::half ? i + r.width / 2 : 2 * i + 1);
  return {static_cast<std::size_t>(a), static_cast<std::size_t>(b)};
}

/// A head rotated to one position by the exact table.
inline std::vector<double> rotated(const Rotation& r, const std::vector<double>& x, std::int64_t position) {
  const CosSin table = cos_sin(r, {}, {position});
  std::vector<double> y = x;
  for (std::int64_t i = 0; i < table.pairs; ++i) {
    const auto [a, b] = channels(r, r.read, i);
    const auto [to_a, to_b] = channels(r, r.write, i);
    y[to_a] = x[a] * table.c(0, i) - x[b] * table.s(0, i);
    y[to_b] = x[b] * table.c(0, i) + x[a] * table.s(0, i);
  }
  return y;
}

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace locant::tables

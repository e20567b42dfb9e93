// SPDX-License-Identifier: Apache-2.0
// Turns: the complex factor that each rotated pair of a token was multiplied by, amplitude * e^(i angle),
// read off recorded tables or off tensors before and after the rotation (least squares over the heads).
#pragma once

#include <complex>
#include <cstdint>
#include <string>
#include <vector>

#include "check/evidence.h"
#include "locant/plan.h"

namespace locant::check_room {

/// Which channels of a head turn together.
struct Geometry {
  Pairing read = Pairing::half;
  Pairing write = Pairing::half;
  std::int64_t offset = 0;
  std::int64_t width = 0;
  std::int64_t span = 0;  ///< of half pairs: channels between the two of a pair; 0 = width / 2

  bool operator==(const Geometry&) const = default;
  [[nodiscard]] std::int64_t pairs() const noexcept { return width / 2; }
  /// Channels of pair p under one of the two pairings.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> channels(Pairing pairing,
                                                               std::int64_t p) const noexcept {
    if (pairing == Pairing::half) return {offset + p, offset + p + (span > 0 ? span : width / 2)};
    return {offset + 2 * p, offset + 2 * p + 1};
  }
};
[[nodiscard]] Geometry geometry_of(const Rotation& rotation);

/// Turns of some tokens under one geometry.
struct Turns {
  std::int64_t pairs = 0;
  std::vector<std::int64_t> row;             ///< [N] of the token
  std::vector<std::int64_t> token;           ///< [N] of the token in its pass
  std::vector<std::complex<double>> factor;  ///< [N, pairs]
  std::vector<double> weight;                ///< [N, pairs] energy of the pair before the turn
  /// Relative root mean square of what no factor explains: heads that turn differently, or no rotation.
  double misfit = 0;

  [[nodiscard]] std::size_t count() const noexcept { return token.size(); }
  [[nodiscard]] std::complex<double> at(std::size_t n, std::int64_t p) const {
    return factor[n * static_cast<std::size_t>(pairs) + static_cast<std::size_t>(p)];
  }
  [[nodiscard]] double energy(std::size_t n, std::int64_t p) const {
    return weight[n * static_cast<std::size_t>(pairs) + static_cast<std::size_t>(p)];
  }
};

/// Of one tensor before and after, [B, T, heads, head_dim] each; content tokens only. Exact for one head:
/// then misfit says nothing about the geometry but for channels that must stand still.
[[nodiscard]] Turns turns_of(const Pass& pass, const Values& before, const Values& after,
                             const Geometry& geometry);

/// Of recorded tables [T, r], [B, T, r] or [axes, B, T, r] (axis 0 is taken, others are read by their own
/// call). r is pairs or 2 pairs, repeated in halves or interleaved. Empty when the shape is another.
[[nodiscard]] std::vector<Turns> turns_of_tables(const Pass& pass, const Values& cos, const Values& sin,
                                                 std::int64_t pairs);

/// Whether angles grow downwards: read off the slowest pair, whose angles stay small.
[[nodiscard]] bool turns_back(const Turns& turns);

/// One after the other.
void append(Turns& to, const Turns& more);

}  // namespace locant::check_room

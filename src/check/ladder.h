// SPDX-License-Identifier: Apache-2.0
// Candidate causes of a rotation, and how well each reproduces recorded turns: the planned ladder of
// frequencies, changed ladders, changed positions, or both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "check/turns.h"
#include "locant/check.h"
#include "locant/plan.h"

namespace locant::check_room {

/// What a candidate stands for; a rule is chosen by it.
enum class Cause : std::uint8_t {
  planned,
  missing,  ///< no rotation
  twice,
  reversed,
  swapped,  ///< cos and sin
  theta,
  scaling,     ///< a schedule or factor other than the planned one
  other_kind,  ///< the plan of other layers
  recipe,      ///< what another runtime does
  length,      ///< the plan of another number of tokens seen
  rounded,     ///< frequencies, positions or angles in a narrow dtype
  axes,        ///< pairs follow other position axes
  width,       ///< the ladder counts another width
};

struct Narrow {
  std::optional<DType> frequency{};
  std::optional<DType> position{};
  std::optional<DType> angle{};
};

struct Ladder {
  Cause cause = Cause::planned;
  std::string text{};  ///< "theta 10000 where 500000 is due"
  std::vector<std::pair<std::string, double>> parameters{};
  std::vector<double> inv_freq{};    ///< [pairs]
  std::vector<std::int64_t> axis{};  ///< [pairs], or empty
  double sign = 1;
  double times = 1;      ///< how often it is applied
  bool swapped = false;  ///< cos and sin change places: a quarter turn less the angle
  Narrow narrow{};

  [[nodiscard]] double angle(double position, std::int64_t pair) const;
  [[nodiscard]] std::int64_t axis_of(std::int64_t pair) const {
    return axis.empty() ? 0 : axis[static_cast<std::size_t>(pair)];
  }
};
[[nodiscard]] Ladder ladder_of(const Rotation& rotation);

/// Positions of the turns' tokens: [axes, N].
struct TokenPositions {
  std::int64_t axes = 1;
  std::vector<std::int64_t> values;

  [[nodiscard]] double at(std::int64_t axis, std::size_t n, std::size_t count) const {
    return static_cast<double>(values[(axes == 1 ? 0 : static_cast<std::size_t>(axis)) * count + n]);
  }
};
/// Of [axes, B, T] in a pass.
[[nodiscard]] TokenPositions positions_of(const Turns& turns, const Pass& pass,
                                          const std::vector<std::int64_t>& all, std::int64_t axes);

/// Relative root mean square of directions that the ladder does not reproduce.
[[nodiscard]] double residual(const Turns& turns, const Ladder& ladder, const TokenPositions& positions);
/// What rounding alone explains, in the measure of residual(): `dtype` is that of the tensors, and angles are
/// products in f32.
[[nodiscard]] double budget(const Turns& turns, const Ladder& ladder, const TokenPositions& positions,
                            DType dtype);

/// The whole position of each token under a ladder, by search; nothing when no whole position below `most`
/// reproduces one of the tokens within its budget. One axis only.
[[nodiscard]] std::optional<std::vector<std::int64_t>> fit_positions(const Turns& turns, const Ladder& ladder,
                                                                     const TokenPositions& due, DType dtype);

/// rad/token per pair from tokens of one row whose positions follow each other; empty when there are too few.
[[nodiscard]] std::vector<double> fit_frequencies(const Turns& turns, const TokenPositions& positions);

/// Weighted mean length of the factors, and their relative spread about it.
struct AmplitudeFit {
  double mean = 1;
  double spread = 0;
};
[[nodiscard]] AmplitudeFit fit_amplitude(const Turns& turns);

}  // namespace locant::check_room

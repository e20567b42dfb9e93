// SPDX-License-Identifier: Apache-2.0
#include "check/ladder.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>
#include <utility>

#include "core/narrow.h"

namespace locant::check_room {
namespace {

double kept(double value, std::optional<DType> dtype) {
  if (!dtype) return value;
  return static_cast<double>(narrowed(static_cast<float>(value), *dtype));
}

struct Sums {
  double left = 0;
  double total = 0;
};

template <class PositionOf>
void add_token(const Turns& turns, const Ladder& ladder, std::size_t n, Sums& sums,
               const PositionOf& position) {
  for (std::int64_t p = 0; p < turns.pairs; ++p) {
    const std::complex<double> factor = turns.at(n, p);
    const double length = std::abs(factor);
    if (length == 0) continue;
    const double weight = turns.energy(n, p) * length * length;
    const double angle = ladder.angle(position(ladder.axis_of(p)), p);
    sums.left += weight * std::norm(factor / length - std::polar(1.0, angle));
    sums.total += weight;
  }
}

double token_residual(const Turns& turns, const Ladder& ladder, std::size_t n, double position) {
  Sums sums;
  add_token(turns, ladder, n, sums, [&](std::int64_t) { return position; });
  return sums.total > 0 ? std::sqrt(sums.left / sums.total) : 0;
}

double angle_error(double angle) {
  return 4 * 0x1p-24 * std::abs(angle);
}

double token_budget(const Turns& turns, const Ladder& ladder, std::size_t n, double position, DType dtype) {
  double squares = 0;
  double total = 0;
  for (std::int64_t p = 0; p < turns.pairs; ++p) {
    const double weight = turns.energy(n, p) * std::norm(turns.at(n, p));
    const double error = angle_error(ladder.angle(position, p));
    squares += weight * error * error;
    total += weight;
  }
  // of one token the worst of a few pairs counts, not their mean
  return 12 * unit_roundoff(dtype) + 2 * (total > 0 ? std::sqrt(squares / total) : 0);
}

constexpr std::int64_t kFarthest = 1LL << 17;

}  // namespace

double Ladder::angle(double position, std::int64_t pair) const {
  const double frequency = kept(inv_freq[static_cast<std::size_t>(pair)], narrow.frequency);
  const double angle = sign * times * kept(kept(position, narrow.position) * frequency, narrow.angle);
  return swapped ? std::numbers::pi / 2 - angle : angle;
}

Ladder ladder_of(const Rotation& rotation) {
  Ladder ladder;
  ladder.inv_freq = rotation.inv_freq;
  ladder.axis = rotation.axis;
  ladder.sign = rotation.sign;
  return ladder;
}

TokenPositions positions_of(const Turns& turns, const Pass& pass, const std::vector<std::int64_t>& all,
                            std::int64_t axes) {
  TokenPositions positions;
  positions.axes = axes;
  for (std::int64_t axis = 0; axis < axes; ++axis) {
    for (std::size_t n = 0; n < turns.count(); ++n)
      positions.values.push_back(
          all[static_cast<std::size_t>((axis * pass.rows + turns.row[n]) * pass.tokens + turns.token[n])]);
  }
  return positions;
}

double residual(const Turns& turns, const Ladder& ladder, const TokenPositions& positions) {
  Sums sums;
  for (std::size_t n = 0; n < turns.count(); ++n) {
    add_token(turns, ladder, n, sums,
              [&](std::int64_t axis) { return positions.at(axis, n, turns.count()); });
  }
  return sums.total > 0 ? std::sqrt(sums.left / sums.total) : 0;
}

double budget(const Turns& turns, const Ladder& ladder, const TokenPositions& positions, DType dtype) {
  double squares = 0;
  double total = 0;
  for (std::size_t n = 0; n < turns.count(); ++n) {
    for (std::int64_t p = 0; p < turns.pairs; ++p) {
      const double weight = turns.energy(n, p) * std::norm(turns.at(n, p));
      const double error = angle_error(ladder.angle(positions.at(ladder.axis_of(p), n, turns.count()), p));
      squares += weight * error * error;
      total += weight;
    }
  }
  return 6 * unit_roundoff(dtype) + (total > 0 ? std::sqrt(squares / total) : 0);
}

std::optional<std::vector<std::int64_t>> fit_positions(const Turns& turns, const Ladder& ladder,
                                                       const TokenPositions& due, DType dtype) {
  if (due.axes != 1) return std::nullopt;
  std::int64_t largest = 0;
  for (const std::int64_t position : due.values) largest = std::max(largest, std::abs(position));
  const std::int64_t most =
      std::min(kFarthest, 2 * largest + 2 * static_cast<std::int64_t>(turns.count()) + 256);
  const auto fits = [&](std::size_t n, std::int64_t position) {
    const auto exact = static_cast<double>(position);
    return token_residual(turns, ladder, n, exact) <= token_budget(turns, ladder, n, exact, dtype);
  };
  std::vector<std::int64_t> found;
  std::int64_t shift = 0;
  for (std::size_t n = 0; n < turns.count(); ++n) {
    const std::int64_t position = due.values[n];
    std::optional<std::int64_t> fitted;
    for (const std::int64_t guess : {position + shift, position, found.empty() ? 0 : found.back(),
                                     found.empty() ? 0 : found.back() + 1}) {
      if (!fits(n, guess)) continue;
      fitted = guess;
      break;
    }
    // Slow pairs make neighbours look alike: of all that fit, the best is taken.
    if (!fitted) {
      double least = INFINITY;
      for (std::int64_t candidate = -most; candidate <= most; ++candidate) {
        const double left = token_residual(turns, ladder, n, static_cast<double>(candidate));
        if (left >= least) continue;
        least = left;
        fitted = candidate;
      }
      if (!fitted || !fits(n, *fitted)) return std::nullopt;
    }
    shift = *fitted - position;
    found.push_back(*fitted);
  }
  return found;
}

std::vector<double> fit_frequencies(const Turns& turns, const TokenPositions& positions) {
  const auto pairs = static_cast<std::size_t>(turns.pairs);
  std::vector<double> inv_freq(pairs, 0);
  const std::size_t count = turns.count();
  if (positions.axes != 1) return {};
  std::int64_t longest = 0;
  for (std::size_t lag = 1; lag < count; lag *= 2) {
    bool any = false;
    for (std::size_t p = 0; p < pairs; ++p) {
      std::complex<double> product = 0;
      for (std::size_t n = 0; n + lag < count; ++n) {
        if (turns.row[n] != turns.row[n + lag]) continue;
        if (positions.values[n + lag] - positions.values[n] != static_cast<std::int64_t>(lag)) continue;
        any = true;
        const auto pair = static_cast<std::int64_t>(p);
        product += turns.at(n + lag, pair) * std::conj(turns.at(n, pair)) *
                   std::sqrt(turns.energy(n, pair) * turns.energy(n + lag, pair));
      }
      if (product == 0.0) continue;
      const auto steps = static_cast<double>(lag);
      const double before = inv_freq[p] * steps;
      const double turn = 2 * std::numbers::pi;
      const double angle = std::arg(product);
      inv_freq[p] = (angle + turn * std::round((before - angle) / turn)) / steps;
    }
    if (!any) break;
    longest = static_cast<std::int64_t>(lag);
  }
  if (longest == 0) return {};
  return inv_freq;
}

AmplitudeFit fit_amplitude(const Turns& turns) {
  // Rounding moves equal factors alike: one of them is as good as all.
  std::set<std::pair<double, double>> seen;
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < turns.factor.size(); ++i) {
    if (seen.emplace(turns.factor[i].real(), turns.factor[i].imag()).second) chosen.push_back(i);
  }
  double sum = 0;
  double total = 0;
  for (const std::size_t i : chosen) {
    sum += turns.weight[i] * std::abs(turns.factor[i]);
    total += turns.weight[i];
  }
  AmplitudeFit fit;
  if (total == 0) return fit;
  fit.mean = sum / total;
  double squares = 0;
  for (const std::size_t i : chosen) {
    const double away = std::abs(turns.factor[i]) - fit.mean;
    squares += turns.weight[i] * away * away;
  }
  fit.spread = fit.mean > 0 ? std::sqrt(squares / total) / fit.mean : 0;
  return fit;
}

}  // namespace locant::check_room

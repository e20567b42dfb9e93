// SPDX-License-Identifier: Apache-2.0
#include "check/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace locant::check_room {
namespace {

constexpr std::size_t kFewTokens = 4;

double wrapped(double angle) {
  return std::remainder(angle, 2 * std::numbers::pi);
}

double due_angle(const Turns& turns, const Ladder& planned, const TokenPositions& due, std::size_t n,
                 std::int64_t pair) {
  return planned.angle(due.at(planned.axis_of(pair), n, turns.count()), pair);
}

/// Of the pairs that are about as far from their due angles as the furthest is, the slowest: it is the
/// easiest to read.
std::int64_t odd_pair(const Turns& turns, const Ladder& planned, const TokenPositions& due) {
  std::vector<double> away(static_cast<std::size_t>(turns.pairs), 0);
  for (std::int64_t pair = 0; pair < turns.pairs; ++pair) {
    for (std::size_t n = 0; n < turns.count(); ++n)
      away[static_cast<std::size_t>(pair)] +=
          std::abs(wrapped(std::arg(turns.at(n, pair)) - due_angle(turns, planned, due, n, pair)));
  }
  const double most = *std::max_element(away.begin(), away.end());
  std::int64_t slowest = turns.pairs - 1;
  while (slowest > 0 && away[static_cast<std::size_t>(slowest)] < most / 2) --slowest;
  return slowest;
}

Curve by_token(const std::string& what, const Turns& turns, const Ladder& planned,
               const TokenPositions& due) {
  const std::int64_t pair = odd_pair(turns, planned, due);
  const std::int64_t row = turns.row.front();
  Curve curve{.name = fmt::format("The angle of pair {} of {}", pair, what),
              .x_label = fmt::format("token of row {}", row),
              .y_label = "radians, less whole turns"};
  for (std::size_t n = 0; n < turns.count(); ++n) {
    if (turns.row[n] != row) continue;
    add_point(curve, static_cast<double>(turns.token[n]), wrapped(due_angle(turns, planned, due, n, pair)),
              std::arg(turns.at(n, pair)));
  }
  return curve;
}

Curve by_pair(const std::string& what, const Turns& turns, const Ladder& planned, const TokenPositions& due) {
  const std::size_t last = turns.count() - 1;
  Curve curve{
      .name = fmt::format("The angles of {} at token {} of row {}", what, turns.token[last], turns.row[last]),
      .x_label = "pair",
      .y_label = "radians, less whole turns"};
  for (std::int64_t pair = 0; pair < turns.pairs; ++pair)
    add_point(curve, static_cast<double>(pair), wrapped(due_angle(turns, planned, due, last, pair)),
              std::arg(turns.at(last, pair)));
  return curve;
}

Curve frequencies(const std::string& what, const Turns& turns, const Ladder& planned,
                  const TokenPositions& due) {
  Curve curve{.name = fmt::format("The frequencies of {} as shares of those that are due", what),
              .x_label = "pair",
              .y_label = "times the planned one"};
  const std::vector<double> fitted = fit_frequencies(turns, due);
  for (std::size_t pair = 0; pair < fitted.size() && pair < planned.inv_freq.size(); ++pair) {
    const double plan = planned.sign * planned.inv_freq[pair];
    if (plan != 0) add_point(curve, static_cast<double>(pair), 1, fitted[pair] / plan);
  }
  return curve;
}

}  // namespace

void add_point(Curve& curve, double x, double expected, double observed) {
  curve.x.push_back(x);
  curve.expected.push_back(expected);
  curve.observed.push_back(observed);
}

void thin(Curve& curve) {
  const std::size_t count = curve.x.size();
  if (count <= Curve::kMostPoints) return;
  for (auto* const values : {&curve.x, &curve.expected, &curve.observed}) {
    if (values->empty()) continue;
    for (std::size_t k = 0; k < Curve::kMostPoints; ++k)
      (*values)[k] = (*values)[k * (count - 1) / (Curve::kMostPoints - 1)];
    values->resize(Curve::kMostPoints);
  }
}

std::vector<Curve> turn_curves(const std::string& what, const Turns& turns, const Ladder& planned,
                               const TokenPositions& due) {
  if (turns.count() == 0 || turns.pairs == 0) return {};
  std::vector<Curve> curves;
  curves.push_back(turns.count() < kFewTokens ? by_pair(what, turns, planned, due)
                                              : by_token(what, turns, planned, due));
  Curve shares = frequencies(what, turns, planned, due);
  if (!shares.x.empty()) curves.push_back(std::move(shares));
  return curves;
}

Curve amplitude_curve(const std::string& what, const Turns& turns, double planned) {
  Curve curve{.name = fmt::format("The amplitude of {}", what), .x_label = "pair", .y_label = "times"};
  for (std::int64_t pair = 0; pair < turns.pairs; ++pair) {
    double length = 0;
    double weight = 0;
    for (std::size_t n = 0; n < turns.count(); ++n) {
      length += turns.energy(n, pair) * std::abs(turns.at(n, pair));
      weight += turns.energy(n, pair);
    }
    if (weight > 0) add_point(curve, static_cast<double>(pair), planned, length / weight);
  }
  return curve;
}

}  // namespace locant::check_room

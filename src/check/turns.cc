// SPDX-License-Identifier: Apache-2.0
#include "check/turns.h"

#include <cmath>

namespace locant::check_room {

Geometry geometry_of(const Rotation& rotation) {
  return {.read = rotation.read,
          .write = rotation.write,
          .offset = rotation.offset,
          .width = rotation.width,
          .span = 0};
}

Turns turns_of(const Pass& pass, const Values& before, const Values& after, const Geometry& geometry) {
  const std::int64_t heads = before.extent(2);
  const std::int64_t width = before.extent(3);
  Turns turns;
  turns.pairs = geometry.pairs();
  double left = 0;
  double total = 0;
  for (std::int64_t row = 0; row < pass.rows; ++row) {
    for (std::int64_t token = 0; token < pass.tokens; ++token) {
      if (!pass.content[pass.at(row, token)] || pass.is_short(row)) continue;
      turns.row.push_back(row);
      turns.token.push_back(token);
      const auto base = static_cast<std::size_t>(((row * pass.tokens) + token) * heads * width);
      std::vector<bool> turned(static_cast<std::size_t>(width), false);
      for (std::int64_t p = 0; p < turns.pairs; ++p) {
        const auto [first, second] = geometry.channels(geometry.read, p);
        const auto [first_after, second_after] = geometry.channels(geometry.write, p);
        for (const std::int64_t channel : {first, second}) turned[static_cast<std::size_t>(channel)] = true;
        std::complex<double> product = 0;
        double energy = 0;
        double energy_after = 0;
        for (std::int64_t head = 0; head < heads; ++head) {
          const std::size_t at = base + static_cast<std::size_t>(head * width);
          const std::complex<double> a(before.data[at + static_cast<std::size_t>(first)],
                                       before.data[at + static_cast<std::size_t>(second)]);
          const std::complex<double> b(after.data[at + static_cast<std::size_t>(first_after)],
                                       after.data[at + static_cast<std::size_t>(second_after)]);
          product += std::conj(a) * b;
          energy += std::norm(a);
          energy_after += std::norm(b);
        }
        const std::complex<double> factor = energy > 0 ? product / energy : std::complex<double>(1, 0);
        turns.factor.push_back(factor);
        turns.weight.push_back(energy);
        left += std::max(0.0, energy_after - (energy > 0 ? std::norm(product) / energy : 0));
        total += energy_after;
      }
      for (std::int64_t channel = 0; channel < width; ++channel) {
        if (turned[static_cast<std::size_t>(channel)]) continue;
        for (std::int64_t head = 0; head < heads; ++head) {
          const std::size_t at = base + static_cast<std::size_t>(head * width + channel);
          const double change = static_cast<double>(after.data[at]) - static_cast<double>(before.data[at]);
          left += change * change;
          total += static_cast<double>(after.data[at]) * static_cast<double>(after.data[at]);
        }
      }
    }
  }
  turns.misfit = total > 0 ? std::sqrt(left / total) : 0;
  return turns;
}

std::vector<Turns> turns_of_tables(const Pass& pass, const Values& cos, const Values& sin,
                                   std::int64_t pairs) {
  if (cos.shape != sin.shape || cos.shape.size() < 2 || cos.shape.size() > 4) return {};
  const std::size_t rank = cos.shape.size();
  const std::int64_t columns = cos.extent(rank - 1);
  if (cos.extent(rank - 2) != pass.tokens || (columns != pairs && columns != 2 * pairs)) return {};
  const std::int64_t batch = rank >= 3 ? cos.extent(rank - 3) : 1;
  const std::int64_t axes = rank == 4 ? cos.extent(0) : 1;
  if (batch != 1 && batch != pass.rows) return {};
  const auto value = [&](const Values& table, std::int64_t axis, std::int64_t row, std::int64_t token,
                         std::int64_t column) {
    const std::int64_t at =
        ((axis * batch + (batch == 1 ? 0 : row)) * pass.tokens + token) * columns + column;
    return static_cast<double>(table.data[static_cast<std::size_t>(at)]);
  };
  // Repeated in halves, or each twice in a row: the columns that ought to be equal tell.
  bool interleaved = false;
  if (columns == 2 * pairs && pairs > 1) {
    double halves = 0;
    double twice = 0;
    for (std::int64_t token = 0; token < pass.tokens; ++token) {
      for (std::int64_t p = 0; p < pairs; ++p) {
        halves += std::abs(value(cos, 0, 0, token, p) - value(cos, 0, 0, token, p + pairs));
        twice += std::abs(value(cos, 0, 0, token, 2 * p) - value(cos, 0, 0, token, 2 * p + 1));
      }
    }
    interleaved = twice < halves;
  }
  // As many columns as pairs, but repeated: the table of a narrower rotation.
  if (columns == pairs && pairs > 1 && pairs % 2 == 0) {
    bool halves = true;
    bool twice = true;
    bool constant = true;
    for (std::int64_t token = 0; token < pass.tokens; ++token) {
      for (std::int64_t p = 0; p < pairs / 2; ++p) {
        halves = halves && value(sin, 0, 0, token, p) == value(sin, 0, 0, token, p + pairs / 2);
        twice = twice && value(sin, 0, 0, token, 2 * p) == value(sin, 0, 0, token, 2 * p + 1);
        constant = constant && value(sin, 0, 0, token, p) == value(sin, 0, 0, token, 0);
      }
    }
    if ((halves || twice) && !constant) return {};
  }
  std::vector<Turns> all;
  for (std::int64_t axis = 0; axis < axes; ++axis) {
    Turns turns;
    turns.pairs = pairs;
    for (std::int64_t row = 0; row < pass.rows; ++row) {
      for (std::int64_t token = 0; token < pass.tokens; ++token) {
        if (!pass.content[pass.at(row, token)] || pass.is_short(row)) continue;
        turns.row.push_back(row);
        turns.token.push_back(token);
        for (std::int64_t p = 0; p < pairs; ++p) {
          const std::int64_t column = interleaved ? 2 * p : p;
          turns.factor.emplace_back(value(cos, axis, row, token, column),
                                    value(sin, axis, row, token, column));
          turns.weight.push_back(1);
        }
      }
    }
    all.push_back(std::move(turns));
  }
  return all;
}

bool turns_back(const Turns& turns) {
  double sine = 0;
  for (std::size_t n = 0; turns.pairs > 0 && n < turns.count(); ++n)
    sine += turns.at(n, turns.pairs - 1).imag();
  return sine < 0;
}

void append(Turns& to, const Turns& more) {
  if (to.pairs == 0) to.pairs = more.pairs;
  to.row.insert(to.row.end(), more.row.begin(), more.row.end());
  to.token.insert(to.token.end(), more.token.begin(), more.token.end());
  to.factor.insert(to.factor.end(), more.factor.begin(), more.factor.end());
  to.weight.insert(to.weight.end(), more.weight.begin(), more.weight.end());
}

}  // namespace locant::check_room

// SPDX-License-Identifier: Apache-2.0
// How far two plans are apart at positions, by the tables that positions builds of each in its own numbers.
#include <algorithm>
#include <cmath>
#include <utility>

#include "facts/compare_parts.h"

namespace locant {
namespace {

constexpr std::int64_t kTextAxes = 3;  // a fourth axis is 0 in text

std::int64_t axes_of(const Rotation& a, const Rotation& b) {
  std::int64_t axes = 1;
  for (const Rotation* const one : {&a, &b}) {
    for (const std::int64_t axis : one->axis) axes = std::max(axes, axis + 1);
  }
  return axes;
}

/// cos and sin at some positions.
struct Table {
  std::vector<float> cos;
  std::vector<float> sin;

  void build(const Tabled<Rotation>& of, View<const std::int64_t, 2> positions) {
    const auto pairs = static_cast<std::int64_t>(of.part.inv_freq.size());
    const std::int64_t tokens = positions.extent(1);
    cos.resize(static_cast<std::size_t>(tokens * pairs));
    sin.resize(cos.size());
    rotation_table(of.part, of.numerics, positions, View<float, 2>(cos.data(), {tokens, pairs}),
                   View<float, 2>(sin.data(), {tokens, pairs}));
  }
};

std::vector<std::int64_t> spaced(std::int64_t first, std::int64_t step, std::size_t count) {
  std::vector<std::int64_t> positions(count);
  for (std::size_t i = 0; i < count; ++i) positions[i] = first + static_cast<std::int64_t>(i) * step;
  return positions;
}

double apart(float a, float b) {
  return std::abs(static_cast<double>(a) - static_cast<double>(b));
}

/// Takes the candidate that is more steps of its own size away.
void keep_larger(Gap& gap, double difference, double magnitude, std::int64_t index) {
  const auto steps = [](double d, double m) { return m > 0 ? d / half_step(DType::f32, m) : 0; };
  if (steps(difference, magnitude) <= steps(gap.difference, gap.magnitude)) return;
  gap.difference = difference;
  gap.magnitude = magnitude;
  gap.index = index;
}

double angle_between(const Table& a, const Table& b, std::size_t at) {
  const double angle_a = std::atan2(static_cast<double>(a.sin[at]), static_cast<double>(a.cos[at]));
  const double angle_b = std::atan2(static_cast<double>(b.sin[at]), static_cast<double>(b.cos[at]));
  constexpr double kTurn = 6.283185307179586;
  return std::abs(std::remainder(angle_b - angle_a, kTurn));
}

}  // namespace

GapsAt rotation_gaps(Tabled<Rotation> a, Tabled<Rotation> b, std::vector<std::int64_t> pairs,
                     AnglesBy angles) {
  const std::int64_t axes = axes_of(a.part, b.part);
  const std::size_t width = a.part.inv_freq.size();
  if (pairs.empty()) pairs = spaced(0, 1, width);
  const double magnitude = std::max(a.part.amplitude, b.part.amplitude);
  return [=, of_a = Table{}, of_b = Table{}](std::int64_t first, std::int64_t step,
                                             std::span<Gap> gaps) mutable {
    const auto tokens = static_cast<std::int64_t>(gaps.size());
    std::vector<std::int64_t> positions;
    for (std::int64_t axis = 0; axis < axes; ++axis) {
      const std::vector<std::int64_t> one = spaced(first, step, gaps.size());
      if (axis < kTextAxes) positions.insert(positions.end(), one.begin(), one.end());
    }
    positions.resize(static_cast<std::size_t>(axes * tokens));
    const View<const std::int64_t, 2> at(positions.data(), {axes, tokens});
    of_a.build(a, at);
    of_b.build(b, at);
    for (std::size_t t = 0; t < gaps.size(); ++t) {
      Gap& gap = gaps[t];
      gap = {};
      gap.magnitude = magnitude;
      double radians = 0;
      for (const std::int64_t pair : pairs) {
        const auto i = static_cast<std::size_t>(pair);
        const std::size_t cell = t * width + i;
        keep_larger(gap,
                    std::max(apart(of_a.cos[cell], of_b.cos[cell]), apart(of_a.sin[cell], of_b.sin[cell])),
                    magnitude, pair);
        if (angles == AnglesBy::frequencies) {
          const double rate = b.part.sign * b.part.inv_freq[i] - a.part.sign * a.part.inv_freq[i];
          radians = std::max(radians, std::abs(rate) * static_cast<double>(positions[t]));
        }
      }
      if (angles == AnglesBy::frequencies) {
        gap.radians = radians;
      } else if (gap.index >= 0) {
        gap.radians = angle_between(of_a, of_b, t * width + static_cast<std::size_t>(gap.index));
      } else {
        gap.radians = 0;
      }
    }
  };
}

GapsAt slope_gaps(const Tabled<Bias>& a, const Tabled<Bias>& b) {
  const std::int64_t heads = a.part.heads;
  return [=](std::int64_t first, std::int64_t step, std::span<Gap> gaps) {
    for (std::size_t t = 0; t < gaps.size(); ++t) {
      const std::int64_t query = first + static_cast<std::int64_t>(t) * step;
      const std::vector<std::int64_t> keys{0, query / 2, std::max<std::int64_t>(query - 1, 0), query};
      const auto count = static_cast<std::int64_t>(keys.size());
      std::vector<float> of_a(static_cast<std::size_t>(heads * count));
      std::vector<float> of_b(of_a.size());
      const View<const std::int64_t, 1> queries(&query, {1});
      const View<const std::int64_t, 1> at(keys.data(), {count});
      slope_scores(a.part, a.numerics, queries, at, View<float, 3>(of_a.data(), {heads, 1, count}));
      slope_scores(b.part, b.numerics, queries, at, View<float, 3>(of_b.data(), {heads, 1, count}));
      Gap& gap = gaps[t];
      gap = {};
      for (std::int64_t h = 0; h < heads; ++h) {
        const auto row = static_cast<std::size_t>(h * count);
        const std::size_t own = row + static_cast<std::size_t>(count) - 1;
        for (std::size_t k = row; k < own; ++k) {
          const double value_a = static_cast<double>(of_a[k]) - static_cast<double>(of_a[own]);
          const double value_b = static_cast<double>(of_b[k]) - static_cast<double>(of_b[own]);
          keep_larger(gap, std::abs(value_b - value_a), std::max(std::abs(value_a), std::abs(value_b)), h);
        }
      }
    }
  };
}

GapsAt factor_gaps(const QueryScale& a, const QueryScale& b) {
  return [=](std::int64_t first, std::int64_t step, std::span<Gap> gaps) {
    for (std::size_t t = 0; t < gaps.size(); ++t) {
      const std::int64_t position = first + static_cast<std::int64_t>(t) * step;
      const double factor_a = query_factor(a, position);
      const double factor_b = query_factor(b, position);
      gaps[t] = {};
      gaps[t].difference = std::abs(factor_b - factor_a);
      gaps[t].magnitude = std::max(std::abs(factor_a), std::abs(factor_b));
    }
  };
}

GapsAt row_gaps(const Tabled<PositionEmbedding>& a, const Tabled<PositionEmbedding>& b) {
  const std::int64_t width = a.part.width;
  const double magnitude = std::max(std::abs(a.part.scale), std::abs(b.part.scale));
  return [=](std::int64_t first, std::int64_t step, std::span<Gap> gaps) {
    const auto tokens = static_cast<std::int64_t>(gaps.size());
    const auto rows_of = [&](const Tabled<PositionEmbedding>& one) {
      const std::vector<std::int64_t> positions = spaced(first + one.part.first_position, step, gaps.size());
      std::vector<float> rows(static_cast<std::size_t>(tokens * width));
      sinusoid_rows(one.part, one.numerics, View<const std::int64_t, 1>(positions.data(), {tokens}),
                    View<float, 2>(rows.data(), {tokens, width}));
      return rows;
    };
    const std::vector<float> of_a = rows_of(a);
    const std::vector<float> of_b = rows_of(b);
    for (std::size_t t = 0; t < gaps.size(); ++t) {
      gaps[t] = {};
      gaps[t].magnitude = magnitude;
      for (std::int64_t column = 0; column < width; ++column) {
        const std::size_t cell = t * static_cast<std::size_t>(width) + static_cast<std::size_t>(column);
        keep_larger(gaps[t], apart(of_a[cell], of_b[cell]), magnitude, column);
      }
    }
  };
}

}  // namespace locant

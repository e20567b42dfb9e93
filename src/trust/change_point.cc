// SPDX-License-Identifier: Apache-2.0
// Where learning ends in a table of positions. Rows without a gradient keep their initial values: norms of
// one size, neighbours that are not alike; rows that learned are alike from one to the next. Rows at the end
// that are zero or repeat each other are padding.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trust/parts.h"

namespace locant::trust_room {
namespace {

constexpr double kAlike = 0.2;     // mean cosine of neighbours that shows learning
constexpr double kOutlier = 8;     // deviations at which one row stands out of the rows before it
constexpr std::int64_t kFew = 32;  // rows that one row is compared with
constexpr double kClear = 6;       // standard errors between the two sides

struct Rows {
  std::vector<double> norm;   // [rows]
  std::vector<double> alike;  // [rows - 1] cosine with the next row
};

Rows rows_of(const std::vector<float>& table, std::int64_t rows, std::int64_t width) {
  Rows all;
  const auto at = [&](std::int64_t row, std::int64_t i) {
    return static_cast<double>(table[static_cast<std::size_t>(row * width + i)]);
  };
  for (std::int64_t row = 0; row < rows; ++row) {
    double square = 0;
    for (std::int64_t i = 0; i < width; ++i) square += at(row, i) * at(row, i);
    all.norm.push_back(std::sqrt(square));
  }
  for (std::int64_t row = 0; row + 1 < rows; ++row) {
    double product = 0;
    for (std::int64_t i = 0; i < width; ++i) product += at(row, i) * at(row + 1, i);
    const double scale =
        all.norm[static_cast<std::size_t>(row)] * all.norm[static_cast<std::size_t>(row + 1)];
    all.alike.push_back(scale > 0 ? product / scale : 0);
  }
  return all;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Moments {
  double mean = 0;
  double deviation = 0;
  double count = 0;
};

Moments moments(const std::vector<double>& values, std::size_t first, std::size_t last) {
  Moments out;
  out.count = static_cast<double>(last - first);
  if (last <= first) return out;
  for (std::size_t i = first; i < last; ++i) out.mean += values[i] / out.count;
  for (std::size_t i = first; i < last; ++i)
    out.deviation += (values[i] - out.mean) * (values[i] - out.mean) / std::max(out.count - 1, 1.0);
  out.deviation = std::sqrt(out.deviation);
  return out;
}

void describe(const Rows& rows, std::int64_t learned, ChangePoint& point) {
  const auto split = static_cast<std::size_t>(learned);
  point.learned = learned;
  point.norm_before = median({rows.norm.begin(), rows.norm.begin() + learned});
  point.norm_behind = median({rows.norm.begin() + learned, rows.norm.end()});
  point.likeness_before = moments(rows.alike, 0, split > 0 ? split - 1 : 0).mean;
  point.likeness_behind = moments(rows.alike, std::min(split, rows.alike.size()), rows.alike.size()).mean;
}

/// Rows at the end that are zero, or all the same as the last one.
std::int64_t padding_of(const std::vector<float>& table, std::int64_t rows, std::int64_t width) {
  const auto begin = [&](std::int64_t row) { return table.begin() + row * width; };
  std::int64_t same = 1;
  while (same < rows && std::equal(begin(rows - 1), begin(rows - 1) + width, begin(rows - 1 - same))) ++same;
  const bool zero = std::all_of(begin(rows - 1), begin(rows - 1) + width, [](float x) { return x == 0; });
  return same > 1 || zero ? same : 0;
}

/// Two sides of a split: likeness of neighbours, in standard errors.
double contrast(const Rows& rows, std::size_t split) {
  const Moments before = moments(rows.alike, 0, split - 1);
  const Moments behind = moments(rows.alike, split, rows.alike.size());
  if (before.count < 2 || behind.count < 2) return 0;
  const double error = std::sqrt(before.deviation * before.deviation / before.count +
                                 behind.deviation * behind.deviation / behind.count);
  return error > 0 ? (before.mean - behind.mean) / error : 0;
}

/// The split that separates alike neighbours from unlike ones best; 0 = none does.
std::int64_t split_of(const Rows& rows, std::int64_t width) {
  // sums over prefixes make every split cheap: least squares of one step
  const std::size_t links = rows.alike.size();
  double total = 0;
  for (const double value : rows.alike) total += value;
  double best = 0;
  std::size_t at = 0;
  double left = 0;
  for (std::size_t i = 0; i + 2 < links; ++i) {
    left += rows.alike[i];
    const auto n = static_cast<double>(i + 1);
    const double rest = static_cast<double>(links) - n;
    const double step = left / n - (total - left) / rest;
    if (step <= 0) continue;
    const double gain = step * step * n * rest / static_cast<double>(links);
    if (gain > best) {
      best = gain;
      at = i + 1;
    }
  }
  if (at < 2) return 0;
  // links [0, at) are alike: rows [0, at] learned
  const std::size_t split = at + 1;
  const Moments before = moments(rows.alike, 0, at);
  const Moments behind = moments(rows.alike, split, links);
  // vectors without a common direction have cosines of deviation 1/sqrt(width)
  const double chance = 3 / std::sqrt(static_cast<double>(width) * std::max(behind.count, 1.0)) +
                        1 / static_cast<double>(width);
  if (before.mean < kAlike || std::abs(behind.mean) > std::max(chance, before.mean / 8)) return 0;
  return contrast(rows, split) > kClear ? static_cast<std::int64_t>(split) : 0;
}

/// Whether the last row stands out of those before it, in likeness to its neighbour or in norm.
bool last_stands_out(const Rows& rows) {
  const std::size_t n = rows.norm.size();
  if (n < 2 * static_cast<std::size_t>(kFew)) return false;
  const std::size_t first = n - 1 - static_cast<std::size_t>(kFew);
  const Moments alike = moments(rows.alike, first, n - 2);
  const Moments norm = moments(rows.norm, first, n - 1);
  const bool unlike = alike.mean > kAlike && alike.deviation > 0 &&
                      (alike.mean - rows.alike[n - 2]) / alike.deviation > kOutlier;
  const bool sized = norm.deviation > 0 && std::abs(rows.norm[n - 1] - norm.mean) / norm.deviation > kOutlier;
  return unlike && (sized || rows.alike[n - 2] < alike.mean / 4);
}

}  // namespace

ChangePoint change_point(const std::vector<float>& table, std::int64_t rows, std::int64_t width) {
  ChangePoint point;
  const Rows all = rows_of(table, rows, width);
  if (rows < 4) {
    describe(all, rows, point);
    return point;
  }
  if (const std::int64_t padding = padding_of(table, rows, width); padding > 0) {
    describe(all, rows - padding, point);
    point.evidence =
        fmt::format("the last {} rows are {}", padding, all.norm.back() == 0 ? "zero" : "one and the same");
    return point;
  }
  if (const std::int64_t split = split_of(all, width); split > 0) {
    describe(all, split, point);
    point.evidence = fmt::format(
        "neighbouring rows are alike (cosine {:.2f}) up to row {} and not behind it ({:.2f}); median norm "
        "{:.3g} "
        "before, {:.3g} behind",
        point.likeness_before, split - 1, point.likeness_behind, point.norm_before, point.norm_behind);
    return point;
  }
  if (last_stands_out(all)) {
    describe(all, rows - 1, point);
    point.likeness_behind = all.alike.back();
    point.evidence = fmt::format(
        "the last row is unlike its neighbour (cosine {:.2f}, {:.2f} between those before it), its "
        "norm is {:.3g} against {:.3g}",
        all.alike.back(), point.likeness_before, point.norm_behind, point.norm_before);
    return point;
  }
  describe(all, rows, point);
  return point;
}

}  // namespace locant::trust_room

// SPDX-License-Identifier: Apache-2.0
#include "report/html/axis.h"

#include <algorithm>
#include <cmath>

namespace locant::html {
namespace {

constexpr double kRoom = 0.04;  // of a linear axis beyond its values, at either end

/// 1, 2 or 5 times a power of ten, no less than `least`.
double round_step(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double times : {1.0, 2.0, 5.0}) {
    if (times * power >= least * (1 - 1e-9)) return times * power;
  }
  return 10 * power;
}

}  // namespace

Axis::Axis(Scale scale, const std::vector<double>& values) : scale_(scale) {
  bool any = false;
  for (const double value : values) {
    if (!std::isfinite(value) || (scale == Scale::log && !(value > 0))) continue;
    low_ = any ? std::min(low_, value) : value;
    high_ = any ? std::max(high_, value) : value;
    whole_ = whole_ && value == std::floor(value);
    any = true;
  }
  if (scale == Scale::log) {
    if (!any) low_ = high_ = 1;
    const double room = std::max(1.15, std::pow(high_ / low_, kRoom));
    low_ /= room;
    high_ *= room;
    return;
  }
  if (!any) low_ = high_ = 0;
  const double size = std::max(std::abs(low_), std::abs(high_));
  const double least = size > 0 ? size * 1e-9 : 1;  // of the axis, where all values are one
  const double room = std::max((high_ - low_) * kRoom, least / 2);
  low_ -= room;
  high_ += room;
}

double Axis::share(double value) const {
  if (scale_ == Scale::log)
    return value > 0 ? std::clamp(std::log(value / low_) / std::log(high_ / low_), 0.0, 1.0) : 0.0;
  return std::clamp((value - low_) / (high_ - low_), 0.0, 1.0);
}

bool Axis::holds(double value) const {
  return value >= low_ && value <= high_;
}

std::vector<double> Axis::ticks(std::size_t most) const {
  std::vector<double> all;
  if (scale_ == Scale::log) {
    const double decades = std::log10(high_ / low_);
    std::vector<double> within{1};
    if (decades < 2) within = {1, 2, 5};
    if (decades < 1) within = {1, 1.5, 2, 3, 4, 5, 6, 8};
    const double step = std::max(1.0, std::ceil(decades / static_cast<double>(most)));
    const double first = std::floor(std::log10(low_) / step) * step;
    for (double power = first; power <= std::log10(high_) + 1e-9; power += step) {
      for (const double times : within) {
        const double value = times * std::pow(10.0, power);
        if (holds(value)) all.push_back(value);
      }
    }
    while (all.size() > most) {
      std::vector<double> half;
      for (std::size_t i = 0; i < all.size(); i += 2) half.push_back(all[i]);
      all = std::move(half);
    }
    return all;
  }
  double step = round_step((high_ - low_) / static_cast<double>(most));
  if (whole_) step = std::max(step, 1.0);
  for (double value = std::ceil(low_ / step) * step; value <= high_ + step * 1e-9; value += step)
    all.push_back(std::abs(value) < step * 1e-9 ? 0 : value);
  return all;
}

}  // namespace locant::html

// SPDX-License-Identifier: Apache-2.0
// One axis of a chart: which share of its length a value stands at, and where its ticks are.
#pragma once

#include <cstdint>
#include <vector>

namespace locant::html {

enum class Scale : std::uint8_t { linear, log };

class Axis {
 public:
  /// Spans the finite values, on a log scale the positive ones; never empty.
  Axis(Scale scale, const std::vector<double>& values);
  /// [0, 1]; what lies outside, on a log scale all that is not positive, stands at the end.
  [[nodiscard]] double share(double value) const;
  [[nodiscard]] bool holds(double value) const;
  /// At most `most`, ascending.
  [[nodiscard]] std::vector<double> ticks(std::size_t most) const;
  [[nodiscard]] double low() const noexcept { return low_; }
  [[nodiscard]] double high() const noexcept { return high_; }

 private:
  Scale scale_;
  bool whole_ = true;  ///< nothing lies between whole numbers
  double low_ = 0;
  double high_ = 1;
};

}  // namespace locant::html

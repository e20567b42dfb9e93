// SPDX-License-Identifier: Apache-2.0
// Named numbers under each other as bars on one log axis, and one row of cells for the layers of a stack.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/html/chart.h"

namespace locant::html {

struct Rung {
  std::string name{};
  std::optional<double> value{};  ///< none: not known, which `text` says
  std::string text{};             ///< the value in words
  std::string more{};             ///< where it is from; narrow screens have it in the table alone
  bool without_end = false;       ///< the bar goes on
  bool strong = false;            ///< measured, or what counts
};
struct LadderChart {
  std::string title{};
  std::string description{};
  std::string unit{};
  std::vector<Rung> rungs{};
};
void draw(Markup& page, const LadderChart& chart);

/// Cells of a strip that look alike.
struct StripKind {
  std::string name{};
  double height = 1;      ///< share of the strip: kinds are told apart by it
  bool outlined = false;  ///< nothing is there
  std::vector<std::int64_t> layers{};
};
struct Strip {
  std::string title{};
  std::string description{};
  std::int64_t layers = 0;
  std::vector<StripKind> kinds{};
};
void draw(Markup& page, const Strip& strip);

}  // namespace locant::html

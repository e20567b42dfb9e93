// SPDX-License-Identifier: Apache-2.0
// Shares in a grid of rows and columns: each cell is filled from below to its share and says its numbers.
#pragma once

#include <string>
#include <vector>

#include "report/html/chart.h"

namespace locant::html {

struct HeatCell {
  std::size_t row = 0;
  std::size_t column = 0;
  double share = 0;     ///< [0, 1]
  std::string text{};   ///< "7/8"
  std::string small{};  ///< under it: "from 0.53"
  std::string hover{};
};

struct HeatMap {
  std::string title{};
  std::string description{};
  std::string row_label{};
  std::string column_label{};
  std::vector<std::string> rows{};  ///< from above
  std::vector<std::string> columns{};
  std::vector<HeatCell> cells{};
  Table numbers{};
};
void draw(Markup& page, const HeatMap& map);

}  // namespace locant::html

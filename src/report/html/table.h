// SPDX-License-Identifier: Apache-2.0
// A table of words: its first column names the row. Wide ones scroll in a box of their own.
#pragma once

#include <string>
#include <vector>

#include "report/html/markup.h"

namespace locant::html {

struct Table {
  std::string caption{};
  std::vector<std::string> columns{};
  std::vector<std::vector<std::string>> rows{};
  std::string note{};  ///< below the table
};

void write_table(Markup& page, const Table& table);
/// In a closed <details>: the numbers beside a chart.
void write_folded(Markup& page, std::string_view summary, const Table& table);

}  // namespace locant::html

// SPDX-License-Identifier: Apache-2.0
// What a run found, as a table on standard output and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "frame.h"
#include "peer.h"

namespace locant::bench {

/// One thread count.
struct Run {
  int threads = 1;
  std::vector<Rate> rates{};
  std::vector<Result> results{};
  int rows_known = 0;                                          ///< of the table, measured or not
  int rows_kept = 0;                                           ///< not measured: an earlier run has them
  double seconds = 0;                                          ///< wall time
  std::vector<std::pair<std::string, std::string>> peers{};    ///< label and version
  std::vector<std::pair<std::string, std::string>> missing{};  ///< label and reason
};

struct RunInfo {
  std::string target;  ///< in use
  bool forced = false;
  double load_start = -1;
  std::string date;
  std::string flags;      ///< what left rows, peers or time out, as given; "" = nothing
  std::string row_flags;  ///< those of them that a row's numbers depend on
};

void print_head(const RunInfo& info, const Run& run);
void print_row(const Result& result);
void print_foot(const Run& run);
[[nodiscard]] nlohmann::ordered_json json_of(const RunInfo& info, const Result& result);
[[nodiscard]] nlohmann::ordered_json json_of(const RunInfo& info, const std::vector<Run>& runs);

}  // namespace locant::bench

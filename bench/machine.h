// SPDX-License-Identifier: Apache-2.0
// The machine as the operating system names it, for the head of a table and the JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace locant::bench {

struct CacheLevel {
  std::string_view name;         ///< "L1", "L2", "L3", "DRAM"
  std::int64_t bytes = 0;        ///< of one core; of all for L3; 0 for DRAM
  std::int64_t working_set = 0;  ///< that stays in it, of all threads together
};
/// DRAM's working set is four times the last cache.
[[nodiscard]] std::vector<CacheLevel> cache_levels(int threads);

[[nodiscard]] std::string cpu_model();    ///< "AMD EPYC, family 26 model 2"
[[nodiscard]] std::string cpu_slug();     ///< "amd-epyc-26-2": part of a file's name
[[nodiscard]] std::string kernel_name();  ///< "Linux 6.1.0"
[[nodiscard]] std::string date_now();     ///< "2026-08-01T12:00:00Z"
[[nodiscard]] double load_average();      ///< of the last minute; -1 = not known
[[nodiscard]] int cpu_count();

}  // namespace locant::bench

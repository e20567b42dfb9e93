// SPDX-License-Identifier: Apache-2.0
// Counts what a program takes from the heap, and reads what the system says it holds.
#pragma once

#include <cstdint>

namespace locant::bench {

/// Calls of malloc and its kin by any thread so far; -1 where they cannot be counted.
[[nodiscard]] std::int64_t allocations() noexcept;

struct Resident {
  std::int64_t anonymous = 0;  ///< bytes in memory that no file backs
  std::int64_t peak = 0;       ///< the most of them since reset_peak()
};
[[nodiscard]] Resident resident();
void reset_peak();

}  // namespace locant::bench

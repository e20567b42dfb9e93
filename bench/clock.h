// SPDX-License-Identifier: Apache-2.0
// The clock of every time in a row: CPU time of the calling thread where one thread works, which leaves out
// what other programs took; wall time where more do.
#pragma once

#include <ctime>

namespace locant::bench {

[[nodiscard]] inline double now_ns(int threads) noexcept {
  std::timespec at{};
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &at);
  return static_cast<double>(at.tv_sec) * 1e9 + static_cast<double>(at.tv_nsec);
}

}  // namespace locant::bench

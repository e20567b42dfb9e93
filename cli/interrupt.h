// SPDX-License-Identifier: Apache-2.0
// Ctrl-C while something can still be told: the first one asks for an end, the second one is that of any
// program.
#pragma once

#include <atomic>

namespace locant::cli {

/// While it lives, a first SIGINT sets the flag. Only where SIGINT has its default meaning: a process that
/// ignores or handles it itself keeps that. One at a time.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;
  [[nodiscard]] const std::atomic<bool>& flag() const noexcept;
  [[nodiscard]] bool interrupted() const noexcept { return flag().load(std::memory_order_relaxed); }

 private:
  bool watching_ = false;
};

}  // namespace locant::cli

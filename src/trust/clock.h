// SPDX-License-Identifier: Apache-2.0
// The time that a measurement has, what a forward pass costs, and whether the user asked for an end.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>

namespace locant::trust_room {

class Clock {
 public:
  Clock(double budget_s, double spent_s, const std::atomic<bool>* interrupt)
      : budget_s_(budget_s), spent_s_(spent_s), interrupt_(interrupt) {}
  [[nodiscard]] double elapsed() const {
    return spent_s_ + std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  [[nodiscard]] double budget() const noexcept { return budget_s_; }
  [[nodiscard]] bool interrupted() const noexcept {
    return interrupt_ != nullptr && interrupt_->load(std::memory_order_relaxed);
  }
  /// Whether work of `seconds` ends before `share` of the budget does, and nobody asked for an end.
  [[nodiscard]] bool has_time(double seconds, double share) const {
    return !interrupted() && elapsed() + seconds <= share * budget_s_;
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double budget_s_;
  double spent_s_;
  const std::atomic<bool>* interrupt_;
};

/// Seconds of one row by its tokens: what was timed, and between and beyond that a cost a token which grows
/// evenly with the length, as attention makes it.
class Costs {
 public:
  void record(std::int64_t tokens, double seconds_a_row);
  [[nodiscard]] double of(std::int64_t tokens) const;

 private:
  std::map<std::int64_t, double> timed_;  // tokens -> seconds of a row
};

}  // namespace locant::trust_room

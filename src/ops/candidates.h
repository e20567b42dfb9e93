// SPDX-License-Identifier: Apache-2.0
// The best of many logits, held as a heap with the worst of them on top.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "kernels/scan.h"
#include "locant/ops.h"

namespace locant {

[[nodiscard]] inline bool better(const Candidate& a, const Candidate& b) noexcept {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

class BestCandidates {
 public:
  /// The first `held` of the room are a heap already.
  explicit BestCandidates(std::span<Candidate> room, std::size_t held = 0) noexcept
      : room_(room), held_(held) {}
  [[nodiscard]] std::size_t held() const noexcept { return held_; }
  [[nodiscard]] bool full() const noexcept { return held_ == room_.size() && held_ > 0; }
  [[nodiscard]] float worst() const noexcept { return room_[0].logit; }

  /// In any order.
  void offer(const Candidate& one) noexcept {
    if (held_ < room_.size()) {
      push(one);
    } else if (!room_.empty() && better(one, room_[0])) {
      replace(one);
    }
  }
  /// Logits of ids first, first + 1, ..., all behind those offered before; NaN is passed over, and so may be
  /// what is below `floor`.
  void offer(std::int64_t first, const float* x, std::int64_t count,
             float floor = -std::numeric_limits<float>::infinity()) noexcept {
    if (room_.empty()) return;
    const bool all = std::isinf(floor) && floor < 0;
    const float below = std::nextafter(floor, -std::numeric_limits<float>::infinity());
    std::int64_t i = 0;
    for (; i < count && held_ < room_.size(); ++i) {
      if (!all && (i = kernels::first_above(x, count, i, below)) == count) return;
      if (!std::isnan(x[i])) push({first + i, x[i]});
    }
    if (held_ < room_.size()) return;
    // An equal logit behind the worst one has a larger id and loses.
    while ((i = kernels::first_above(x, count, i, std::max(room_[0].logit, below))) < count) {
      replace({first + i, x[i]});
      ++i;
    }
  }
  /// Best first; nothing is offered afterwards.
  void sort() noexcept { std::sort_heap(room_.begin(), end(), better); }

 private:
  [[nodiscard]] std::span<Candidate>::iterator end() const noexcept {
    return room_.begin() + static_cast<std::ptrdiff_t>(held_);
  }
  void push(const Candidate& one) noexcept {
    room_[held_++] = one;
    std::push_heap(room_.begin(), end(), better);
  }
  void replace(const Candidate& one) noexcept {
    std::pop_heap(room_.begin(), end(), better);
    room_[held_ - 1] = one;
    std::push_heap(room_.begin(), end(), better);
  }

  std::span<Candidate> room_;
  std::size_t held_ = 0;
};

}  // namespace locant

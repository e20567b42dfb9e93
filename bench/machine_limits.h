// SPDX-License-Identifier: Apache-2.0
// What the machine can do, measured in the same run: fused multiply-add, read, copy, update in place.
#pragma once

#include <cstdint>
#include <string_view>

#include "locant/threads.h"

namespace locant::bench {

enum class Limit : std::uint8_t { fma, read, copy, in_place };
[[nodiscard]] std::string_view name_of(Limit limit) noexcept;

/// Memory for the limits, touched.
class LimitRoom {
 public:
  explicit LimitRoom(std::int64_t bytes);
  [[nodiscard]] float* data() const noexcept { return buffer_.as<float>(); }
  [[nodiscard]] std::int64_t floats() const noexcept { return floats_; }

 private:
  Buffer buffer_;
  std::int64_t floats_;
};

/// Seconds that `amount` takes at the limit: flop for fma, bytes moved for the others (a copy and an update
/// move each byte twice), on a working set the size of the room, cut evenly over the pool.
[[nodiscard]] double seconds_at_limit(Limit limit, double amount, const LimitRoom& room, ThreadPool& pool);

}  // namespace locant::bench

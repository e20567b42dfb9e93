// SPDX-License-Identifier: Apache-2.0
// What the machine can do, measured in the same run: multiply-adds and dot products fed from registers or the
// first cache, and reading, copying, updating and storing at every level that data can lie in.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "locant/threads.h"

namespace locant::bench {

enum class Limit : std::uint8_t {
  fma,         ///< f32 multiply-adds
  int8_dot,    ///< dot products of bytes: vpdpbusd, or vpmaddubsw where there is none
  bf16_dot,    ///< vdpbf16ps; fma where there is none
  amx_bf16,    ///< tile products with their tile loads from the first cache; bf16_dot where there is no AMX
  amx_int8,    ///< the same of bytes; int8_dot where there is no AMX
  read,        ///< every byte once
  copy,        ///< the better of plain_copy and nt_copy
  in_place,    ///< load, change, store
  store,       ///< the better of plain and non-temporal stores
  plain_copy,  ///< ordinary stores
  nt_copy,     ///< non-temporal stores
  nt_store     ///< non-temporal stores of registers
};
[[nodiscard]] std::string_view name_of(Limit limit) noexcept;
[[nodiscard]] bool is_compute(Limit limit) noexcept;
/// The machine has the instructions, and the target in use allows them.
[[nodiscard]] bool available(Limit limit) noexcept;
/// What is measured in its place: `limit` itself where it is available.
[[nodiscard]] Limit in_place_of(Limit limit) noexcept;

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

/// Seconds that `amount` takes at the limit: operations (two for a multiply-add) for compute, bytes moved for
/// memory (a copy and an update move each byte twice), on a working set the size of the room, cut evenly over
/// the pool. Time is clock.h's.
[[nodiscard]] double seconds_at_limit(Limit limit, double amount, const LimitRoom& room, ThreadPool& pool);

/// A rate of the machine: operations or bytes a second.
struct Rate {
  Limit limit = Limit::fma;
  std::string_view level;  ///< "L1", "L2", "L3", "DRAM"; "" for compute
  std::int64_t bytes = 0;  ///< working set
  double best = 0;
  double median = 0;
};
/// Every available limit at every level, on `pool`'s threads.
[[nodiscard]] std::vector<Rate> machine_rates(ThreadPool& pool);

}  // namespace locant::bench

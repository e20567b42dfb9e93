// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>

#include "clock.h"
#include "kernels/targets.h"
#include "limit_dots.h"
#include "limit_loops.h"
#include "locant/ops.h"
#include "machine.h"
#include "machine_limits.h"

namespace locant::bench {
namespace {

constexpr std::int64_t kRounds = 20000;        // of a compute loop
constexpr std::int64_t kMovedBytes = 1 << 21;  // at least, in one timing of a memory loop
constexpr std::int64_t kFloatsPerLine = 16;
constexpr std::int64_t kFloatsPerPage = 1024;

double compute(Limit limit, float* sink) {
  switch (limit) {
    case Limit::int8_dot:
      if (kernels::has_byte_dots() && dot_support().vpdpbusd) return vpdpbusd_work(kRounds, sink);
      return vpmaddubsw_work(kRounds, sink);
    case Limit::bf16_dot:
      return vdpbf16ps_work(kRounds, sink);
    case Limit::amx_bf16:
      return amx_bf16_work(kRounds / 10, sink);
    case Limit::amx_int8:
      return amx_int8_work(kRounds / 10, sink);
    default:
      return fma_loop(kRounds, sink);
  }
}

// A store that lies a multiple of 4096 bytes behind a load waits for it: the halves are half a page apart.
std::int64_t half_of(std::int64_t part) {
  const std::int64_t half = part / 2 / kFloatsPerLine * kFloatsPerLine;
  return half < 2 * kFloatsPerPage ? half : half / kFloatsPerPage * kFloatsPerPage - kFloatsPerPage / 2;
}

// One pass over a thread's part; bytes moved.
double pass(Limit limit, float* at, std::int64_t part, float* sink) {
  const std::int64_t half = half_of(part);
  switch (limit) {
    case Limit::read:
      read_loop(at, part, sink);
      return static_cast<double>(part) * sizeof(float);
    case Limit::plain_copy:
      copy_loop(at, at + half, half);
      return 2 * static_cast<double>(half) * sizeof(float);
    case Limit::nt_copy:
      nt_copy_loop(at, at + half, half);
      return 2 * static_cast<double>(half) * sizeof(float);
    case Limit::store:
      store_loop(at, part);
      return static_cast<double>(part) * sizeof(float);
    case Limit::nt_store:
      nt_store_loop(at, part);
      return static_cast<double>(part) * sizeof(float);
    default:
      update_loop(at, part);
      return 2 * static_cast<double>(part) * sizeof(float);
  }
}

double seconds_of_one(Limit limit, double amount, const LimitRoom& room, ThreadPool& pool) {
  const std::int64_t pieces = pool.size();
  const std::int64_t part = room.floats() / pieces / kFloatsPerLine * kFloatsPerLine;
  const std::int64_t passes =
      std::max<std::int64_t>(1, kMovedBytes / (part * static_cast<std::int64_t>(sizeof(float))));
  alignas(64) static thread_local float sink = 0;
  double done = 0;
  const double start = now_ns(pool.size());
  pool.run(pieces, [&](std::int64_t piece) {
    double mine = 0;
    if (is_compute(limit)) {
      mine = compute(limit, &sink);
    } else {
      for (std::int64_t i = 0; i < passes; ++i) mine += pass(limit, room.data() + piece * part, part, &sink);
    }
    if (piece == 0) done = mine;
  });
  return (now_ns(pool.size()) - start) / 1e9 * amount / (done * static_cast<double>(pieces));
}

bool avx512_in_use() {
  return std::string_view(cpu_targets().front()).starts_with("AVX3");
}

}  // namespace

std::string_view name_of(Limit limit) noexcept {
  constexpr std::array<std::string_view, 12> kNames{"fma",      "int8 dot",   "bf16 dot", "AMX bf16",
                                                    "AMX int8", "read",       "copy",     "in place",
                                                    "store",    "plain copy", "NT copy",  "NT store"};
  return kNames[static_cast<std::size_t>(limit)];
}

bool is_compute(Limit limit) noexcept {
  return limit <= Limit::amx_int8;
}

bool available(Limit limit) noexcept {
  const DotSupport dots = dot_support();
  switch (limit) {
    case Limit::int8_dot:
      return dots.vpmaddubsw;
    case Limit::bf16_dot:
      return dots.vdpbf16ps && avx512_in_use();
    case Limit::amx_bf16:
      return dots.amx_bf16 && avx512_in_use();
    case Limit::amx_int8:
      return dots.amx_int8 && avx512_in_use();
    default:
      return true;
  }
}

Limit in_place_of(Limit limit) noexcept {
  if (available(limit)) return limit;
  if (limit == Limit::amx_int8) return in_place_of(Limit::int8_dot);
  if (limit == Limit::amx_bf16) return in_place_of(Limit::bf16_dot);
  return Limit::fma;
}

LimitRoom::LimitRoom(std::int64_t bytes)
    : buffer_(static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1 << 14))),
      floats_(static_cast<std::int64_t>(buffer_.bytes() / sizeof(float))) {}

double seconds_at_limit(Limit limit, double amount, const LimitRoom& room, ThreadPool& pool) {
  if (limit == Limit::copy) {
    return std::min(seconds_of_one(Limit::plain_copy, amount, room, pool),
                    seconds_of_one(Limit::nt_copy, amount, room, pool));
  }
  if (limit == Limit::store) {
    return std::min(seconds_of_one(Limit::store, amount, room, pool),
                    seconds_of_one(Limit::nt_store, amount, room, pool));
  }
  return seconds_of_one(in_place_of(limit), amount, room, pool);
}

std::vector<Rate> machine_rates(ThreadPool& pool) {
  constexpr int kTurns = 9;
  std::vector<Rate> rates;
  const auto add = [&](Limit limit, std::string_view level, std::int64_t bytes, const LimitRoom& room) {
    std::vector<double> seen;
    seen.reserve(kTurns);
    for (int i = 0; i < kTurns; ++i) seen.push_back(1 / seconds_of_one(limit, 1, room, pool));
    std::sort(seen.begin(), seen.end());
    rates.push_back({limit, level, bytes, seen.back(), seen[seen.size() / 2]});
  };
  const LimitRoom none(0);
  for (const Limit limit : {Limit::fma, Limit::int8_dot, Limit::bf16_dot, Limit::amx_bf16, Limit::amx_int8}) {
    if (available(limit)) add(limit, "", 0, none);
  }
  for (const CacheLevel& level : cache_levels(pool.size())) {
    const LimitRoom room(level.working_set);
    for (const Limit limit :
         {Limit::read, Limit::nt_copy, Limit::plain_copy, Limit::in_place, Limit::nt_store}) {
      add(limit, level.name, level.working_set, room);
    }
  }
  return rates;
}

}  // namespace locant::bench

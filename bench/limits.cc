// SPDX-License-Identifier: Apache-2.0
#include "machine_limits.h"

#include <algorithm>
#include <chrono>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "limits.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace locant::bench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using F = hn::ScalableTag<float>;

// Ten independent chains hide the latency of two pipes; returns flop done, the sum keeps the work alive.
double fma_work(std::int64_t rounds, float* sink) {
  const F d;
  const auto a = hn::Set(d, 0.999999F);
  const auto b = hn::Set(d, 1e-7F);
  auto x0 = hn::Set(d, 1.0F), x1 = x0, x2 = x0, x3 = x0, x4 = x0, x5 = x0, x6 = x0, x7 = x0, x8 = x0, x9 = x0;
  for (std::int64_t i = 0; i < rounds; ++i) {
    x0 = hn::MulAdd(x0, a, b);
    x1 = hn::MulAdd(x1, a, b);
    x2 = hn::MulAdd(x2, a, b);
    x3 = hn::MulAdd(x3, a, b);
    x4 = hn::MulAdd(x4, a, b);
    x5 = hn::MulAdd(x5, a, b);
    x6 = hn::MulAdd(x6, a, b);
    x7 = hn::MulAdd(x7, a, b);
    x8 = hn::MulAdd(x8, a, b);
    x9 = hn::MulAdd(x9, a, b);
  }
  const auto sum = hn::Add(hn::Add(hn::Add(x0, x1), hn::Add(x2, x3)),
                           hn::Add(hn::Add(x4, x5), hn::Add(hn::Add(x6, x7), hn::Add(x8, x9))));
  *sink = hn::GetLane(sum);
  return static_cast<double>(rounds) * 10 * 2 * static_cast<double>(hn::Lanes(d));
}

void read_work(const float* from, std::int64_t count, float* sink) {
  const F d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto a = hn::Zero(d), b = a, c = a, e = a;
  for (std::int64_t i = 0; i + 4 * lanes <= count; i += 4 * lanes) {
    a = hn::Add(a, hn::LoadU(d, from + i));
    b = hn::Add(b, hn::LoadU(d, from + i + lanes));
    c = hn::Add(c, hn::LoadU(d, from + i + 2 * lanes));
    e = hn::Add(e, hn::LoadU(d, from + i + 3 * lanes));
  }
  *sink = hn::GetLane(hn::Add(hn::Add(a, b), hn::Add(c, e)));
}

void copy_work(const float* from, float* to, std::int64_t count) {
  const F d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i + lanes <= count; i += lanes) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
}

void update_work(float* at, std::int64_t count) {
  const F d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, -1.0F);
  for (std::int64_t i = 0; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, at + i), factor), d, at + i);
  }
}

}  // namespace locant::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace locant::bench {
namespace {

HWY_EXPORT(fma_work);
HWY_EXPORT(read_work);
HWY_EXPORT(copy_work);
HWY_EXPORT(update_work);

constexpr std::int64_t kFmaRounds = 20000;
constexpr std::int64_t kFloatsPerLine = 16;

}  // namespace

std::string_view name_of(Limit limit) noexcept {
  switch (limit) {
    case Limit::fma:
      return "fma";
    case Limit::read:
      return "read";
    case Limit::copy:
      return "copy";
    case Limit::in_place:
      break;
  }
  return "in place";
}

LimitRoom::LimitRoom(std::int64_t bytes)
    : buffer_(static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1 << 14))),
      floats_(static_cast<std::int64_t>(buffer_.bytes() / sizeof(float))) {}

double seconds_at_limit(Limit limit, double amount, const LimitRoom& room, ThreadPool& pool) {
  const std::int64_t pieces = pool.size();
  const std::int64_t part = room.floats() / pieces / kFloatsPerLine * kFloatsPerLine;
  const std::int64_t half = part / 2 / kFloatsPerLine * kFloatsPerLine;
  alignas(64) static thread_local float sink = 0;
  double done = 0;
  const auto start = std::chrono::steady_clock::now();
  if (limit == Limit::fma) {
    double flop = 0;
    pool.run(pieces, [&](std::int64_t piece) {
      const double mine = HWY_DYNAMIC_DISPATCH(fma_work)(kFmaRounds, &sink);
      if (piece == 0) flop = mine;
    });
    done = flop * static_cast<double>(pieces);
  } else {
    pool.run(pieces, [&](std::int64_t piece) {
      float* const at = room.data() + piece * part;
      if (limit == Limit::read) HWY_DYNAMIC_DISPATCH(read_work)(at, part, &sink);
      if (limit == Limit::copy) HWY_DYNAMIC_DISPATCH(copy_work)(at, at + half, half);
      if (limit == Limit::in_place) HWY_DYNAMIC_DISPATCH(update_work)(at, part);
    });
    const std::int64_t moved = limit == Limit::read ? part : limit == Limit::copy ? 2 * half : 2 * part;
    done = static_cast<double>(moved * pieces) * sizeof(float);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return took.count() * amount / done;
}

}  // namespace locant::bench
#endif

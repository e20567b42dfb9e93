// SPDX-License-Identifier: Apache-2.0
#include "limit_loops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "limit_loops.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace locant::bench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using F = hn::ScalableTag<float>;

// Ten independent chains hide the latency of two pipes; the sum keeps the work alive.
double fma_work(std::int64_t rounds, float* sink) {
  const F d;
  const auto a = hn::Set(d, 0.999999F);
  const auto b = hn::Set(d, 1e-7F);
  // Each chain has a start of its own: equal ones would be one to the compiler.
  const auto start = [&](int chain) HWY_ATTR { return hn::Set(d, 1.0F + static_cast<float>(chain) / 16); };
  auto x0 = start(0), x1 = start(1), x2 = start(2), x3 = start(3), x4 = start(4);
  auto x5 = start(5), x6 = start(6), x7 = start(7), x8 = start(8), x9 = start(9);
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
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  for (std::int64_t i = 0; i + 8 * lanes <= count; i += 8 * lanes) {
    s0 = hn::Add(s0, hn::Load(d, from + i));
    s1 = hn::Add(s1, hn::Load(d, from + i + lanes));
    s2 = hn::Add(s2, hn::Load(d, from + i + 2 * lanes));
    s3 = hn::Add(s3, hn::Load(d, from + i + 3 * lanes));
    s4 = hn::Add(s4, hn::Load(d, from + i + 4 * lanes));
    s5 = hn::Add(s5, hn::Load(d, from + i + 5 * lanes));
    s6 = hn::Add(s6, hn::Load(d, from + i + 6 * lanes));
    s7 = hn::Add(s7, hn::Load(d, from + i + 7 * lanes));
  }
  *sink = hn::GetLane(
      hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), hn::Add(hn::Add(s4, s5), hn::Add(s6, s7))));
}

void copy_work(const float* from, float* to, std::int64_t count) {
  const F d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i + 4 * lanes <= count; i += 4 * lanes) {
    hn::Store(hn::Load(d, from + i), d, to + i);
    hn::Store(hn::Load(d, from + i + lanes), d, to + i + lanes);
    hn::Store(hn::Load(d, from + i + 2 * lanes), d, to + i + 2 * lanes);
    hn::Store(hn::Load(d, from + i + 3 * lanes), d, to + i + 3 * lanes);
  }
}

void nt_copy_work(const float* from, float* to, std::int64_t count) {
  const F d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i + 4 * lanes <= count; i += 4 * lanes) {
    hn::Stream(hn::Load(d, from + i), d, to + i);
    hn::Stream(hn::Load(d, from + i + lanes), d, to + i + lanes);
    hn::Stream(hn::Load(d, from + i + 2 * lanes), d, to + i + 2 * lanes);
    hn::Stream(hn::Load(d, from + i + 3 * lanes), d, to + i + 3 * lanes);
  }
  hwy::FlushStream();
}

void update_work(float* at, std::int64_t count) {
  const F d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, -1.0F);
  for (std::int64_t i = 0; i + 4 * lanes <= count; i += 4 * lanes) {
    const auto a = hn::Mul(hn::Load(d, at + i), factor), b = hn::Mul(hn::Load(d, at + i + lanes), factor);
    const auto c = hn::Mul(hn::Load(d, at + i + 2 * lanes), factor);
    const auto e = hn::Mul(hn::Load(d, at + i + 3 * lanes), factor);
    hn::Store(a, d, at + i);
    hn::Store(b, d, at + i + lanes);
    hn::Store(c, d, at + i + 2 * lanes);
    hn::Store(e, d, at + i + 3 * lanes);
  }
}

void store_work(float* at, std::int64_t count) {
  const F d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto value = hn::Set(d, 0.5F);
  for (std::int64_t i = 0; i + lanes <= count; i += lanes) hn::Store(value, d, at + i);
}

void nt_store_work(float* at, std::int64_t count) {
  const F d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto value = hn::Set(d, 0.5F);
  for (std::int64_t i = 0; i + lanes <= count; i += lanes) hn::Stream(value, d, at + i);
  hwy::FlushStream();
}

}  // namespace locant::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace locant::bench {
namespace {

HWY_EXPORT(fma_work);
HWY_EXPORT(read_work);
HWY_EXPORT(copy_work);
HWY_EXPORT(nt_copy_work);
HWY_EXPORT(update_work);
HWY_EXPORT(store_work);
HWY_EXPORT(nt_store_work);

}  // namespace

double fma_loop(std::int64_t rounds, float* sink) {
  return HWY_DYNAMIC_DISPATCH(fma_work)(rounds, sink);
}
void read_loop(const float* from, std::int64_t count, float* sink) {
  HWY_DYNAMIC_DISPATCH(read_work)(from, count, sink);
}
void copy_loop(const float* from, float* to, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(copy_work)(from, to, count);
}
void nt_copy_loop(const float* from, float* to, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(nt_copy_work)(from, to, count);
}
void update_loop(float* at, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(update_work)(at, count);
}
void store_loop(float* at, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(store_work)(at, count);
}
void nt_store_loop(float* at, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(nt_store_work)(at, count);
}

}  // namespace locant::bench
#endif

// SPDX-License-Identifier: Apache-2.0
// RMS norm (Zhang and Sennrich 2019) and layer norm (Ba et al. 2016) of one row. Sums are f64: squares of
// f32 are exact there, so a row of any length keeps f32 accuracy.
#include "kernels/normalize.h"

#include <cmath>

#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/normalize.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

using W = hn::ScalableTag<double>;
using Wide = hn::Vec<W>;
inline constexpr std::size_t kWide = hn::MaxLanes(W());

HWY_INLINE Wide widen(const float* p) {
  const W dw;
  const hn::Rebind<float, W> d;
  return hn::PromoteTo(dw, hn::LoadU(d, p));
}

HWY_INLINE double total(Wide v) {
  return hn::GetLane(hn::SumOfLanes(W(), v));
}

HWY_INLINE double sum(const float* x, std::size_t n) {
  const W dw;
  Wide acc0 = hn::Zero(dw);
  Wide acc1 = hn::Zero(dw);
  std::size_t i = 0;
  for (; i + 2 * kWide <= n; i += 2 * kWide) {
    acc0 = hn::Add(acc0, widen(x + i));
    acc1 = hn::Add(acc1, widen(x + i + kWide));
  }
  double s = total(hn::Add(acc0, acc1));
  for (; i < n; ++i) s += static_cast<double>(x[i]);
  return s;
}

HWY_INLINE double sum_squares(const float* x, std::size_t n, double center) {
  const W dw;
  const Wide c = hn::Set(dw, center);
  Wide acc0 = hn::Zero(dw);
  Wide acc1 = hn::Zero(dw);
  std::size_t i = 0;
  for (; i + 2 * kWide <= n; i += 2 * kWide) {
    const Wide a = hn::Sub(widen(x + i), c);
    const Wide b = hn::Sub(widen(x + i + kWide), c);
    acc0 = hn::MulAdd(a, a, acc0);
    acc1 = hn::MulAdd(b, b, acc1);
  }
  double s = total(hn::Add(acc0, acc1));
  for (; i < n; ++i) {
    const double a = static_cast<double>(x[i]) - center;
    s += a * a;
  }
  return s;
}

HWY_INLINE void finish(const NormRow& row, float center, float factor) {
  const F d;
  const V c = hn::Set(d, center);
  const V f = hn::Set(d, factor);
  const std::size_t n = index(row.count);
  for (std::size_t i = 0; i < n; i += kLanes) {
    const std::size_t live = n - i;
    const bool whole = live >= kLanes;
    const V x = whole ? hn::LoadU(d, row.x + i) : load_n(d, row.x + i, live);
    V y = hn::Mul(hn::Sub(x, c), f);
    if (row.gain != nullptr) {
      y = hn::Mul(y, whole ? hn::LoadU(d, row.gain + i) : load_n(d, row.gain + i, live));
    }
    if (row.bias != nullptr) {
      y = hn::Add(y, whole ? hn::LoadU(d, row.bias + i) : load_n(d, row.bias + i, live));
    }
    if (whole) {
      hn::StoreU(y, d, row.out + i);
    } else {
      store_n(d, y, row.out + i, live);
    }
  }
}

void RmsNorm(const NormRow& row) {
  const auto n = static_cast<double>(row.count);
  const double mean_square = sum_squares(row.x, index(row.count), 0) / n;
  finish(row, 0, static_cast<float>(1 / std::sqrt(mean_square + row.eps)));
}

void LayerNorm(const NormRow& row) {
  const auto n = static_cast<double>(row.count);
  const double mean = sum(row.x, index(row.count)) / n;
  const double variance = sum_squares(row.x, index(row.count), mean) / n;
  finish(row, static_cast<float>(mean), static_cast<float>(1 / std::sqrt(variance + row.eps)));
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace locant::kernels {
HWY_EXPORT(RmsNorm);
HWY_EXPORT(LayerNorm);
void rms_norm(const NormRow& row) noexcept {
  HWY_DYNAMIC_DISPATCH(RmsNorm)(row);
}
void layer_norm(const NormRow& row) noexcept {
  HWY_DYNAMIC_DISPATCH(LayerNorm)(row);
}
}  // namespace locant::kernels
#endif

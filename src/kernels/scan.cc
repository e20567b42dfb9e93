// SPDX-License-Identifier: Apache-2.0
// Passes behind the head: maximum, sum of exponentials in f64, next element above a threshold, first element
// whose exponent bits are all ones.
#include "kernels/scan.h"

#include <limits>

#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/scan.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

float Maximum(const float* x, std::int64_t count) {
  const F d;
  const float none = -std::numeric_limits<float>::infinity();
  V top = hn::Set(d, none);
  const std::size_t n = index(count);
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const V v = hn::LoadU(d, x + i);
    top = hn::IfThenElse(hn::Gt(v, top), v, top);
  }
  float best = max_of_lanes(top);
  for (; i < n; ++i) best = x[i] > best ? x[i] : best;
  return best;
}

double SumExp(const float* x, std::int64_t count, float shift) {
  const hn::Repartition<double, F> dw;
  const std::size_t n = index(count);
  double sum = 0;
  auto acc0 = hn::Zero(dw);
  auto acc1 = hn::Zero(dw);
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const F d;
  const V s = hn::Set(d, shift);
  const hn::Half<F> dh;
  for (; i + kLanes <= n; i += kLanes) {
    const V e = exp(d, hn::Sub(hn::LoadU(d, x + i), s));
    acc0 = hn::Add(acc0, hn::PromoteTo(dw, hn::LowerHalf(dh, e)));
    acc1 = hn::Add(acc1, hn::PromoteTo(dw, hn::UpperHalf(dh, e)));
  }
#endif
  sum = hn::GetLane(hn::SumOfLanes(dw, hn::Add(acc0, acc1)));
  const hn::CappedTag<float, 1> d1;
  for (; i < n; ++i) sum += static_cast<double>(hn::GetLane(exp(d1, hn::Set(d1, x[i] - shift))));
  return sum;
}

std::int64_t FirstAbove(const float* x, std::int64_t count, std::int64_t from, float threshold) {
  const F d;
  const V t = hn::Set(d, threshold);
  const auto step = static_cast<std::int64_t>(kLanes);
  std::int64_t i = from;
  for (; i + step <= count; i += step) {
    const auto above = hn::Gt(hn::LoadU(d, x + i), t);
    if (!hn::AllFalse(d, above)) break;
  }
  for (; i < count; ++i) {
    if (x[i] > threshold) return i;
  }
  return count;
}

// Elements as unsigned integers U; `exponent` has the exponent bits.
template <class U>
HWY_INLINE std::int64_t first_all_ones(const U* x, std::int64_t count, U exponent) {
  const hn::ScalableTag<U> d;
  const auto mask = hn::Set(d, exponent);
  const auto step = static_cast<std::int64_t>(hn::MaxLanes(d));
  std::int64_t i = 0;
  for (; i + step <= count; i += step) {
    if (!hn::AllFalse(d, hn::Eq(hn::And(hn::LoadU(d, x + i), mask), mask))) break;
  }
  for (; i < count; ++i) {
    U bits;
    std::memcpy(&bits, x + i, sizeof bits);
    if ((bits & exponent) == exponent) return i;
  }
  return count;
}

std::int64_t FirstNonFinite(const void* x, DType dtype, std::int64_t count) {
  switch (dtype) {
    case DType::f64:
      return first_all_ones(static_cast<const std::uint64_t*>(x), count, std::uint64_t{0x7FF0000000000000u});
    case DType::f32:
      return first_all_ones(static_cast<const std::uint32_t*>(x), count, std::uint32_t{0x7F800000u});
    case DType::f16:
      return first_all_ones(static_cast<const std::uint16_t*>(x), count, std::uint16_t{0x7C00u});
    default:
      return first_all_ones(static_cast<const std::uint16_t*>(x), count, std::uint16_t{0x7F80u});
  }
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace locant::kernels {
HWY_EXPORT(Maximum);
HWY_EXPORT(SumExp);
HWY_EXPORT(FirstAbove);
HWY_EXPORT(FirstNonFinite);
float maximum(const float* x, std::int64_t count) noexcept {
  return HWY_DYNAMIC_DISPATCH(Maximum)(x, count);
}
double sum_exp(const float* x, std::int64_t count, float shift) noexcept {
  return HWY_DYNAMIC_DISPATCH(SumExp)(x, count, shift);
}
std::int64_t first_above(const float* x, std::int64_t count, std::int64_t from, float threshold) noexcept {
  return HWY_DYNAMIC_DISPATCH(FirstAbove)(x, count, from, threshold);
}
std::int64_t first_non_finite(const void* x, DType dtype, std::int64_t count) noexcept {
  return HWY_DYNAMIC_DISPATCH(FirstNonFinite)(x, dtype, count);
}
}  // namespace locant::kernels
#endif

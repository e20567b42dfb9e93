// SPDX-License-Identifier: Apache-2.0
// out + s x, s x, min(max(x, -l), l) and c tanh(x / c) over one row.
#include "kernels/elements.h"

#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elements.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

// out[i] = f(x[i], what stood in out[i]).
template <class Function>
HWY_INLINE void each(const float* x, std::int64_t count, float* out, Function f) {
  const F d;
  const std::size_t n = index(count);
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(f(hn::LoadU(d, x + i), hn::LoadU(d, out + i)), d, out + i);
  if (i < n) store_n(d, f(load_n(d, x + i, n - i), load_n(d, out + i, n - i)), out + i, n - i);
}

void AddScaled(const float* x, float scale, std::int64_t count, float* out) {
  const V factor = hn::Set(F(), scale);
  each(x, count, out, [factor](V v, V old) HWY_ATTR { return hn::Add(old, hn::Mul(v, factor)); });
}

void Scale(const float* x, float factor, std::int64_t count, float* out) {
  const V by = hn::Set(F(), factor);
  each(x, count, out, [by](V v, V) HWY_ATTR { return hn::Mul(v, by); });
}

void Clamp(const float* x, float limit, std::int64_t count, float* out) {
  const V high = hn::Set(F(), limit);
  const V low = hn::Set(F(), -limit);
  each(x, count, out, [high, low](V v, V) HWY_ATTR {
    const V below = hn::IfThenElse(hn::Gt(v, high), high, v);
    return hn::IfThenElse(hn::Lt(below, low), low, below);
  });
}

void Softcap(const float* x, float cap, std::int64_t count, float* out) {
  const float inverse = 1 / cap;
  each(x, count, out, [cap, inverse](V v, V) HWY_ATTR { return softcap(F(), v, cap, inverse); });
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace locant::kernels {
HWY_EXPORT(AddScaled);
HWY_EXPORT(Scale);
HWY_EXPORT(Clamp);
HWY_EXPORT(Softcap);
void add_scaled(const float* x, float scale, std::int64_t count, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(AddScaled)(x, scale, count, out);
}
void scale(const float* x, float factor, std::int64_t count, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(Scale)(x, factor, count, out);
}
void clamp(const float* x, float limit, std::int64_t count, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(Clamp)(x, limit, count, out);
}
void softcap(const float* x, float cap, std::int64_t count, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(Softcap)(x, cap, count, out);
}
}  // namespace locant::kernels
#endif

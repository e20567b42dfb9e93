// SPDX-License-Identifier: Apache-2.0
// silu(x) = x / (1 + e^-x); gelu_erf(x) = x/2 (1 + erf(x / sqrt 2)); gelu_tanh(x) = x / (1 + e^-2u) with
// u = sqrt(2/pi) (x + 0.044715 x^3), which equals x/2 (1 + tanh u); relu(x) = max(x, 0), and its square;
// quick_gelu(x) = x / (1 + e^-1.702x); tanh. NaN stays NaN.
#include "kernels/activate.h"

#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/activate.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

HWY_INLINE V horner(F d, V x, V high, const float* low, int count) {
  V p = high;
  for (int i = count; i-- > 0;) p = hn::MulAdd(p, x, hn::Set(d, low[i]));
  return p;
}

// Absolute error below 1.2e-7. |t| < 1: t P(t^2); to 4: 1 - exp(-Q(t)); beyond, 1 to f32 accuracy.
// P and Q are fits on Chebyshev nodes to erf(t)/t and -ln erfc(t).
HWY_INLINE V erf(F d, V t) {
  constexpr float kNear[] = {1.1283791f,    -0.37612626f, 0.11283597f,
                             -0.026854329f, 0.005189312f, -0.0008018855f};
  constexpr float kFar[] = {-0.00030321296f, 1.1301666f,    0.6319371f,      0.10997824f,
                            -0.026364718f,   0.0047402224f, -0.00059276953f, 4.5590623e-05f};
  const V one = hn::Set(d, 1.0f);
  const V a = hn::Abs(t);
  const V near = hn::Mul(t, horner(d, hn::Mul(t, t), hn::Set(d, 7.8824974e-05f), kNear, 6));
  const V b = hn::Min(a, hn::Set(d, 4.0f));
  const V q = horner(d, b, hn::Set(d, -1.6140616e-06f), kFar, 8);
  const V far = hn::CopySign(hn::Sub(one, exp(d, hn::Neg(q))), t);
  return hn::IfThenElse(hn::Ge(a, one), far, near);
}

HWY_INLINE V logistic(F d, V x, V u) {
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), exp(d, hn::Neg(u))));
}

template <Curve kCurve>
HWY_INLINE V value(F d, V x) {
  if constexpr (kCurve == Curve::silu) {
    return logistic(d, x, x);
  } else if constexpr (kCurve == Curve::gelu_erf) {
    const V half = hn::Mul(x, hn::Set(d, 0.5f));
    return hn::MulAdd(half, erf(d, hn::Mul(x, hn::Set(d, 0.70710678f))), half);
  } else if constexpr (kCurve == Curve::gelu_tanh) {
    const V cubic = hn::MulAdd(hn::Mul(hn::Mul(x, x), x), hn::Set(d, 0.044715f), x);
    return logistic(d, x, hn::Mul(cubic, hn::Set(d, 1.59576912f)));
  } else if constexpr (kCurve == Curve::quick_gelu) {
    return logistic(d, x, hn::Mul(x, hn::Set(d, 1.702f)));
  } else if constexpr (kCurve == Curve::tanh) {
    return tanh(d, x);
  } else {
    const V kept = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Zero(d), x);
    return kCurve == Curve::relu_squared ? hn::Mul(kept, kept) : kept;
  }
}

template <Curve kCurve>
HWY_INLINE void curve_row(const float* x, const float* up, std::size_t n, float* out) {
  const F d;
  for (std::size_t i = 0; i < n; i += kLanes) {
    const std::size_t live = n - i;
    const bool whole = live >= kLanes;
    V y = value<kCurve>(d, whole ? hn::LoadU(d, x + i) : load_n(d, x + i, live));
    if (up != nullptr) y = hn::Mul(y, whole ? hn::LoadU(d, up + i) : load_n(d, up + i, live));
    if (whole) {
      hn::StoreU(y, d, out + i);
    } else {
      store_n(d, y, out + i, live);
    }
  }
}

void Activate(Curve curve, const float* x, const float* up, std::int64_t count, float* out) {
  switch (curve) {
    case Curve::silu:
      return curve_row<Curve::silu>(x, up, index(count), out);
    case Curve::gelu_erf:
      return curve_row<Curve::gelu_erf>(x, up, index(count), out);
    case Curve::gelu_tanh:
      return curve_row<Curve::gelu_tanh>(x, up, index(count), out);
    case Curve::relu:
      return curve_row<Curve::relu>(x, up, index(count), out);
    case Curve::relu_squared:
      return curve_row<Curve::relu_squared>(x, up, index(count), out);
    case Curve::quick_gelu:
      return curve_row<Curve::quick_gelu>(x, up, index(count), out);
    case Curve::tanh:
      return curve_row<Curve::tanh>(x, up, index(count), out);
  }
}

void ClampedSwiglu(const float* x, const float* up, float limit, std::int64_t count, float* out) {
  const F d;
  const V high = hn::Set(d, limit);
  const V low = hn::Set(d, -limit);
  const std::size_t n = index(count);
  for (std::size_t i = 0; i < n; i += kLanes) {
    const std::size_t live = n - i;
    const bool whole = live >= kLanes;
    V g = whole ? hn::LoadU(d, x + i) : load_n(d, x + i, live);
    V u = whole ? hn::LoadU(d, up + i) : load_n(d, up + i, live);
    // Comparisons leave NaN as it is.
    g = hn::IfThenElse(hn::Gt(g, high), high, g);
    u = hn::IfThenElse(hn::Gt(u, high), high, u);
    u = hn::IfThenElse(hn::Lt(u, low), low, u);
    const V y = hn::Mul(hn::Add(u, hn::Set(d, 1.0f)), logistic(d, g, hn::Mul(g, hn::Set(d, 1.702f))));
    if (whole) {
      hn::StoreU(y, d, out + i);
    } else {
      store_n(d, y, out + i, live);
    }
  }
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace locant::kernels {
HWY_EXPORT(Activate);
HWY_EXPORT(ClampedSwiglu);
void activate(Curve curve, const float* x, const float* up, std::int64_t count, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(Activate)(curve, x, up, count, out);
}
void clamped_swiglu(const float* x, const float* up, float limit, std::int64_t count, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(ClampedSwiglu)(x, up, limit, count, out);
}
}  // namespace locant::kernels
#endif

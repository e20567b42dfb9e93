// SPDX-License-Identifier: Apache-2.0
// What several kernels share, once per instruction set: loads and stores of f32, f16 and bf16 with tails
// that never touch a byte outside, a four-vector sum of fixed order, and exp.
#if defined(LOCANT_KERNELS_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_LANES_INL_H_
#undef LOCANT_KERNELS_LANES_INL_H_
#else
#define LOCANT_KERNELS_LANES_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "hwy/highway.h"
#include "locant/core.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using F = hn::ScalableTag<float>;
using V = hn::Vec<F>;
inline constexpr std::size_t kLanes = hn::MaxLanes(F());

template <class D>
using VecOf = hn::Vec<D>;

HWY_INLINE std::size_t index(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

// ---- bits of 16-bit floats, one per u32 lane

template <class D>
HWY_INLINE VecOf<D> from_half_bits(D d, VecOf<hn::RebindToUnsigned<D>> bits) {
  const hn::RebindToUnsigned<D> du;
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000u)));
  const auto magnitude = hn::ShiftLeft<13>(hn::And(bits, hn::Set(du, 0x7FFFu)));
  // 2^112 moves the exponent bias from 15 to 127 and makes subnormals normal, exactly.
  const auto scaled =
      hn::BitCast(du, hn::Mul(hn::BitCast(d, magnitude), hn::BitCast(d, hn::Set(du, 0x77800000u))));
  const hn::RebindToSigned<D> di;
  const auto special = hn::Gt(hn::BitCast(di, magnitude), hn::Set(di, 0x0F7FFFFF));  // infinity and NaN
  const auto all_ones = hn::IfThenElseZero(hn::RebindMask(du, special), hn::Set(du, 0x7F800000u));
  return hn::BitCast(d, hn::Or(sign, hn::Or(scaled, all_ones)));
}

template <class D>
HWY_INLINE VecOf<hn::RebindToSigned<D>> to_half_bits(D d, VecOf<D> x) {
  const hn::RebindToSigned<D> di;
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, x);
  const auto sign = hn::And(bits, hn::Set(du, 0x80000000u));
  const auto a = hn::Xor(bits, sign);
  const auto ai = hn::BitCast(di, a);
  const auto odd = hn::And(hn::ShiftRight<13>(a), hn::Set(du, 1u));
  const auto normal = hn::ShiftRight<13>(hn::Add(hn::Add(a, hn::Set(du, 0xC8000FFFu)), odd));
  // Adding 1/2 leaves the subnormal's digits at the bottom of the sum, rounded to nearest even.
  const auto half = hn::Set(d, 0.5f);
  const auto small = hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(d, a), half)), hn::BitCast(du, half));
  const auto huge =
      hn::IfThenElse(hn::Gt(ai, hn::Set(di, 0x7F800000)), hn::Set(di, 0x7E00), hn::Set(di, 0x7C00));
  auto r =
      hn::IfThenElse(hn::Lt(ai, hn::Set(di, 0x38800000)), hn::BitCast(di, small), hn::BitCast(di, normal));
  r = hn::IfThenElse(hn::Gt(ai, hn::Set(di, 0x477FFFFF)), huge, r);
  return hn::Or(r, hn::BitCast(di, hn::ShiftRight<16>(sign)));
}

template <class D>
HWY_INLINE VecOf<hn::RebindToSigned<D>> to_bfloat_bits(D /*d*/, VecOf<D> x) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7FFFu)), odd);
  const auto quiet = hn::Or(bits, hn::Set(du, 0x00400000u));
  const auto r = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(x)), quiet, rounded);
  return hn::BitCast(hn::RebindToSigned<D>(), hn::ShiftRight<16>(r));
}

// ---- whole vectors; pointers may be unaligned

template <class D>
HWY_INLINE VecOf<D> load(D d, const float* p) {
  return hn::LoadU(d, p);
}
template <class D>
HWY_INLINE VecOf<D> load(D d, const Half* p) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  const hn::Rebind<hwy::float16_t, D> dh;
  return hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(p)));
#else
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<std::uint16_t, D> d16;
  return from_half_bits(d, hn::PromoteTo(du, hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(p))));
#endif
}
template <class D>
HWY_INLINE VecOf<D> load(D d, const BFloat16* p) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<std::uint16_t, D> d16;
  const auto bits = hn::PromoteTo(du, hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(p)));
  return hn::BitCast(d, hn::ShiftLeft<16>(bits));
}

template <class D>
HWY_INLINE VecOf<D> load(D d, const std::int8_t* p) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<std::int8_t, D> d8;
  return hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d8, p)));
}

template <class D>
HWY_INLINE void store(D d, VecOf<D> v, float* p) {
  hn::StoreU(v, d, p);
}
template <class D>
HWY_INLINE void store(D d, VecOf<D> v, Half* p) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  const hn::Rebind<hwy::float16_t, D> dh;
  hn::StoreU(hn::DemoteTo(dh, v), dh, reinterpret_cast<hwy::float16_t*>(p));
#else
  const hn::Rebind<std::uint16_t, D> d16;
  hn::StoreU(hn::DemoteTo(d16, to_half_bits(d, v)), d16, reinterpret_cast<std::uint16_t*>(p));
#endif
}
template <class D>
HWY_INLINE void store(D d, VecOf<D> v, BFloat16* p) {
  const hn::Rebind<std::uint16_t, D> d16;
  hn::StoreU(hn::DemoteTo(d16, to_bfloat_bits(d, v)), d16, reinterpret_cast<std::uint16_t*>(p));
}

// ---- the first n < lanes elements; other lanes are zero, other memory is not touched

template <class D, class T>
HWY_INLINE VecOf<D> load_n(D d, const T* p, std::size_t n) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  if constexpr (std::is_same_v<T, float>) return hn::MaskedLoad(hn::FirstN(d, n), d, p);
#endif
  T part[kLanes] = {};
  std::memcpy(part, p, n * sizeof(T));
  return load(d, part);
}

template <class D, class T>
HWY_INLINE void store_n(D d, VecOf<D> v, T* p, std::size_t n) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  if constexpr (std::is_same_v<T, float>) {
    hn::BlendedStore(v, hn::FirstN(d, n), d, p);
    return;
  }
#endif
  T part[kLanes];
  store(d, v, part);
  std::memcpy(p, part, n * sizeof(T));
}

// ---- sums

#if HWY_TARGET != HWY_SCALAR
// Lane i of each 128-bit part = the lanes of that part of v[i], joined by `join`.
template <class D, class Join>
HWY_INLINE VecOf<D> join4(D d, const VecOf<D>* v, Join join) {
  const hn::Repartition<std::uint64_t, D> d64;
  const auto ab = join(hn::InterleaveLower(d, v[0], v[1]), hn::InterleaveUpper(d, v[0], v[1]));
  const auto ce = join(hn::InterleaveLower(d, v[2], v[3]), hn::InterleaveUpper(d, v[2], v[3]));
  const auto low = hn::InterleaveLower(d64, hn::BitCast(d64, ab), hn::BitCast(d64, ce));
  const auto high = hn::InterleaveUpper(d64, hn::BitCast(d64, ab), hn::BitCast(d64, ce));
  return join(hn::BitCast(d, low), hn::BitCast(d, high));
}
// The first 128-bit part = all parts joined, halves first.
template <class D, class Join>
HWY_INLINE hn::Vec<hn::CappedTag<hn::TFromD<D>, 4>> join_parts_of([[maybe_unused]] D d, VecOf<D> v,
                                                                  Join join) {
  if constexpr (hn::MaxLanes(D()) > 4) {
    const hn::Half<D> half;
    return join_parts_of(half, join(hn::LowerHalf(half, v), hn::UpperHalf(half, v)), join);
  } else {
    return v;
  }
}
#endif

// out[i] = the lanes of the i-th vector, joined by `join`. The order is the same for each and never depends
// on the neighbours: lanes {0,2} + {1,3} of every 128-bit part, then halves.
template <class D, class Join>
HWY_INLINE void fold4([[maybe_unused]] D d, const VecOf<D>* v, hn::TFromD<D>* out,
                      [[maybe_unused]] Join join) {
#if HWY_TARGET == HWY_SCALAR
  for (int i = 0; i < 4; ++i) out[i] = hn::GetLane(v[i]);
#else
  hn::StoreU(join_parts_of(d, join4(d, v, join), join), hn::CappedTag<hn::TFromD<D>, 4>(), out);
#endif
}
HWY_INLINE void sum4(V a, V b, V c, V e, float* out) {
  const V four[4] = {a, b, c, e};
  fold4(F(), four, out, [](auto x, auto y) HWY_ATTR { return hn::Add(x, y); });
}

// The largest lane; -inf when all are (the emulated target's MaxOfLanes answers the lowest finite value).
HWY_INLINE float max_of_lanes(V v) {
#if HWY_TARGET == HWY_EMU128
  float lane[kLanes];
  hn::StoreU(v, F(), lane);
  float top = lane[0];
  for (std::size_t i = 1; i < kLanes; ++i) top = lane[i] > top ? lane[i] : top;
  return top;
#else
  return hn::GetLane(hn::MaxOfLanes(F(), v));
#endif
}

// e^(x - n ln 2) for the whole number n nearest to x / ln 2. With r = x - n ln 2, |r| <= ln(2)/2:
// e^r - 1 - r = r^2 q(r) with q of degree 4.
template <class D>
HWY_INLINE VecOf<D> exp_rest(D d, VecOf<D> x, VecOf<D> n) {
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);  // 9 bits: the product is exact
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  auto q = hn::MulAdd(hn::Set(d, 0.0013933651f), r, hn::Set(d, 0.00836318f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.041666467f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.16666576f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.5f));
  return hn::Add(hn::MulAdd(hn::Mul(r, r), q, r), hn::Set(d, 1.0f));
}

// ---- exp: relative error below 1.2e-7 in [-87.3, 88.3]; 0 below, infinity above, NaN stays NaN.
template <class D>
HWY_INLINE VecOf<D> exp(D d, VecOf<D> x) {
  const hn::RebindToSigned<D> di;
  const auto n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504f)));
  const auto power = hn::ShiftLeft<23>(hn::Add(hn::NearestInt(n), hn::Set(di, 127)));
  const auto y = hn::Mul(exp_rest(d, x, n), hn::BitCast(d, power));
  const auto big = hn::IfThenElse(hn::Gt(x, hn::Set(d, 88.3f)), hn::Inf(d), y);
  return hn::IfThenElse(hn::Lt(x, hn::Set(d, -87.3f)), hn::Zero(d), big);
}

// ---- tanh: relative error below 3e-7; +-1 far out, NaN stays NaN.
// |x| < 0.625: x + x^3 P(x^2), a fit on Chebyshev nodes; beyond, 1 - 2 / (1 + e^2|x|) with the sign of x.
template <class D>
HWY_INLINE VecOf<D> tanh(D d, VecOf<D> x) {
  const auto one = hn::Set(d, 1.0f);
  const auto a = hn::Abs(x);
  const auto s = hn::Mul(x, x);
  auto p = hn::MulAdd(hn::Set(d, 0.00202647923f), s, hn::Set(d, -0.00804702472f));
  p = hn::MulAdd(p, s, hn::Set(d, 0.0216467474f));
  p = hn::MulAdd(p, s, hn::Set(d, -0.0539366975f));
  p = hn::MulAdd(p, s, hn::Set(d, 0.133331239f));
  p = hn::MulAdd(p, s, hn::Set(d, -0.333333284f));
  const auto near = hn::MulAdd(hn::Mul(s, x), p, x);
  const auto far = hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(one, exp(d, hn::Add(a, a)))));
  return hn::IfThenElse(hn::Ge(a, hn::Set(d, 0.625f)), hn::CopySign(far, x), near);
}

// cap tanh(x / cap), given 1 / cap.
template <class D>
HWY_INLINE VecOf<D> softcap(D d, VecOf<D> x, float cap, float inverse) {
  return hn::Mul(hn::Set(d, cap), tanh(d, hn::Mul(x, hn::Set(d, inverse))));
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

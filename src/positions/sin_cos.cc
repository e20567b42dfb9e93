// SPDX-License-Identifier: Apache-2.0
// angle = k pi/2 + r + rest, |r| <= pi/4, by three parts of pi/2 whose products with k are exact (|angle| <
// 2^25); sin and cos of r are the polynomials of degree 13 and 14 of Sun's fdlibm. Each value is within
// 2^-50 of itself above 2^-30, as std::sin and std::cos are, so the two round to the same f32 unless a middle
// between two f32 lies within 16 ulp: such angles, rare ones, and those outside the range go to the library
// (Ziv 1991).
#include "positions/sin_cos.h"

#include <cmath>

#define HWY_DISABLED_TARGETS \
  (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "positions/sin_cos.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace locant::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;
using Whole = hn::RebindToUnsigned<D>;
using VWhole = hn::Vec<Whole>;

HWY_INLINE void by_the_library(const SinCosCall& call, std::int64_t first, std::int64_t end) {
  for (std::int64_t i = first; i < end; ++i) {
    const double angle = call.position * call.frequencies[i];
    call.cos[i] = static_cast<float>(std::cos(angle) * call.cos_factor) * call.cos_after;
    call.sin[i] = static_cast<float>(std::sin(angle) * call.sin_factor) * call.sin_after;
  }
}

// Six coefficients, the highest first; pairs of them side by side, since the chain of products is what takes
// the time.
HWY_INLINE V polynomial(V x, V square, const double (&c)[6]) {
  const D d;
  const V high = hn::MulAdd(x, hn::Set(d, c[0]), hn::Set(d, c[1]));
  const V middle = hn::MulAdd(x, hn::Set(d, c[2]), hn::Set(d, c[3]));
  const V low = hn::MulAdd(x, hn::Set(d, c[4]), hn::Set(d, c[5]));
  return hn::MulAdd(hn::MulAdd(high, square, middle), square, low);
}

constexpr double kSin[] = {1.58969099521155010221e-10, -2.50507602534068634195e-08,
                           2.75573137070700676789e-06, -1.98412698298579493134e-04,
                           8.33333333332248946124e-03, -1.66666666666666324348e-01};
constexpr double kCos[] = {-1.13596475577881948265e-11, 2.08757232129817482790e-09,
                           -2.75573143513906633035e-07, 2.48015872894767294178e-05,
                           -1.38888888888741095749e-03, 4.16666666666666019037e-02};
// pi/2 in parts of 28, 28 and 53 bits.
constexpr double kPart1 = 0x1.921fb54p+0;
constexpr double kPart2 = 0x1.10b4610p-30;
constexpr double kPart3 = 0x1.a62633145c06ep-58;

// Lanes that hold 1, of lanes that hold 0 or 1.
HWY_INLINE hn::Mask<D> all_bits_if(VWhole one) {
  const hn::RebindToSigned<D> di;
  return hn::MaskFromVec(hn::BitCast(D(), hn::Neg(hn::BitCast(di, one))));
}
HWY_INLINE bool any_sign(VWhole v) {
  const hn::RebindToSigned<D> di;
  const auto all = hn::BroadcastSignBit(hn::BitCast(di, v));
  return !hn::AllFalse(D(), hn::MaskFromVec(hn::BitCast(D(), all)));
}

struct Turned {
  V cos, sin;
};

HWY_INLINE Turned turned(V angle) {
  const D d;
  const Whole du;
  const V magic = hn::Set(d, 0x1.8p52);  // leaves k in the lowest bits
  const V shifted = hn::MulAdd(angle, hn::Set(d, 0x1.45f306dc9c883p-1), magic);
  const VWhole k = hn::BitCast(du, shifted);
  const V whole = hn::Sub(shifted, magic);
  const V part = hn::NegMulAdd(whole, hn::Set(d, kPart1), angle);
  const V r = hn::NegMulAdd(whole, hn::Set(d, kPart2), part);
  const V lost = hn::NegMulAdd(whole, hn::Set(d, kPart2), hn::Sub(part, r));
  const V rest = hn::NegMulAdd(whole, hn::Set(d, kPart3), lost);
  const V z = hn::Mul(r, r);
  const V square = hn::Mul(z, z);
  const V sin_r = hn::MulAdd(hn::Mul(z, r), polynomial(z, square, kSin), r);
  const V cos_r =
      hn::MulAdd(square, polynomial(z, square, kCos), hn::NegMulAdd(z, hn::Set(d, 0.5), hn::Set(d, 1.0)));
  // rest is below 2^-32: its square does not count.
  const V sin = hn::MulAdd(rest, cos_r, sin_r);
  const V cos = hn::NegMulAdd(rest, sin_r, cos_r);
  // Odd quarters exchange the two; the second and third turn the sign of sin, the first and second of cos.
  const auto odd = all_bits_if(hn::And(k, hn::Set(du, 1)));
  const VWhole two = hn::Set(du, 2);
  const V sin_sign = hn::BitCast(d, hn::ShiftLeft<62>(hn::And(k, two)));
  const V cos_sign = hn::BitCast(d, hn::ShiftLeft<62>(hn::And(hn::Add(k, hn::Set(du, 1)), two)));
  return {.cos = hn::Xor(hn::IfThenElse(odd, sin, cos), cos_sign),
          .sin = hn::Xor(hn::IfThenElse(odd, cos, sin), sin_sign)};
}

// Lanes whose sign bit is set: v is near a middle between two f32, which the lowest 29 bits tell.
HWY_INLINE VWhole near_middle(V v) {
  const Whole du;
  const VWhole past = hn::Add(hn::BitCast(du, v), hn::Set(du, (std::uint64_t{1} << 28) + 16));
  return hn::Sub(hn::And(past, hn::Set(du, (std::uint64_t{1} << 29) - 1)), hn::Set(du, 33));
}

void SinCos(const SinCosCall& call) {
  const D d;
  const Whole du;
  const hn::Rebind<float, D> df;
  constexpr auto kLanes = static_cast<std::int64_t>(hn::MaxLanes(D()));
  const V position = hn::Set(d, call.position);
  const V cos_factor = hn::Set(d, call.cos_factor);
  const V sin_factor = hn::Set(d, call.sin_factor);
  const auto cos_after = hn::Set(df, call.cos_after);
  const auto sin_after = hn::Set(df, call.sin_after);
  const auto plain = [](double factor) { return std::abs(factor) >= 0x1p-60 && std::abs(factor) <= 0x1p60; };
  if (!plain(call.cos_factor) || !plain(call.sin_factor)) return by_the_library(call, 0, call.count);
  std::int64_t i = 0;
  for (; i + kLanes <= call.count; i += kLanes) {
    const V angle = hn::Mul(position, hn::LoadU(d, call.frequencies + i));
    const Turned t = turned(angle);
    const V cos = hn::Mul(t.cos, cos_factor);
    const V sin = hn::Mul(t.sin, sin_factor);
    const V small = hn::Sub(hn::Min(hn::Abs(t.cos), hn::Abs(t.sin)), hn::Set(d, 0x1p-30));
    const V large = hn::Sub(hn::Set(d, 0x1p25), hn::Abs(angle));
    const VWhole doubt =
        hn::Or(hn::Or(near_middle(cos), near_middle(sin)), hn::BitCast(du, hn::Or(small, large)));
    hn::StoreU(hn::Mul(hn::DemoteTo(df, cos), cos_after), df, call.cos + i);
    hn::StoreU(hn::Mul(hn::DemoteTo(df, sin), sin_after), df, call.sin + i);
    if (HWY_UNLIKELY(any_sign(doubt))) by_the_library(call, i, i + kLanes);
  }
  by_the_library(call, i, call.count);
}

}  // namespace locant::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace locant {
HWY_EXPORT(SinCos);
void sin_cos(const SinCosCall& call) noexcept {
  HWY_DYNAMIC_DISPATCH(SinCos)(call);
}
}  // namespace locant
#endif

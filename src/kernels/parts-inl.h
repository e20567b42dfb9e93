// SPDX-License-Identifier: Apache-2.0
// f32 as sums of bf16 for tile registers: the leading 8 of its 24 bits, the next 8, the last 8, cut off and
// not rounded, so that they add up exactly and none overflows; or one, rounded.
#if defined(LOCANT_KERNELS_PARTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_PARTS_INL_H_
#undef LOCANT_KERNELS_PARTS_INL_H_
#else
#define LOCANT_KERNELS_PARTS_INL_H_
#endif

#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

inline constexpr std::int64_t kTileSide = 16;  // rows of a tile, and columns of 32 bits

// The bf16 whose sum x is, one in each lane's low half.
template <int Parts>
HWY_INLINE void split(V x, VecOf<hn::RebindToUnsigned<F>>* parts) {
  const F d;
  const hn::RebindToUnsigned<F> du;
  if constexpr (Parts == 1) {
    parts[0] = hn::And(hn::BitCast(du, to_bfloat_bits(d, x)), hn::Set(du, 0xFFFFu));
  } else {
    const auto keep = hn::Set(du, 0xFFFF0000u);
    const auto finite = hn::Lt(hn::Abs(x), hn::Inf(d));
    auto top = hn::And(hn::BitCast(du, x), keep);
    // A NaN whose digits are all below keeps one.
    top = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(x)), hn::Or(top, hn::Set(du, 0x00400000u)), top);
    parts[0] = hn::ShiftRight<16>(top);
    const V rest = hn::IfThenElseZero(finite, hn::Sub(x, hn::BitCast(d, top)));
    const auto middle = hn::And(hn::BitCast(du, rest), keep);
    parts[1] = hn::ShiftRight<16>(middle);
    parts[2] = hn::ShiftRight<16>(hn::BitCast(du, hn::Sub(rest, hn::BitCast(d, middle))));
  }
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

// SPDX-License-Identifier: Apache-2.0
// Rows of x as 8-bit whole numbers: q = x / factor, |q| <= 127, factor = max |x| / 127 of 32 neighbours, with
// the sums of q that a weight's offset and minus need. Four groups of 32 are folded together.
#if defined(LOCANT_KERNELS_ROUNDED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_ROUNDED_INL_H_
#undef LOCANT_KERNELS_ROUNDED_INL_H_
#else
#define LOCANT_KERNELS_ROUNDED_INL_H_
#endif

#include "kernels/lanes-inl.h"
#include "kernels/project.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

// Columns that are rounded, unpacked and multiplied at a time: whole blocks of every type.
inline constexpr std::size_t kWhole = 512;

// A span of columns of the tokens of a piece.
struct Rounded {
  HWY_ALIGN std::int8_t q[kProjectTokens][kWhole];
  HWY_ALIGN float factor[kProjectTokens][kWhole / 32];
  HWY_ALIGN std::int32_t first[kProjectTokens][kWhole / 16];  // -offset * sum q of the weight's groups
  HWY_ALIGN float total[kProjectTokens][kWhole / 16];         // factor * sum q
};

// out[i] = the lanes of the i-th vector, joined by `join`, in no particular order.
template <class D, class Join>
HWY_INLINE void fold4([[maybe_unused]] D d, const VecOf<D>* v, hn::TFromD<D>* out,
                      [[maybe_unused]] Join join) {
#if HWY_TARGET == HWY_SCALAR
  for (int i = 0; i < 4; ++i) out[i] = hn::GetLane(v[i]);
#else
  const hn::Repartition<std::uint64_t, D> d64;
  const auto ab = join(hn::InterleaveLower(d, v[0], v[1]), hn::InterleaveUpper(d, v[0], v[1]));
  const auto ce = join(hn::InterleaveLower(d, v[2], v[3]), hn::InterleaveUpper(d, v[2], v[3]));
  const auto low = hn::InterleaveLower(d64, hn::BitCast(d64, ab), hn::BitCast(d64, ce));
  const auto high = hn::InterleaveUpper(d64, hn::BitCast(d64, ab), hn::BitCast(d64, ce));
  const auto all = join(hn::BitCast(d, low), hn::BitCast(d, high));
  if constexpr (hn::MaxLanes(D()) == 4) {
    hn::StoreU(all, d, out);
  } else {
    const hn::Half<D> half;
    const auto two = join(hn::LowerHalf(half, all), hn::UpperHalf(half, all));
    if constexpr (hn::MaxLanes(D()) == 8) {
      hn::StoreU(two, half, out);
    } else {
      const hn::Half<decltype(half)> quarter;
      hn::StoreU(join(hn::LowerHalf(quarter, two), hn::UpperHalf(quarter, two)), quarter, out);
    }
  }
#endif
}

// The factors and 1 / factors of four groups from their largest |x|.
HWY_INLINE void factors4(const float* most, float* factor, float* inverse) {
  const hn::CappedTag<float, 4> d;
  for (std::size_t i = 0; i < 4; i += hn::Lanes(d)) {
    const auto top = hn::LoadU(d, most + i);
    const auto finite = hn::Le(top, hn::Set(d, 3.402823466e38f));
    const auto counts = hn::And(finite, hn::Ge(top, hn::Set(d, 0x1p-119f)));
    const auto most_q = hn::Set(d, 127.0f);
    const auto some = hn::IfThenElseZero(counts, hn::Div(top, most_q));
    hn::StoreU(hn::IfThenElse(finite, some, hn::Sub(top, top)), d, factor + i);  // else NaN
    hn::StoreU(hn::IfThenElseZero(counts, hn::Div(most_q, top)), d, inverse + i);
  }
}

// Four groups of 32 from x on, of which `groups` exist. Group is the weight's: 16 or 32 elements.
template <std::size_t Group>
HWY_INLINE void round4(const float* x, std::size_t groups, std::int32_t offset, std::int8_t* q, float* factor,
                       std::int32_t* first, float* total) {
  const F d;
  const hn::RebindToSigned<F> di;
  const hn::Rebind<std::int8_t, F> d8;
  constexpr std::size_t kSums = 32 / Group;
  hn::Vec<decltype(di)> tops[4];
  for (std::size_t g = 0; g < 4; ++g) {
    const float* at = x + 32 * HWY_MIN(g, groups - 1);
    tops[g] = hn::BitCast(di, hn::Abs(hn::LoadU(d, at)));  // order of bits is order of sizes, NaN on top
    for (std::size_t j = kLanes; j < 32; j += kLanes)
      tops[g] = hn::Max(tops[g], hn::BitCast(di, hn::Abs(hn::LoadU(d, at + j))));
  }
  std::int32_t most[4];
  fold4(di, tops, most, [](auto a, auto b) HWY_ATTR { return hn::Max(a, b); });
  float largest[4];
  float inverse[4];
  std::memcpy(largest, most, sizeof(largest));
  factors4(largest, factor, inverse);
  hn::Vec<decltype(di)> sums[kSums][4];
  for (std::size_t s = 0; s < kSums; ++s) {
    for (std::size_t g = 0; g < 4; ++g) sums[s][g] = hn::Zero(di);
  }
  for (std::size_t g = 0; g < groups; ++g) {
    const V by = hn::Set(d, inverse[g]);
    for (std::size_t j = 0; j < 32; j += kLanes) {
      const auto whole = hn::NearestInt(hn::Mul(hn::LoadU(d, x + 32 * g + j), by));
      sums[j / Group][g] = hn::Add(sums[j / Group][g], whole);
      hn::StoreU(hn::DemoteTo(d8, whole), d8, q + 32 * g + j);
    }
  }
  for (std::size_t s = 0; s < kSums; ++s) {
    std::int32_t sum[4];
    fold4(di, sums[s], sum, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
    for (std::size_t g = 0; g < 4; ++g) {
      first[kSums * g + s] = -offset * sum[g];
      total[kSums * g + s] = factor[g] * static_cast<float>(sum[g]);
    }
  }
}

template <std::size_t Group>
HWY_INLINE void round_span(const float* x, std::size_t count, std::int32_t offset, std::int64_t t,
                           Rounded& to) {
  const std::size_t groups = count / 32;
  for (std::size_t g = 0; g < groups; g += 4) {
    const std::size_t at = g * (32 / Group);
    round4<Group>(x + 32 * g, HWY_MIN(groups - g, std::size_t{4}), offset, to.q[t] + 32 * g, to.factor[t] + g,
                  to.first[t] + at, to.total[t] + at);
  }
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

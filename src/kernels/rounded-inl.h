// SPDX-License-Identifier: Apache-2.0
// Rows of x as 8-bit whole numbers: q = x / factor, |q| <= 127, factor = max |x| / 127 of 32 neighbours, with
// the sums of q that a weight's offset and minus need.
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
  HWY_ALIGN std::int8_t q[kProjectTokens + 15][kWhole];  // a tile reads 16 from any of the first on
  HWY_ALIGN float factor[kProjectTokens][kWhole / 32];
  HWY_ALIGN std::int32_t first[kProjectTokens][kWhole / 16];  // -offset * sum q of the weight's groups
  HWY_ALIGN float total[kProjectTokens][kWhole / 16];         // factor * sum q
};

// 16 groups, or one span: the factors and 1 / factors from their largest |x|.
HWY_INLINE void factors_of(const std::int32_t* most, std::size_t groups, float* factor, float* inverse) {
  const F d;
  for (std::size_t g = 0; g < groups; g += kLanes) {
    const V top = hn::BitCast(d, hn::LoadU(hn::RebindToSigned<F>(), most + g));
    const auto finite = hn::Le(top, hn::Set(d, 3.402823466e38f));
    const auto counts = hn::And(finite, hn::Ge(top, hn::Set(d, 0x1p-119f)));
    const V most_q = hn::Set(d, 127.0f);
    const V some = hn::IfThenElseZero(counts, hn::Div(top, most_q));
    hn::StoreU(hn::IfThenElse(finite, some, hn::Sub(top, top)), d, factor + g);  // else NaN
    hn::StoreU(hn::IfThenElseZero(counts, hn::Div(most_q, top)), d, inverse + g);
  }
}

// |x| of what counts is at most 127 / inverse; what does not has the inverse 0 or the factor NaN.
HWY_INLINE hn::Vec<hn::RebindToSigned<F>> round_and_store(V scaled, std::int8_t* to) {
#if HWY_TARGET == HWY_AVX3
  const __m512i whole = _mm512_cvtps_epi32(scaled.raw);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtsepi32_epi8(whole));
  return hn::Vec<hn::RebindToSigned<F>>{whole};
#else
  const hn::Rebind<std::int8_t, F> d8;
  const auto whole = hn::NearestInt(scaled);
  hn::StoreU(hn::DemoteTo(d8, whole), d8, to);
  return whole;
#endif
}

// Group is the weight's: 16 or 32 elements. Phases, each over the whole span: the largest |x| of 32, factors,
// whole numbers and their sums.
template <std::size_t Group>
HWY_INLINE void round_span(const float* x, std::size_t count, std::int32_t offset, std::int64_t t,
                           Rounded& to) {
  const F d;
  const hn::RebindToSigned<F> di;
  using VI = hn::Vec<decltype(di)>;
  constexpr std::size_t kMost = kWhole / 32 + 16;  // whole vectors, the last may be part empty
  const std::size_t groups = count / 32;
  HWY_ALIGN std::int32_t most[kMost];
  HWY_ALIGN float inverse[kMost];
  VI four[4];
  for (std::size_t g = 0; g < groups; g += 4) {
    for (std::size_t i = 0; i < 4; ++i) {
      const float* at = x + 32 * HWY_MIN(g + i, groups - 1);
      four[i] = hn::BitCast(di, hn::Abs(hn::LoadU(d, at)));  // order of bits is order of sizes, NaN on top
      for (std::size_t j = kLanes; j < 32; j += kLanes)
        four[i] = hn::Max(four[i], hn::BitCast(di, hn::Abs(hn::LoadU(d, at + j))));
    }
    fold4(di, four, most + g, [](auto a, auto b) HWY_ATTR { return hn::Max(a, b); });
  }
  HWY_ALIGN float factor[kMost];
  factors_of(most, groups, factor, inverse);
  std::memcpy(to.factor[t], factor, groups * sizeof(float));
  constexpr std::size_t kSums = 32 / Group;
  HWY_ALIGN std::int32_t sum[kSums * kMost];
  for (std::size_t g = 0; g < kSums * groups; g += 4) {
    for (std::size_t i = 0; i < 4; ++i) {
      four[i] = hn::Zero(di);
      if (g + i >= kSums * groups) continue;
      const V by = hn::Set(d, inverse[(g + i) / kSums]);
      const std::size_t at = Group * (g + i);
      four[i] = round_and_store(hn::Mul(hn::LoadU(d, x + at), by), to.q[t] + at);
      for (std::size_t j = kLanes; j < Group; j += kLanes)
        four[i] = hn::Add(four[i], round_and_store(hn::Mul(hn::LoadU(d, x + at + j), by), to.q[t] + at + j));
    }
    fold4(di, four, sum + g, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
  }
  for (std::size_t g = 0; g < kSums * groups; ++g) {
    to.first[t][g] =
        static_cast<std::int32_t>(static_cast<std::uint32_t>(-offset) * static_cast<std::uint32_t>(sum[g]));
    to.total[t][g] = to.factor[t][g / kSums] * static_cast<float>(sum[g]);
  }
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

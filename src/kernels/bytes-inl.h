// SPDX-License-Identifier: Apache-2.0
// Dot products of bytes, a row of the weight in each 32-bit lane: lane i of sum += four bytes of w_i times
// the same four of x. Whole numbers, exact on every instruction set. Weights of up to `Most` are unsigned;
// wide ones (Most = 128) are signed, and under vpdpbusd unsigned by an offset of 128, which `first` takes
// off. A sum adds the words J = 0 ... Count - 1 of a group in order.
#if defined(LOCANT_KERNELS_BYTES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_BYTES_INL_H_
#undef LOCANT_KERNELS_BYTES_INL_H_
#else
#define LOCANT_KERNELS_BYTES_INL_H_
#endif

#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

using Words = hn::RebindToUnsigned<F>;
using VWords = hn::Vec<Words>;  // four bytes of kLanes rows
using VWhole = hn::Vec<hn::RebindToSigned<F>>;
inline constexpr int kWide = 128;

#if HWY_TARGET == HWY_AVX3
// By its name: the intrinsic needs a compiler option that AVX3 lacks. Sums below 32 * 255 * 127 < 2^24.
struct DotUnit {
  static constexpr bool kOffset = true;
  template <int Most, int Count>
  struct Sum {
    VWhole whole;
    Sum() = default;
    HWY_INLINE explicit Sum(std::int32_t first) : whole(hn::Set(hn::RebindToSigned<F>(), first)) {}
    template <int J>
    HWY_INLINE void add(VWords w, VWords x) {
      asm("vpdpbusd %2, %1, %0" : "+v"(whole.raw) : "v"(w.raw), "v"(x.raw));
    }
    [[nodiscard]] HWY_INLINE VWhole total() const { return whole; }
  };
};
#endif

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4
#if HWY_TARGET == HWY_AVX3
HWY_INLINE __m512i pair_products(__m512i u, __m512i s) {
  return _mm512_maddubs_epi16(u, s);
}
HWY_INLINE __m512i pair_sums(__m512i v) {
  return _mm512_madd_epi16(v, _mm512_set1_epi16(1));
}
HWY_INLINE __m512i sizes(__m512i w) {
  return _mm512_abs_epi8(w);
}
HWY_INLINE __m512i with_sign(__m512i x, __m512i w) {
  return _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(w), _mm512_setzero_si512(), x);
}
#elif HWY_TARGET == HWY_AVX2
HWY_INLINE __m256i pair_products(__m256i u, __m256i s) {
  return _mm256_maddubs_epi16(u, s);
}
HWY_INLINE __m256i pair_sums(__m256i v) {
  return _mm256_madd_epi16(v, _mm256_set1_epi16(1));
}
HWY_INLINE __m256i sizes(__m256i w) {
  return _mm256_abs_epi8(w);
}
HWY_INLINE __m256i with_sign(__m256i x, __m256i w) {
  return _mm256_sign_epi8(x, w);
}
#else
HWY_INLINE __m128i pair_products(__m128i u, __m128i s) {
  return _mm_maddubs_epi16(u, s);
}
HWY_INLINE __m128i pair_sums(__m128i v) {
  return _mm_madd_epi16(v, _mm_set1_epi16(1));
}
HWY_INLINE __m128i sizes(__m128i w) {
  return _mm_abs_epi8(w);
}
HWY_INLINE __m128i with_sign(__m128i x, __m128i w) {
  return _mm_sign_epi8(x, w);
}
#endif

// Sums of pairs in i16: 2 * 127 * Most each, so a run of kRun of them stays below 2^15. Wide weights go by
// size, at most 128, with their sign on x: 2 * 128 * 127 = 32512.
struct Portable {
  static constexpr bool kOffset = false;
  template <int Most, int Count>
  struct Sum {
    static constexpr int kRun = 32767 / (2 * 127 * Most);
    static_assert(kRun >= 1);
    VWhole whole;
    hn::Vec<hn::Repartition<std::int16_t, F>> run;
    Sum() = default;
    HWY_INLINE explicit Sum(std::int32_t first) : whole(hn::Set(hn::RebindToSigned<F>(), first)) {}
    template <int J>
    HWY_INLINE void add(VWords w, VWords x) {
      decltype(run) pairs;
      if constexpr (Most == kWide) {
        pairs = decltype(run){pair_products(sizes(w.raw), with_sign(x.raw, w.raw))};
      } else {
        pairs = decltype(run){pair_products(w.raw, x.raw)};
      }
      if constexpr (J % kRun == 0) {
        run = pairs;
      } else {
        run = hn::Add(run, pairs);
      }
      if constexpr (J % kRun == kRun - 1 || J == Count - 1)
        whole = hn::Add(whole, VWhole{pair_sums(run.raw)});
    }
    [[nodiscard]] HWY_INLINE VWhole total() const { return whole; }
  };
};
#elif HWY_TARGET == HWY_SCALAR
struct Portable {
  static constexpr bool kOffset = false;
  template <int Most, int Count>
  struct Sum {
    VWhole whole;
    Sum() = default;
    HWY_INLINE explicit Sum(std::int32_t first) : whole(hn::Set(hn::RebindToSigned<F>(), first)) {}
    template <int J>
    HWY_INLINE void add(VWords w, VWords x) {
      std::int8_t a[4];
      std::int8_t b[4];
      hn::Store(w, Words(), reinterpret_cast<std::uint32_t*>(a));
      hn::Store(x, Words(), reinterpret_cast<std::uint32_t*>(b));
      for (int i = 0; i < 4; ++i) whole.raw += a[i] * b[i];
    }
    [[nodiscard]] HWY_INLINE VWhole total() const { return whole; }
  };
};
#else
// Bytes as the halves of i16; two products are at most 2 * 128 * 127 = 32512.
struct Portable {
  static constexpr bool kOffset = false;
  template <int Most, int Count>
  struct Sum {
    VWhole whole;
    Sum() = default;
    HWY_INLINE explicit Sum(std::int32_t first) : whole(hn::Set(hn::RebindToSigned<F>(), first)) {}
    template <int J>
    HWY_INLINE void add(VWords w, VWords x) {
      const hn::Repartition<std::int16_t, F> d16;
      const hn::RebindToSigned<F> di;
      const auto w16 = hn::BitCast(d16, w);
      const auto x16 = hn::BitCast(d16, x);
      const auto low = [&](auto v) HWY_ATTR { return hn::ShiftRight<8>(hn::ShiftLeft<8>(v)); };
      const auto pairs =
          hn::Add(hn::Mul(low(w16), low(x16)), hn::Mul(hn::ShiftRight<8>(w16), hn::ShiftRight<8>(x16)));
      const auto both = hn::BitCast(di, pairs);
      whole = hn::Add(whole, hn::Add(hn::ShiftRight<16>(hn::ShiftLeft<16>(both)), hn::ShiftRight<16>(both)));
    }
    [[nodiscard]] HWY_INLINE VWhole total() const { return whole; }
  };
};
#endif

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

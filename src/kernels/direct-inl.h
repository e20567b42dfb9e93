// SPDX-License-Identifier: Apache-2.0
// Values of blocks straight from their bytes to vectors of f32, 16 at a time, with nothing in memory between:
// a nibble picks one of its group's 16 values, which stand in one register; bytes are widened. The values
// are those of value_of(), bit for bit. AVX3 alone has registers of 16 lanes.
#if defined(LOCANT_KERNELS_DIRECT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_DIRECT_INL_H_
#undef LOCANT_KERNELS_DIRECT_INL_H_
#else
#define LOCANT_KERNELS_DIRECT_INL_H_
#endif

#include "kernels/blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3

struct Whole0To15 {
  static constexpr float kTable[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
};
struct WholeFromMinus8 {
  static constexpr float kTable[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
};
struct UnevenFloats {
  static constexpr float kTable[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                       1,    13,   25,  38,  53,  69,  89,  113};
};

HWY_INLINE __m512i wide_bytes(const std::uint8_t* bytes) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
}
// The lower four bits of each lane pick.
HWY_INLINE V pick(V values, __m512i lanes) {
  return V{_mm512_permutexvar_ps(lanes, values.raw)};
}
template <class Levels, bool Minus>
HWY_INLINE V values_of_group(const float* scale, [[maybe_unused]] const float* minus) {
  const F d;
  const V levels = hn::LoadU(d, Levels::kTable);
  if constexpr (Minus) {
    return hn::MulSub(levels, hn::Set(d, *scale), hn::Set(d, *minus));
  } else {
    return hn::Mul(levels, hn::Set(d, *scale));
  }
}

// A step of a row: use(i, V) for the i-th 16 values; scales and minuses at the step's first group.
template <class Small, class Levels>
struct DirectNibbles {
  static constexpr std::size_t kStep = 32;
  static constexpr std::size_t kGroups = 1;
  static HWY_INLINE void scales(const std::uint8_t* row, std::size_t count, Span& to) {
    small_scales<Small>(row, count, to);
  }
  template <class Use>
  static HWY_INLINE void values(const std::uint8_t* row, std::size_t step, const float* scale,
                                const float* minus, Use use) {
    const V all = values_of_group<Levels, Small::kLeast>(scale, minus);
    const __m512i both = wide_bytes(row + Small::kBytes * step + (Small::kLeast ? 4 : 2));
    use(0, pick(all, both));
    use(1, pick(all, _mm512_srli_epi32(both, 4)));
  }
};
struct DirectQ80 {
  static constexpr std::size_t kStep = 32;
  static constexpr std::size_t kGroups = 1;
  static HWY_INLINE void scales(const std::uint8_t* row, std::size_t count, Span& to) {
    small_scales<SmallQ80>(row, count, to);
  }
  template <class Use>
  static HWY_INLINE void values(const std::uint8_t* row, std::size_t step, const float* scale,
                                const float* /*minus*/, Use use) {
    const auto* q = reinterpret_cast<const std::int8_t*>(row + SmallQ80::kBytes * step + 2);
    const V by = hn::Set(F(), *scale);
    use(0, value_of<Groups<32, false>>(q, by, by));
    use(1, value_of<Groups<32, false>>(q + 16, by, by));
  }
};
struct DirectQ4K {
  static constexpr std::size_t kStep = 64;
  static constexpr std::size_t kGroups = 2;
  static HWY_INLINE void scales(const std::uint8_t* row, std::size_t count, Span& to) {
    for (std::size_t b = 0; b < count / 256; ++b) scales_of_k(row + 144 * b, b, to);
  }
  template <class Use>
  static HWY_INLINE void values(const std::uint8_t* row, std::size_t step, const float* scale,
                                const float* minus, Use use) {
    const std::uint8_t* bytes = row + 144 * (step / 4) + 16 + 32 * (step % 4);
    const __m512i first = wide_bytes(bytes);
    const __m512i second = wide_bytes(bytes + 16);
    const V low = values_of_group<Whole0To15, true>(scale, minus);
    use(0, pick(low, first));
    use(1, pick(low, second));
    const V high = values_of_group<Whole0To15, true>(scale + 1, minus + 1);
    use(2, pick(high, _mm512_srli_epi32(first, 4)));
    use(3, pick(high, _mm512_srli_epi32(second, 4)));
  }
};

struct DirectQ5K {
  static constexpr std::size_t kStep = 64;
  static constexpr std::size_t kGroups = 2;
  static HWY_INLINE void scales(const std::uint8_t* row, std::size_t count, Span& to) {
    for (std::size_t b = 0; b < count / 256; ++b) scales_of_k(row + 176 * b, b, to);
  }
  template <class Use>
  static HWY_INLINE void values(const std::uint8_t* row, std::size_t step, const float* scale,
                                const float* minus, Use use) {
    const F d;
    const std::uint8_t* block = row + 176 * (step / 4);
    const std::uint8_t* bytes = block + 48 + 32 * (step % 4);
    const __m512i four = _mm512_set1_epi32(15);
    const __m512i first = wide_bytes(bytes);
    const __m512i second = wide_bytes(bytes + 16);
    const auto value = [&](std::size_t i, __m512i low, std::size_t group) HWY_ATTR {
      const __m512i bit = _mm512_set1_epi32(1 << (2 * (step % 4) + group));
      const __mmask16 fifth = _mm512_test_epi32_mask(wide_bytes(block + 16 + i % 2 * 16), bit);
      const __m512i whole = _mm512_mask_add_epi32(low, fifth, low, _mm512_set1_epi32(16));
      use(i, hn::MulSub(V{_mm512_cvtepi32_ps(whole)}, hn::Set(d, scale[group]), hn::Set(d, minus[group])));
    };
    value(0, _mm512_and_si512(first, four), 0);
    value(1, _mm512_and_si512(second, four), 0);
    value(2, _mm512_srli_epi32(first, 4), 1);
    value(3, _mm512_srli_epi32(second, 4), 1);
  }
};
struct DirectQ6K {
  static constexpr std::size_t kStep = 128;
  static constexpr std::size_t kGroups = 8;
  static HWY_INLINE void scales(const std::uint8_t* row, std::size_t count, Span& to) {
    for (std::size_t b = 0; b < count / 256; ++b) scales_of_q6_k(row + 210 * b, b, to);
  }
  template <class Use>
  static HWY_INLINE void values(const std::uint8_t* row, std::size_t step, const float* scale,
                                const float* /*minus*/, Use use) {
    const F d;
    const std::uint8_t* block = row + 210 * (step / 2);
    const std::uint8_t* bytes = block + 64 * (step % 2);
    const __m512i four = _mm512_set1_epi32(15);
    const __m512i there = _mm512_set1_epi32(0x30);
    // The upper two bits of quarter i / 2 stand from bit i / 2 * 2 on.
    const __m512i high[2] = {wide_bytes(block + 128 + 32 * (step % 2)),
                             wide_bytes(block + 144 + 32 * (step % 2))};
    const auto value = [&](std::size_t i, __m512i low, __m512i upper) HWY_ATTR {
      const __m512i whole = _mm512_or_si512(low, _mm512_and_si512(upper, there));
      const __m512i signed_whole = _mm512_sub_epi32(whole, _mm512_set1_epi32(32));
      use(i, hn::Mul(V{_mm512_cvtepi32_ps(signed_whole)}, hn::Set(d, scale[i])));
    };
    const __m512i low[4] = {wide_bytes(bytes), wide_bytes(bytes + 16), wide_bytes(bytes + 32),
                            wide_bytes(bytes + 48)};
    value(0, _mm512_and_si512(low[0], four), _mm512_slli_epi32(high[0], 4));
    value(1, _mm512_and_si512(low[1], four), _mm512_slli_epi32(high[1], 4));
    value(2, _mm512_and_si512(low[2], four), _mm512_slli_epi32(high[0], 2));
    value(3, _mm512_and_si512(low[3], four), _mm512_slli_epi32(high[1], 2));
    value(4, _mm512_srli_epi32(low[0], 4), high[0]);
    value(5, _mm512_srli_epi32(low[1], 4), high[1]);
    value(6, _mm512_srli_epi32(low[2], 4), _mm512_srli_epi32(high[0], 2));
    value(7, _mm512_srli_epi32(low[3], 4), _mm512_srli_epi32(high[1], 2));
  }
};

// body(Direct...()) for types that have one; false: this one has none.
template <class Body>
HWY_INLINE bool with_direct(GgmlType type, Body body) {
  switch (type) {
    case GgmlType::q4_0:
      body(DirectNibbles<SmallQ40, WholeFromMinus8>());
      return true;
    case GgmlType::q4_1:
      body(DirectNibbles<SmallQ41, Whole0To15>());
      return true;
    case GgmlType::iq4_nl:
      body(DirectNibbles<SmallIq4Nl, UnevenFloats>());
      return true;
    case GgmlType::q8_0:
      body(DirectQ80());
      return true;
    case GgmlType::q4_k:
      body(DirectQ4K());
      return true;
    case GgmlType::q5_k:
      body(DirectQ5K());
      return true;
    case GgmlType::q6_k:
      body(DirectQ6K());
      return true;
    default:
      return false;
  }
}

// use(i, V) for each 16 values of a row from element i on; `span` is room for the scales.
template <class Direct, class Use>
HWY_INLINE void each_direct_value(const std::uint8_t* row, std::size_t count, Span& span, Use use) {
  Direct::scales(row, count, span);
  for (std::size_t step = 0; step < count / Direct::kStep; ++step) {
    const std::size_t g = step * Direct::kGroups;
    Direct::values(row, step, span.scale + g, span.minus + g,
                   [&](std::size_t i, V values) HWY_ATTR { use(step * Direct::kStep + i * kLanes, values); });
  }
}

inline constexpr int kDirectRows = 8;

// sums[i] = sum_k x[k] w_i[k] of eight rows, in the order of dot_spans().
template <class Direct>
HWY_INLINE void dot_rows(const float* x, const std::uint8_t* const* rows, std::size_t count,
                         const Span* spans, Ahead& ahead, float* sums) {
  const F d;
  constexpr std::size_t kVectors = Direct::kStep / kLanes;
  V acc[kDirectRows];
  for (V& sum : acc) sum = hn::Zero(d);
  for (std::size_t step = 0; step < count / Direct::kStep; ++step, x += Direct::kStep) {
    const std::size_t g = step * Direct::kGroups;
    ahead.ask();
    V xs[kVectors];
    for (std::size_t i = 0; i < kVectors; ++i) xs[i] = hn::LoadU(d, x + i * kLanes);
    for (int n = 0; n < kDirectRows; ++n) {
      Direct::values(rows[n], step, spans[n].scale + g, spans[n].minus + g,
                     [&](std::size_t i, V values) HWY_ATTR { acc[n] = hn::MulAdd(xs[i], values, acc[n]); });
    }
  }
  sum4(acc[0], acc[1], acc[2], acc[3], sums);
  sum4(acc[4], acc[5], acc[6], acc[7], sums + 4);
}

#endif

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

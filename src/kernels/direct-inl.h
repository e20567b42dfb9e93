// SPDX-License-Identifier: Apache-2.0
// Values of blocks straight from their bytes to vectors of f32, with nothing in memory between: bytes are
// widened, and a nibble picks one of its group's 16 values, which stand in one register of AVX3; elsewhere it
// is multiplied. The values are those of value_of(), bit for bit: scale * q is exact.
#if defined(LOCANT_KERNELS_DIRECT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_DIRECT_INL_H_
#undef LOCANT_KERNELS_DIRECT_INL_H_
#else
#define LOCANT_KERNELS_DIRECT_INL_H_
#endif

#include "kernels/blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2

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

using WideBytes = hn::RebindToSigned<F>;
using VWide = hn::Vec<WideBytes>;
HWY_INLINE VWide wide_bytes(const std::uint8_t* bytes) {
  return hn::PromoteTo(WideBytes(), hn::LoadU(hn::Rebind<std::uint8_t, F>(), bytes));
}
HWY_INLINE VWide set_wide(std::int32_t value) {
  return hn::Set(WideBytes(), value);
}

// The values of a group for the nibbles of widened bytes.
template <class Levels, bool Minus>
class GroupValues {
 public:
  HWY_INLINE GroupValues(const float* scale, [[maybe_unused]] const float* minus) {
    const F d;
#if HWY_TARGET == HWY_AVX3
    const V levels = hn::LoadU(d, Levels::kTable);
    if constexpr (Minus) {
      table_ = hn::MulSub(levels, hn::Set(d, *scale), hn::Set(d, *minus));
    } else {
      table_ = hn::Mul(levels, hn::Set(d, *scale));
    }
#else
    static_assert(Levels::kTable[15] - Levels::kTable[0] == 15 && !(Minus && Levels::kTable[0] != 0));
    scale_ = hn::Set(d, *scale);
    minus_ = Minus ? hn::Set(d, *minus) : hn::Set(d, -Levels::kTable[0] * *scale);
#endif
  }
#if HWY_TARGET == HWY_AVX3
  // The lower four bits of each lane pick.
  [[nodiscard]] HWY_INLINE V low(VWide bytes) const {
    return V{_mm512_permutexvar_ps(bytes.raw, table_.raw)};
  }
  [[nodiscard]] HWY_INLINE V high(VWide bytes) const {
    return low(hn::ShiftRight<4>(bytes));
  }

 private:
  V table_;
#else
  [[nodiscard]] HWY_INLINE V low(VWide bytes) const {
    return of(hn::And(bytes, set_wide(15)));
  }
  [[nodiscard]] HWY_INLINE V high(VWide bytes) const {
    return of(hn::ShiftRight<4>(bytes));
  }

 private:
  [[nodiscard]] HWY_INLINE V of(VWide whole) const {
    return hn::MulSub(hn::ConvertTo(F(), whole), scale_, minus_);
  }
  V scale_, minus_;
#endif
};
// `Bytes` bytes of nibbles: the low halves are the first values, the high ones those behind.
template <std::size_t Bytes, class Low, class High, class Use>
HWY_INLINE void each_nibble(const std::uint8_t* bytes, const Low& low, const High& high, Use use) {
  constexpr std::size_t kVectors = Bytes / kLanes;
  VWide both[kVectors];
  for (std::size_t i = 0; i < kVectors; ++i) {
    both[i] = wide_bytes(bytes + i * kLanes);
    use(i, low.low(both[i]));
  }
  for (std::size_t i = 0; i < kVectors; ++i) use(kVectors + i, high.high(both[i]));
}

// A step of a row: use(i, V) for the i-th vector of values, in order; scales and minuses at the step's first
// group.
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
    const GroupValues<Levels, Small::kLeast> all(scale, minus);
    each_nibble<16>(row + Small::kBytes * step + (Small::kLeast ? 4 : 2), all, all, use);
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
    for (std::size_t i = 0; i < kStep / kLanes; ++i)
      use(i, value_of<Groups<32, false>>(q + i * kLanes, by, by));
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
    const GroupValues<Whole0To15, true> low(scale, minus);
    const GroupValues<Whole0To15, true> high(scale + 1, minus + 1);
    each_nibble<32>(row + 144 * (step / 4) + 16 + 32 * (step % 4), low, high, use);
  }
};
#if HWY_TARGET == HWY_AVX3
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
    constexpr std::size_t kVectors = 32 / kLanes;
    const std::uint8_t* block = row + 176 * (step / 4);
    const std::uint8_t* bytes = block + 48 + 32 * (step % 4);
    for (std::size_t group = 0; group < 2; ++group) {
      const VWide bit = set_wide(1 << (2 * (step % 4) + group));
      const V by = hn::Set(d, scale[group]);
      const V less = hn::Set(d, minus[group]);
      for (std::size_t i = 0; i < kVectors; ++i) {
        const VWide both = wide_bytes(bytes + i * kLanes);
        const VWide four = group == 0 ? hn::And(both, set_wide(15)) : hn::ShiftRight<4>(both);
        const auto fifth = hn::TestBit(wide_bytes(block + 16 + i * kLanes), bit);
        const VWide whole = hn::IfThenElse(fifth, hn::Or(four, set_wide(16)), four);
        use(group * kVectors + i, hn::MulSub(hn::ConvertTo(d, whole), by, less));
      }
    }
  }
};
// Of a half of 128 values: quarter i of 32 has its lower four bits in the low halves of 64 bytes, then in the
// high ones, and its upper two in bits 2i and 2i + 1 of 32 bytes.
struct DirectQ6K {
  static constexpr std::size_t kStep = 128;
  static constexpr std::size_t kGroups = 8;
  static HWY_INLINE void scales(const std::uint8_t* row, std::size_t count, Span& to) {
    for (std::size_t b = 0; b < count / 256; ++b) scales_of_q6_k(row + 210 * b, b, to);
  }
  template <std::size_t Quarter, class Use>
  static HWY_INLINE void quarter(const VWide* low, const VWide* high, const float* scale, Use use) {
    const F d;
    constexpr std::size_t kVectors = 32 / kLanes;
    for (std::size_t i = 0; i < kVectors; ++i) {
      const VWide both = low[Quarter % 2 * kVectors + i];
      const VWide four = Quarter < 2 ? hn::And(both, set_wide(15)) : hn::ShiftRight<4>(both);
      VWide upper = high[i];
      if constexpr (Quarter == 3) {
        upper = hn::ShiftRight<2>(upper);
      } else {
        upper = hn::ShiftLeft<4 - 2 * static_cast<int>(Quarter)>(upper);
      }
      const VWide whole = hn::Or(four, hn::And(upper, set_wide(0x30)));
      use(Quarter * kVectors + i, hn::Mul(hn::ConvertTo(d, hn::Sub(whole, set_wide(32))),
                                          hn::Set(d, scale[Quarter * 2 + i * kLanes / 16])));
    }
  }
  template <class Use>
  static HWY_INLINE void values(const std::uint8_t* row, std::size_t step, const float* scale,
                                const float* /*minus*/, Use use) {
    const std::uint8_t* block = row + 210 * (step / 2);
    VWide low[64 / kLanes];
    VWide high[32 / kLanes];
    for (std::size_t i = 0; i < 64 / kLanes; ++i) low[i] = wide_bytes(block + 64 * (step % 2) + i * kLanes);
    for (std::size_t i = 0; i < 32 / kLanes; ++i)
      high[i] = wide_bytes(block + 128 + 32 * (step % 2) + i * kLanes);
    quarter<0>(low, high, scale, use);
    quarter<1>(low, high, scale, use);
    quarter<2>(low, high, scale, use);
    quarter<3>(low, high, scale, use);
  }
};
#endif

#endif

// body(Direct...()) for types that have one; false: this one has none.
template <class Body>
HWY_INLINE bool with_direct([[maybe_unused]] GgmlType type, [[maybe_unused]] Body body) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  switch (type) {
    case GgmlType::q4_0:
      body(DirectNibbles<SmallQ40, WholeFromMinus8>());
      return true;
    case GgmlType::q4_1:
      body(DirectNibbles<SmallQ41, Whole0To15>());
      return true;
    case GgmlType::q8_0:
      body(DirectQ80());
      return true;
    case GgmlType::q4_k:
      body(DirectQ4K());
      return true;
#if HWY_TARGET == HWY_AVX3  // unpacking is faster elsewhere
    case GgmlType::iq4_nl:
      body(DirectNibbles<SmallIq4Nl, UnevenFloats>());
      return true;
    case GgmlType::q5_k:
      body(DirectQ5K());
      return true;
    case GgmlType::q6_k:
      body(DirectQ6K());
      return true;
#endif
    default:
      break;
  }
#endif
  return false;
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

// sums[i] = sum_k x[k] w_i[k] of some rows, in the order of dot_spans().
template <class Direct>
HWY_INLINE void dot_rows(const float* x, const std::uint8_t* const* rows, std::size_t count,
                         const Span* spans, Ahead& ahead, float* sums) {
  const F d;
  V acc[kDirectRows];
  for (V& sum : acc) sum = hn::Zero(d);
  for (std::size_t step = 0; step < count / Direct::kStep; ++step, x += Direct::kStep) {
    const std::size_t g = step * Direct::kGroups;
    ahead.ask();
    for (int n = 0; n < kDirectRows; ++n) {
      Direct::values(rows[n], step, spans[n].scale + g, spans[n].minus + g,
                     [&](std::size_t i, V values)
                         HWY_ATTR { acc[n] = hn::MulAdd(hn::LoadU(d, x + i * kLanes), values, acc[n]); });
    }
  }
  for (int n = 0; n < kDirectRows; n += 4) sum4(acc[n], acc[n + 1], acc[n + 2], acc[n + 3], sums + n);
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

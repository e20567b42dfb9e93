// SPDX-License-Identifier: Apache-2.0
// A span of columns of kLanes rows of blocks, side by side: word j of the panel holds bytes 4j ... 4j + 3 of
// each row, one row in each 32-bit lane, and group g has one vector of scales and one of minuses. Here 16
// bytes of each row are turned round, as 4 x 4 words of every four rows.
#if defined(LOCANT_KERNELS_TURN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_TURN_INL_H_
#undef LOCANT_KERNELS_TURN_INL_H_
#else
#define LOCANT_KERNELS_TURN_INL_H_
#endif

#include "kernels/blocks-inl.h"
#include "kernels/bytes-inl.h"
#include "kernels/rounded-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

struct Scales {
  HWY_ALIGN float scale[kWhole / 16][kLanes];
  HWY_ALIGN float minus[kWhole / 16][kLanes];
};
struct Panel {
  HWY_ALIGN std::uint32_t q[kWhole / 4][kLanes];
  Scales of;
};

// kLanes rows from column k on.
struct PanelRows {
  const std::uint8_t* first;
  std::int64_t stride;  // bytes from row to row

  [[nodiscard]] const std::uint8_t* at(std::size_t i) const {
    return first + static_cast<std::int64_t>(i) * stride;
  }
};

// What is added to whole numbers of a type to have none below zero (kWide: they stay signed).
HWY_INLINE std::int8_t offset_of(GgmlType type) {
  switch (type) {
    case GgmlType::q4_0:
      return 8;
    case GgmlType::q5_0:
      return 16;
    case GgmlType::mxfp4:
      return 12;
    case GgmlType::q3_k:
      return 4;
    case GgmlType::q6_k:
      return 32;
    default:
      return 0;
  }
}

#if HWY_TARGET == HWY_SCALAR

HWY_INLINE void turn_spans(const Span* spans, std::size_t count, std::int8_t offset, std::size_t groups,
                           Panel& to) {
  for (std::size_t i = 0; i < count; i += 4) {
    std::int8_t word[4];
    for (std::size_t j = 0; j < 4; ++j) word[j] = static_cast<std::int8_t>(spans->q[i + j] + offset);
    std::memcpy(to.q[i / 4], word, sizeof(word));
  }
  for (std::size_t g = 0; g < groups; ++g) {
    to.of.scale[g][0] = spans->scale[g];
    to.of.minus[g][0] = spans->minus[g];
  }
}

#else

using Bytes = hn::Repartition<std::uint8_t, F>;
using VBytes = hn::Vec<Bytes>;

// A pointer that the compiler takes as it is: it would keep one for each row, more than there are registers.
HWY_INLINE const std::uint8_t* as_it_is(const std::uint8_t* p) {
#if defined(__GNUC__)
  asm("" : "+r"(p));
#endif
  return p;
}

// part(0), part(1) ... side by side.
using Bytes16 = hn::CappedTag<std::uint8_t, 16>;
template <class Part>
HWY_INLINE VBytes join_parts(Part part) {
#if HWY_TARGET == HWY_AVX3
  const __m256i two = _mm256_inserti128_si256(_mm256_castsi128_si256(part(0).raw), part(1).raw, 1);
  const __m512i three = _mm512_inserti32x4(_mm512_castsi256_si512(two), part(2).raw, 2);
  return VBytes{_mm512_inserti32x4(three, part(3).raw, 3)};
#else
  if constexpr (kLanes == 4) {
    return part(0);
  } else {
    return hn::Combine(Bytes(), part(1), part(0));
  }
#endif
}
// 16 bytes of a row and of every fourth one after it.
HWY_INLINE VBytes every_fourth(const std::uint8_t* row, std::int64_t four_rows) {
  return join_parts([&](int i) HWY_ATTR { return hn::LoadU(Bytes16(), row + i * four_rows); });
}
// part[j] = the 16 bytes behind `offset` of rows j, 4 + j, 8 + j ...
HWY_INLINE void quarters(const PanelRows& rows, std::size_t offset, VBytes* part) {
  const std::uint8_t* row = rows.first + offset;
  for (std::size_t j = 0; j < 4; ++j) {
    row = as_it_is(row);
    part[j] = every_fourth(row, 4 * rows.stride);
    row += rows.stride;
  }
}

// words[j] = bytes 4j ... 4j + 3 of all rows, of quarters() that hold 16 of each.
HWY_INLINE void turn_quarters(const VBytes* part, VBytes* words) {
  const Bytes d8;
  const Words d;
  const hn::Repartition<std::uint64_t, F> d64;
  const auto a = hn::BitCast(d, part[0]);
  const auto b = hn::BitCast(d, part[1]);
  const auto c = hn::BitCast(d, part[2]);
  const auto e = hn::BitCast(d, part[3]);
  const auto ab_low = hn::BitCast(d64, hn::InterleaveLower(d, a, b));
  const auto ab_high = hn::BitCast(d64, hn::InterleaveUpper(d, a, b));
  const auto ce_low = hn::BitCast(d64, hn::InterleaveLower(d, c, e));
  const auto ce_high = hn::BitCast(d64, hn::InterleaveUpper(d, c, e));
  words[0] = hn::BitCast(d8, hn::InterleaveLower(d64, ab_low, ce_low));
  words[1] = hn::BitCast(d8, hn::InterleaveUpper(d64, ab_low, ce_low));
  words[2] = hn::BitCast(d8, hn::InterleaveLower(d64, ab_high, ce_high));
  words[3] = hn::BitCast(d8, hn::InterleaveUpper(d64, ab_high, ce_high));
}
// The same of the bytes behind `offset`.
HWY_INLINE void turn(const PanelRows& rows, std::size_t offset, VBytes* words) {
  VBytes part[4];
  quarters(rows, offset, part);
  turn_quarters(part, words);
}

HWY_INLINE void put(VBytes bytes, std::uint32_t* to) {
  hn::Store(hn::BitCast(Words(), bytes), Words(), to);
}

// What becomes of 16 bytes of all rows. Into a panel: they are turned round, and the words of a group go to
// theirs.
struct KeepWords {
  Panel& panel;

  static HWY_INLINE void take(const PanelRows& rows, std::size_t offset, VBytes* four) {
    turn(rows, offset, four);
  }
  struct Group {
    std::uint32_t (*q)[kLanes];
    template <int Part>
    HWY_INLINE void add(const VBytes* words) {
      for (std::size_t j = 0; j < 4; ++j) put(words[j], q[std::size_t{4} * Part + j]);
    }
  };
  template <int Parts>
  HWY_INLINE Group begin(std::size_t g) const {
    return {panel.q + std::size_t{4} * Parts * g};
  }
  HWY_INLINE void end(std::size_t /*g*/, const Group& /*group*/) const {}
};
// Times one row of x: the four vectors of quarters() as they are, each row's sums in the four lanes of a
// part, and what is turned round is no more than these. Whole sums go to Sums: take(g, sums of the rows).
template <class Dots, int Most, class Sums>
struct DotParts {
  const std::int8_t* x;
  Sums& sums;

  static HWY_INLINE void take(const PanelRows& rows, std::size_t offset, VBytes* four) {
    quarters(rows, offset, four);
  }
  template <int Parts>
  struct Group {
    typename Dots::template Sum<Most, Parts> sum[4];
    const std::int8_t* x;
    template <int Part>
    HWY_INLINE void add(const VBytes* bytes) {
      const auto xs = hn::BitCast(Words(), hn::LoadDup128(Bytes(), reinterpret_cast<const std::uint8_t*>(x) +
                                                                       16 * std::size_t{Part}));
      for (int j = 0; j < 4; ++j) sum[j].template add<Part>(hn::BitCast(Words(), bytes[j]), xs);
    }
  };
  template <int Parts>
  HWY_INLINE Group<Parts> begin(std::size_t g) const {
    using Sum = typename Dots::template Sum<Most, Parts>;
    return {{Sum(0), Sum(0), Sum(0), Sum(0)}, x + 16 * std::size_t{Parts} * g};
  }
  template <int Parts>
  HWY_INLINE void end(std::size_t g, const Group<Parts>& group) const {
    const VWhole four[4] = {group.sum[0].total(), group.sum[1].total(), group.sum[2].total(),
                            group.sum[3].total()};
    sums.take(g, join4(hn::RebindToSigned<F>(), four, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); }));
  }
};
HWY_INLINE VBytes low_half(VBytes bytes) {
  return hn::And(bytes, hn::Set(Bytes(), std::uint8_t{15}));
}
// Byte b of every word, as a float.
template <int B>
HWY_INLINE V byte_of(VWords words) {
  const hn::RebindToSigned<F> di;
  return hn::ConvertTo(F(), hn::BitCast(di, hn::And(hn::ShiftRight<8 * B>(words), hn::Set(Words(), 255))));
}
template <int B>
HWY_INLINE V signed_byte_of(VWords words) {
  const hn::RebindToSigned<F> di;
  return hn::ConvertTo(F(), hn::ShiftRight<24>(hn::ShiftLeft<24 - 8 * B>(hn::BitCast(di, words))));
}
// The f16 in the lower half of every word.
HWY_INLINE V half_of(VWords bits) {
#if HWY_TARGET == HWY_AVX3
  return V{_mm512_cvtph_ps(_mm512_cvtepi32_epi16(bits.raw))};
#elif HWY_TARGET == HWY_AVX2
  const auto low = _mm256_and_si256(bits.raw, _mm256_set1_epi32(0xFFFF));
  const auto packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
  return V{_mm256_cvtph_ps(_mm256_castsi256_si128(packed))};
#else
  return from_half_bits(F(), hn::And(bits, hn::Set(Words(), 0xFFFFu)));
#endif
}

// Spans of kLanes rows, turned round.
HWY_INLINE void turn_spans(const Span* spans, std::size_t count, std::int8_t offset, std::size_t groups,
                           Panel& to) {
  const Bytes d8;
  const auto add = hn::Set(d8, static_cast<std::uint8_t>(offset));
  constexpr std::int64_t kStride = sizeof(Span);
  const auto rows_of = [](const void* first) {
    return PanelRows{static_cast<const std::uint8_t*>(first), kStride};
  };
  VBytes words[4];
  for (std::size_t i = 0; i < count; i += 16) {
    turn(rows_of(spans->q), i, words);
    for (std::size_t j = 0; j < 4; ++j) put(hn::Add(words[j], add), to.q[i / 4 + j]);
  }
  const auto floats = [&](const PanelRows& rows, float(*out)[kLanes]) HWY_ATTR {
    for (std::size_t g = 0; g < groups; g += 4) {  // groups past the end are never read
      turn(rows, 4 * g, words);
      for (std::size_t j = 0; j < 4; ++j) put(words[j], reinterpret_cast<std::uint32_t*>(out[g + j]));
    }
  };
  floats(rows_of(spans->scale), to.of.scale);
  floats(rows_of(spans->minus), to.of.minus);
}

#endif

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

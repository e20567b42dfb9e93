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

struct Panel {
  HWY_ALIGN std::uint32_t q[kWhole / 4][kLanes];
  HWY_ALIGN float scale[kWhole / 16][kLanes];
  HWY_ALIGN float minus[kWhole / 16][kLanes];
};

// kLanes rows from column k on. Rows past the end repeat the last one.
struct PanelRows {
  const std::uint8_t* at[kLanes];
  std::int64_t ahead = 0;  // bytes to the rows that come next, 0: none
};

// Asks for bytes [from, to) of the rows that come next, a few at a time: more than the machine can wait for
// at once would stop it, and it does not see so many rows coming by itself.
HWY_INLINE void ask_ahead(const PanelRows& rows, std::size_t from, std::size_t to) {
  if (rows.ahead == 0) return;
  for (std::size_t at = (from + 63) / 64 * 64; at < to; at += 64) {
    for (const std::uint8_t* row : rows.at) hwy::Prefetch(row + rows.ahead + at);
  }
}

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
    to.scale[g][0] = spans->scale[g];
    to.minus[g][0] = spans->minus[g];
  }
}

#else

using Bytes = hn::Repartition<std::uint8_t, F>;
using VBytes = hn::Vec<Bytes>;

// 16 bytes of every fourth row, from row `first` on.
template <class D>
HWY_INLINE hn::Vec<D> every_fourth(D d, const std::uint8_t* const* rows, std::size_t offset) {
  if constexpr (hn::MaxLanes(D()) == 16) {
    return hn::LoadU(d, rows[0] + offset);
  } else {
    const hn::Half<D> half;
    constexpr std::size_t kHalf = hn::MaxLanes(half) / 4;
    return hn::Combine(d, every_fourth(half, rows + kHalf, offset), every_fourth(half, rows, offset));
  }
}

// words[j] = bytes 4j ... 4j + 3 behind `offset` of all rows.
HWY_INLINE void turn(const PanelRows& rows, std::size_t offset, VBytes* words) {
  const Bytes d8;
  const Words d;
  const hn::Repartition<std::uint64_t, F> d64;
  const auto a = hn::BitCast(d, every_fourth(d8, rows.at, offset));
  const auto b = hn::BitCast(d, every_fourth(d8, rows.at + 1, offset));
  const auto c = hn::BitCast(d, every_fourth(d8, rows.at + 2, offset));
  const auto e = hn::BitCast(d, every_fourth(d8, rows.at + 3, offset));
  const auto ab_low = hn::BitCast(d64, hn::InterleaveLower(d, a, b));
  const auto ab_high = hn::BitCast(d64, hn::InterleaveUpper(d, a, b));
  const auto ce_low = hn::BitCast(d64, hn::InterleaveLower(d, c, e));
  const auto ce_high = hn::BitCast(d64, hn::InterleaveUpper(d, c, e));
  words[0] = hn::BitCast(d8, hn::InterleaveLower(d64, ab_low, ce_low));
  words[1] = hn::BitCast(d8, hn::InterleaveUpper(d64, ab_low, ce_low));
  words[2] = hn::BitCast(d8, hn::InterleaveLower(d64, ab_high, ce_high));
  words[3] = hn::BitCast(d8, hn::InterleaveUpper(d64, ab_high, ce_high));
}

HWY_INLINE void put(VBytes bytes, std::uint32_t* to) {
  hn::Store(hn::BitCast(Words(), bytes), Words(), to);
}
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
HWY_INLINE V half_of(VWords bits) {
  return from_half_bits(F(), bits);
}

// Spans of kLanes rows, turned round.
HWY_INLINE void turn_spans(const Span* spans, std::size_t count, std::int8_t offset, std::size_t groups,
                           Panel& to) {
  const Bytes d8;
  const auto add = hn::Set(d8, static_cast<std::uint8_t>(offset));
  PanelRows rows;
  const auto each_row = [&](const auto& member) HWY_ATTR {
    for (std::size_t i = 0; i < kLanes; ++i)
      rows.at[i] = reinterpret_cast<const std::uint8_t*>(member(spans[i]));
  };
  VBytes words[4];
  each_row([](const Span& span) { return span.q; });
  for (std::size_t i = 0; i < count; i += 16) {
    turn(rows, i, words);
    for (std::size_t j = 0; j < 4; ++j) put(hn::Add(words[j], add), to.q[i / 4 + j]);
  }
  const auto floats = [&](float(*out)[kLanes]) HWY_ATTR {
    for (std::size_t g = 0; g < groups; g += 4) {  // groups past the end are never read
      turn(rows, 4 * g, words);
      for (std::size_t j = 0; j < 4; ++j) put(words[j], reinterpret_cast<std::uint32_t*>(out[g + j]));
    }
  };
  each_row([](const Span& span) { return span.scale; });
  floats(to.scale);
  each_row([](const Span& span) { return span.minus; });
  floats(to.minus);
}

#endif

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

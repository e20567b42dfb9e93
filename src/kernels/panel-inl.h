// SPDX-License-Identifier: Apache-2.0
// Blocks of GGUF types to panels (turn-inl.h), a function for each type: words of several rows are turned
// round before their bits are taken apart.
#if defined(LOCANT_KERNELS_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_PANEL_INL_H_
#undef LOCANT_KERNELS_PANEL_INL_H_
#else
#define LOCANT_KERNELS_PANEL_INL_H_
#endif

#include "kernels/panel_small-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// ---- blocks of 256

// Q4_K and Q5_K: 16 bytes of two f16, then scales and minuses of 6 bits.
HWY_INLINE void scales_of_k(const PanelRows& rows, std::size_t block, std::size_t size, Scales& to) {
  const F d;
  const Words dw;
  VBytes words[4];
  turn(rows, size * block, words);
  const auto w = [&](int i) HWY_ATTR { return hn::BitCast(dw, words[i]); };
  const V scale = half_of(w(0));
  const V minus = half_of(hn::ShiftRight<16>(w(0)));
  const auto six = hn::Set(dw, 0x3F3F3F3Fu);
  const auto four = hn::Set(dw, 0x0F0F0F0Fu);
  const auto high = hn::Set(dw, 0x30303030u);
  const auto four_of = [&](V factor, VWords whole, float(*out)[kLanes]) HWY_ATTR {
    hn::Store(hn::Mul(factor, byte_of<0>(whole)), d, out[0]);
    hn::Store(hn::Mul(factor, byte_of<1>(whole)), d, out[1]);
    hn::Store(hn::Mul(factor, byte_of<2>(whole)), d, out[2]);
    hn::Store(hn::Mul(factor, byte_of<3>(whole)), d, out[3]);
  };
  four_of(scale, hn::And(w(1), six), to.scale + 8 * block);
  four_of(scale, hn::Or(hn::And(w(3), four), hn::And(hn::ShiftRight<2>(w(1)), high)),
          to.scale + 8 * block + 4);
  four_of(minus, hn::And(w(2), six), to.minus + 8 * block);
  four_of(minus, hn::Or(hn::And(hn::ShiftRight<4>(w(3)), four), hn::And(hn::ShiftRight<2>(w(2)), high)),
          to.minus + 8 * block + 4);
}
// Two groups: the low halves of 32 bytes, and the high ones.
template <class Sink>
HWY_INLINE void two_groups_of_q4_k(const PanelRows& rows, std::size_t offset, std::size_t g, const Sink& to) {
  VBytes words[4], part[4];
  auto low = to.template begin<2>(g);
  auto high = to.template begin<2>(g + 1);
  to.take(rows, offset, words);
  low_halves(words, part);
  low.template add<0>(part);
  high_halves(words, part);
  high.template add<0>(part);
  to.take(rows, offset + 16, words);
  low_halves(words, part);
  low.template add<1>(part);
  high_halves(words, part);
  high.template add<1>(part);
  to.end(g, low);
  to.end(g + 1, high);
}
template <class Ahead, class Sink>
HWY_INLINE void panel_q4_k(const PanelRows& rows, std::size_t blocks, Ahead& ahead, Scales& by,
                           const Sink& to) {
  for (std::size_t b = 0; b < blocks; ++b) {
    scales_of_k(rows, b, 144, by);
    for (std::size_t pair = 0; pair < 4; ++pair) {
      ahead.template ask<36 * kLanes>();
      two_groups_of_q4_k(rows, 144 * b + 16 + 32 * pair, 8 * b + 2 * pair, to);
    }
  }
}
// Bit Bit of every byte, as 16.
template <std::size_t Bit>
HWY_INLINE VBytes fifth_bit(VBytes bytes) {
  const Words d;
  const auto words = hn::BitCast(d, bytes);
  const auto there = hn::Set(d, 0x10101010u);
  if constexpr (Bit <= 4) {
    return hn::BitCast(Bytes(), hn::And(hn::ShiftLeft<4 - Bit>(words), there));
  } else {
    return hn::BitCast(Bytes(), hn::And(hn::ShiftRight<Bit - 4>(words), there));
  }
}
template <std::size_t Bit>
HWY_INLINE void or_fifth(VBytes* words, const VBytes* fifth) {
  for (std::size_t j = 0; j < 4; ++j) words[j] = hn::Or(words[j], fifth_bit<Bit>(fifth[j]));
}
template <std::size_t Pair, class Sink>
HWY_INLINE void two_groups_of_q5_k(const PanelRows& rows, std::size_t offset, const VBytes* fifth,
                                   std::size_t g, const Sink& to) {
  VBytes words[4], part[4];
  auto low = to.template begin<2>(g);
  auto high = to.template begin<2>(g + 1);
  to.take(rows, offset, words);
  low_halves(words, part);
  or_fifth<2 * Pair>(part, fifth);
  low.template add<0>(part);
  high_halves(words, part);
  or_fifth<2 * Pair + 1>(part, fifth);
  high.template add<0>(part);
  to.take(rows, offset + 16, words);
  low_halves(words, part);
  or_fifth<2 * Pair>(part, fifth + 4);
  low.template add<1>(part);
  high_halves(words, part);
  or_fifth<2 * Pair + 1>(part, fifth + 4);
  high.template add<1>(part);
  to.end(g, low);
  to.end(g + 1, high);
}
template <class Ahead, class Sink>
HWY_INLINE void panel_q5_k(const PanelRows& rows, std::size_t blocks, Ahead& ahead, Scales& by,
                           const Sink& to) {
  VBytes fifth[8];
  for (std::size_t b = 0; b < blocks; ++b) {
    scales_of_k(rows, b, 176, by);
    to.take(rows, 176 * b + 16, fifth);
    to.take(rows, 176 * b + 32, fifth + 4);
    const std::size_t at = 176 * b + 48;
    ahead.template ask<44 * kLanes>();
    two_groups_of_q5_k<0>(rows, at, fifth, 8 * b, to);
    ahead.template ask<44 * kLanes>();
    two_groups_of_q5_k<1>(rows, at + 32, fifth, 8 * b + 2, to);
    ahead.template ask<44 * kLanes>();
    two_groups_of_q5_k<2>(rows, at + 64, fifth, 8 * b + 4, to);
    ahead.template ask<44 * kLanes>();
    two_groups_of_q5_k<3>(rows, at + 96, fifth, 8 * b + 6, to);
  }
}

// Two bits from bit Bit on of every byte, at bit 4.
template <std::size_t Bit>
HWY_INLINE VBytes upper_two(VBytes bytes) {
  const Words d;
  const auto words = hn::BitCast(d, bytes);
  const auto there = hn::Set(d, 0x30303030u);
  if constexpr (Bit <= 4) {
    return hn::BitCast(Bytes(), hn::And(hn::ShiftLeft<4 - Bit>(words), there));
  } else {
    return hn::BitCast(Bytes(), hn::And(hn::ShiftRight<Bit - 4>(words), there));
  }
}
template <std::size_t Bit, class Sink>
HWY_INLINE void group_of_q6_k(VBytes* part, const VBytes* high, std::size_t g, const Sink& to) {
  for (std::size_t j = 0; j < 4; ++j) part[j] = hn::Or(part[j], upper_two<Bit>(high[j]));
  auto group = to.template begin<1>(g);
  group.template add<0>(part);
  to.end(g, group);
}
template <class Ahead, class Sink>
HWY_INLINE void panel_q6_k(const PanelRows& rows, std::size_t blocks, Ahead& ahead, Scales& by,
                           const Sink& to) {
  const F d;
  HWY_ALIGN Half factor[kWhole / 256][kLanes];
  VBytes low[4], second[4], high[4], part[4];
  for (std::size_t i = 0; i < kLanes; ++i) {
    for (std::size_t b = 0; b < blocks; ++b) std::memcpy(&factor[b][i].bits, rows.at(i) + 210 * b + 208, 2);
  }
  for (std::size_t b = 0; b < blocks; ++b) {
    for (std::size_t i = 0; i < 4; ++i) {  // 16 columns of each quarter of a half
      const std::size_t at = 210 * b + i / 2 * 64 + i % 2 * 16;
      const std::size_t g = 16 * b + i / 2 * 8 + i % 2;
      ahead.template ask<53 * kLanes>();
      to.take(rows, at, low);
      to.take(rows, at + 32, second);
      to.take(rows, 210 * b + 128 + 16 * i, high);
      low_halves(low, part);
      group_of_q6_k<0>(part, high, g, to);
      low_halves(second, part);
      group_of_q6_k<2>(part, high, g + 2, to);
      high_halves(low, part);
      group_of_q6_k<4>(part, high, g + 4, to);
      high_halves(second, part);
      group_of_q6_k<6>(part, high, g + 6, to);
    }
    const V factors = load(d, factor[b]);
    turn(rows, 210 * b + 192, low);
    for (std::size_t j = 0; j < 4; ++j) {
      const VWords four = hn::BitCast(Words(), low[j]);
      auto* scale = by.scale + 16 * b + 4 * j;
      hn::Store(hn::Mul(factors, signed_byte_of<0>(four)), d, scale[0]);
      hn::Store(hn::Mul(factors, signed_byte_of<1>(four)), d, scale[1]);
      hn::Store(hn::Mul(factors, signed_byte_of<2>(four)), d, scale[2]);
      hn::Store(hn::Mul(factors, signed_byte_of<3>(four)), d, scale[3]);
    }
  }
}

// Whether turn_blocks() knows the type.
HWY_INLINE bool is_turned(GgmlType type) {
  switch (type) {
    case GgmlType::q4_0:
    case GgmlType::q4_1:
    case GgmlType::q8_0:
    case GgmlType::iq4_nl:
    case GgmlType::q4_k:
    case GgmlType::q5_k:
    case GgmlType::q6_k:
      return true;
    default:
      return false;
  }
}
// `count` columns, whole blocks, at most kWhole: scales to `by`, words to `to`. Wide types get their top bit
// flipped by `flip` (128 or 0). `ahead` is asked every 32 columns, every 64 of blocks of 256, with the bytes
// that these take of all rows.
template <class Ahead, class Sink>
HWY_INLINE void turn_blocks(GgmlType type, const PanelRows& rows, std::size_t count, std::uint8_t flip,
                            Ahead& ahead, Scales& by, const Sink& to) {
  switch (type) {
    case GgmlType::q4_0:
      return panel_small<std::uint16_t, 18>(
          rows, count / 32, ahead, by, [&](std::size_t b) HWY_ATTR { nibbles(rows, 18 * b + 2, b, to); });
    case GgmlType::q4_1:
      return panel_small<std::uint32_t, 20>(
          rows, count / 32, ahead, by, [&](std::size_t b) HWY_ATTR { nibbles(rows, 20 * b + 4, b, to); });
    case GgmlType::q8_0:
      return panel_small<std::uint16_t, 34>(rows, count / 32, ahead, by, [&](std::size_t b) HWY_ATTR {
        whole_bytes(rows, 34 * b + 2, flip, b, to);
      });
    case GgmlType::iq4_nl:
      return panel_small<std::uint16_t, 18>(rows, count / 32, ahead, by, [&](std::size_t b) HWY_ATTR {
        book_words<Uneven>(rows, 18 * b + 2, flip, b, to);
      });
    case GgmlType::q4_k:
      return panel_q4_k(rows, count / 256, ahead, by, to);
    case GgmlType::q5_k:
      return panel_q5_k(rows, count / 256, ahead, by, to);
    default:
      return panel_q6_k(rows, count / 256, ahead, by, to);
  }
}

#endif

// Types without an own function: a row after the other.
inline void panel_by_rows(GgmlType type, const PanelRows& rows, std::size_t count, std::uint8_t offset,
                          Panel& to) {
  Span spans[kLanes];
  for (std::size_t i = 0; i < kLanes; ++i) unpack(type, rows.at(i), count, spans[i]);
  turn_spans(spans, count, static_cast<std::int8_t>(offset), count / 16, to);
}

inline void unpack_panel(GgmlType type, const PanelRows& rows, std::size_t count, std::uint8_t flip,
                         Ahead& ahead, Panel& to) {
#if HWY_TARGET != HWY_SCALAR
  if (is_turned(type)) return turn_blocks(type, rows, count, flip, ahead, to.of, KeepWords{to});
#endif
  ahead.ask_all();
  panel_by_rows(type, rows, count, static_cast<std::uint8_t>(offset_of(type)) ^ flip, to);
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

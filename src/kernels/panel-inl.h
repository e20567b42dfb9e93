// SPDX-License-Identifier: Apache-2.0
// Blocks of GGUF types to panels (turn-inl.h), a function for each type: words of several rows are turned
// round before their bits are taken apart.
#if defined(LOCANT_KERNELS_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_PANEL_INL_H_
#undef LOCANT_KERNELS_PANEL_INL_H_
#else
#define LOCANT_KERNELS_PANEL_INL_H_
#endif

#include "kernels/turn-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// ---- blocks of 32 with an f16 scale, and an f16 least value or none

// The f16 of rows side by side, as bits: one (16 bits) or two (32 bits, scale below) for a block. They are
// converted after the whole numbers are unpacked, when the small stores have left the store buffer.
template <class Bits>
struct SmallScales {
  HWY_ALIGN Bits bits[kWhole / 32][kLanes];

  template <std::size_t Size>
  HWY_INLINE void read(const PanelRows& rows, std::size_t blocks) {
    constexpr std::size_t kAll = kWhole / 32;
    for (std::size_t i = 0; i < kLanes; ++i) {
      const std::uint8_t* from = rows.at[i];
      if (blocks == kAll) {  // a count that the compiler knows
        for (std::size_t b = 0; b < kAll; ++b) std::memcpy(&bits[b][i], from + Size * b, sizeof(Bits));
      } else {
        for (std::size_t b = 0; b < blocks; ++b) std::memcpy(&bits[b][i], from + Size * b, sizeof(Bits));
      }
    }
  }
  HWY_INLINE void write(std::size_t blocks, Panel& to) const {
    const F d;
    for (std::size_t b = 0; b < blocks; ++b) {
      if constexpr (sizeof(Bits) == sizeof(Half)) {
        hn::Store(load(d, bits[b]), d, to.scale[b]);
      } else {
        const Words dw;
        const VWords both = hn::Load(dw, bits[b]);
        hn::Store(half_of(hn::And(both, hn::Set(dw, 0xFFFFu))), d, to.scale[b]);
        hn::Store(hn::Neg(half_of(hn::ShiftRight<16>(both))), d, to.minus[b]);
      }
    }
  }
};

// unpack(b) for every block.
template <class Bits, std::size_t Size, class Unpack>
HWY_INLINE void panel_small(const PanelRows& rows, std::size_t blocks, Panel& to, Unpack unpack_block) {
  SmallScales<Bits> scales;
  scales.template read<Size>(rows, blocks);
  for (std::size_t b = 0; b < blocks; ++b) {
    ask_ahead(rows, Size * b, Size * (b + 1));
    unpack_block(b);
  }
  scales.write(blocks, to);
}

HWY_INLINE void nibbles(const PanelRows& rows, std::size_t offset, std::uint32_t (*to)[kLanes]) {
  VBytes words[4];
  turn(rows, offset, words);
  for (std::size_t j = 0; j < 4; ++j) {
    put(low_half(words[j]), to[j]);
    put(hn::ShiftRight<4>(words[j]), to[4 + j]);
  }
}
HWY_INLINE void whole_bytes(const PanelRows& rows, std::size_t offset, std::uint8_t flip,
                            std::uint32_t (*to)[kLanes]) {
  const VBytes flips = hn::Set(Bytes(), flip);
  VBytes words[4];
  for (std::size_t i = 0; i < 2; ++i) {
    turn(rows, offset + 16 * i, words);
    for (std::size_t j = 0; j < 4; ++j) put(hn::Xor(words[j], flips), to[4 * i + j]);
  }
}
// `flip` is the top bit or nothing; books of 16 signed values.
template <class Book>
HWY_INLINE void book_words(const PanelRows& rows, std::size_t offset, std::uint8_t flip,
                           std::uint32_t (*to)[kLanes]) {
  const Bytes d;
  const VBytes book =
      hn::Xor(hn::LoadDup128(d, reinterpret_cast<const std::uint8_t*>(Book::kTable)), hn::Set(d, flip));
  VBytes words[4];
  turn(rows, offset, words);
  for (std::size_t j = 0; j < 4; ++j) {
    put(hn::TableLookupBytes(book, low_half(words[j])), to[j]);
    put(hn::TableLookupBytes(book, hn::ShiftRight<4>(words[j])), to[4 + j]);
  }
}

// ---- blocks of 256

// Q4_K and Q5_K: 16 bytes of two f16, then scales and minuses of 6 bits.
HWY_INLINE void scales_of_k(const PanelRows& rows, std::size_t block, std::size_t size, Panel& to) {
  const F d;
  const Words dw;
  VBytes words[4];
  turn(rows, size * block, words);
  const auto w = [&](int i) HWY_ATTR { return hn::BitCast(dw, words[i]); };
  const V scale = half_of(hn::And(w(0), hn::Set(dw, 0xFFFFu)));
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
HWY_INLINE void panel_q4_k(const PanelRows& rows, std::size_t blocks, Panel& to) {
  VBytes words[4];
  for (std::size_t b = 0; b < blocks; ++b) {
    ask_ahead(rows, 144 * b, 144 * (b + 1));
    scales_of_k(rows, b, 144, to);
    for (std::size_t i = 0; i < 8; ++i) {
      turn(rows, 144 * b + 16 + 16 * i, words);
      auto* q = to.q + 64 * b + i / 2 * 16 + i % 2 * 4;
      for (std::size_t j = 0; j < 4; ++j) {
        put(low_half(words[j]), q[j]);
        put(hn::ShiftRight<4>(words[j]), q[8 + j]);
      }
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
template <std::size_t Pair>
HWY_INLINE void two_groups_of_q5_k(const PanelRows& rows, std::size_t offset, const VBytes* fifth,
                                   std::uint32_t (*q)[kLanes]) {
  VBytes words[4];
  for (std::size_t i = 0; i < 2; ++i) {
    turn(rows, offset + 32 * Pair + 16 * i, words);
    for (std::size_t j = 0; j < 4; ++j) {
      const VBytes bits = fifth[4 * i + j];
      put(hn::Or(low_half(words[j]), fifth_bit<2 * Pair>(bits)), q[16 * Pair + 4 * i + j]);
      put(hn::Or(hn::ShiftRight<4>(words[j]), fifth_bit<2 * Pair + 1>(bits)), q[16 * Pair + 8 + 4 * i + j]);
    }
  }
}
HWY_INLINE void panel_q5_k(const PanelRows& rows, std::size_t blocks, Panel& to) {
  VBytes fifth[8];
  for (std::size_t b = 0; b < blocks; ++b) {
    ask_ahead(rows, 176 * b, 176 * (b + 1));
    scales_of_k(rows, b, 176, to);
    turn(rows, 176 * b + 16, fifth);
    turn(rows, 176 * b + 32, fifth + 4);
    auto* q = to.q + 64 * b;
    two_groups_of_q5_k<0>(rows, 176 * b + 48, fifth, q);
    two_groups_of_q5_k<1>(rows, 176 * b + 48, fifth, q);
    two_groups_of_q5_k<2>(rows, 176 * b + 48, fifth, q);
    two_groups_of_q5_k<3>(rows, 176 * b + 48, fifth, q);
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
HWY_INLINE void panel_q6_k(const PanelRows& rows, std::size_t blocks, Panel& to) {
  const F d;
  HWY_ALIGN Half factor[kLanes];
  VBytes low[4], second[4], high[4];
  for (std::size_t b = 0; b < blocks; ++b) {
    ask_ahead(rows, 210 * b, 210 * (b + 1));
    for (std::size_t i = 0; i < kLanes; ++i) std::memcpy(&factor[i].bits, rows.at[i] + 210 * b + 208, 2);
    const V by = load(d, factor);
    turn(rows, 210 * b + 192, low);
    for (std::size_t j = 0; j < 4; ++j) {
      const VWords four = hn::BitCast(Words(), low[j]);
      auto* scale = to.scale + 16 * b + 4 * j;
      hn::Store(hn::Mul(by, signed_byte_of<0>(four)), d, scale[0]);
      hn::Store(hn::Mul(by, signed_byte_of<1>(four)), d, scale[1]);
      hn::Store(hn::Mul(by, signed_byte_of<2>(four)), d, scale[2]);
      hn::Store(hn::Mul(by, signed_byte_of<3>(four)), d, scale[3]);
    }
    for (std::size_t i = 0; i < 4; ++i) {  // 16 columns of each quarter of a half
      const std::size_t at = 210 * b + i / 2 * 64 + i % 2 * 16;
      turn(rows, at, low);
      turn(rows, at + 32, second);
      turn(rows, 210 * b + 128 + 16 * i, high);
      auto* q = to.q + 64 * b + i / 2 * 32 + i % 2 * 4;
      for (std::size_t j = 0; j < 4; ++j) {
        put(hn::Or(low_half(low[j]), upper_two<0>(high[j])), q[j]);
        put(hn::Or(low_half(second[j]), upper_two<2>(high[j])), q[8 + j]);
        put(hn::Or(hn::ShiftRight<4>(low[j]), upper_two<4>(high[j])), q[16 + j]);
        put(hn::Or(hn::ShiftRight<4>(second[j]), upper_two<6>(high[j])), q[24 + j]);
      }
    }
  }
}

#endif

// Types without an own function: a row after the other.
inline void panel_by_rows(GgmlType type, const PanelRows& rows, std::size_t count, std::uint8_t offset,
                          Panel& to) {
  Span spans[kLanes];
  ask_ahead(rows, 0, count / index(block_elements(type)) * index(block_bytes(type)));
  for (std::size_t i = 0; i < kLanes; ++i) unpack(type, rows.at[i], count, spans[i]);
  turn_spans(spans, count, static_cast<std::int8_t>(offset), count / 16, to);
}

// `count` columns, whole blocks, at most kWhole. Wide types get their top bit flipped by `flip` (128 or 0).
inline void unpack_panel(GgmlType type, const PanelRows& rows, std::size_t count,
                         [[maybe_unused]] std::uint8_t flip, Panel& to) {
#if HWY_TARGET != HWY_SCALAR
  switch (type) {
    case GgmlType::q4_0:
      return panel_small<Half, 18>(rows, count / 32, to,
                                   [&](std::size_t b) HWY_ATTR { nibbles(rows, 18 * b + 2, to.q + 8 * b); });
    case GgmlType::q4_1:
      return panel_small<std::uint32_t, 20>(
          rows, count / 32, to, [&](std::size_t b) HWY_ATTR { nibbles(rows, 20 * b + 4, to.q + 8 * b); });
    case GgmlType::q8_0:
      return panel_small<Half, 34>(rows, count / 32, to, [&](std::size_t b) HWY_ATTR {
        whole_bytes(rows, 34 * b + 2, flip, to.q + 8 * b);
      });
    case GgmlType::iq4_nl:
      return panel_small<Half, 18>(rows, count / 32, to, [&](std::size_t b) HWY_ATTR {
        book_words<Uneven>(rows, 18 * b + 2, flip, to.q + 8 * b);
      });
    case GgmlType::q4_k:
      return panel_q4_k(rows, count / 256, to);
    case GgmlType::q5_k:
      return panel_q5_k(rows, count / 256, to);
    case GgmlType::q6_k:
      return panel_q6_k(rows, count / 256, to);
    default:
      break;
  }
#endif
  panel_by_rows(type, rows, count, static_cast<std::uint8_t>(offset_of(type)) ^ flip, to);
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

// SPDX-License-Identifier: Apache-2.0
// Blocks of 32 to panels (panel-inl.h): their f16 scales, gathered from each row and turned round, and their
// nibbles and bytes.
#if defined(LOCANT_KERNELS_PANEL_SMALL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_PANEL_SMALL_INL_H_
#undef LOCANT_KERNELS_PANEL_SMALL_INL_H_
#else
#define LOCANT_KERNELS_PANEL_SMALL_INL_H_
#endif

#include "kernels/turn-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

#if HWY_TARGET == HWY_AVX3
// The scales of a row's first blocks, of each 64 bytes those that lie in them, two loads at a time; returns
// how many blocks these were.
template <class Bits, std::size_t Size>
HWY_INLINE std::size_t most_scales(const std::uint8_t* from, std::size_t blocks, Bits* to) {
  constexpr std::size_t kEach = (64 - sizeof(Bits)) / Size + 1;
  struct Places {
    alignas(64) Bits at[64 / sizeof(Bits)] = {};
  };
  static constexpr Places kPlaces = [] {
    Places places;
    for (std::size_t i = 0; i < 2 * kEach; ++i)
      places.at[i] = static_cast<Bits>((i / kEach * 64 + i % kEach * Size) / sizeof(Bits));
    return places;
  }();
  const __m512i places = _mm512_load_si512(kPlaces.at);
  std::size_t b = 0;
  for (; b + 2 * kEach <= blocks; b += 2 * kEach) {
    const __m512i first = _mm512_loadu_si512(from + Size * b);
    const __m512i second = _mm512_loadu_si512(from + Size * (b + kEach));
    if constexpr (sizeof(Bits) == 4) {
      const __m512i all = _mm512_permutex2var_epi32(first, places, second);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + b), _mm512_castsi512_si256(all));
    } else {
      const __m128i all = _mm512_castsi512_si128(_mm512_permutex2var_epi16(first, places, second));
      if constexpr (kEach == 4) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + b), all);
      } else {
        _mm_storel_epi64(reinterpret_cast<__m128i*>(to + b), all);
      }
    }
  }
  return b;
}
#endif

// The f16 of the blocks of each row, as bits: one (16 bits) or two (32 bits, scale below) for a block. They
// are turned round after the whole numbers are unpacked, when the small stores have left the store buffer.
template <class Bits, std::size_t Size>
struct SmallScales {
  static constexpr std::size_t kAll = kWhole / 32;
  HWY_ALIGN Bits bits[kLanes][kAll];

  HWY_INLINE void read(const PanelRows& rows, std::size_t blocks) {
    const std::uint8_t* from = rows.first;
    for (std::size_t i = 0; i < kLanes; ++i, from += rows.stride) {
      std::size_t b = 0;
#if HWY_TARGET == HWY_AVX3
      b = most_scales<Bits, Size>(from, blocks, bits[i]);
#else
      if (blocks == kAll) {  // a count that the compiler knows
        for (; b < kAll; ++b) std::memcpy(&bits[i][b], from + Size * b, sizeof(Bits));
      }
#endif
      for (; b < blocks; ++b) std::memcpy(&bits[i][b], from + Size * b, sizeof(Bits));
    }
  }
  HWY_INLINE void write(std::size_t blocks, Scales& to) const {
    const F d;
    const PanelRows rows{reinterpret_cast<const std::uint8_t*>(bits[0]), sizeof(bits[0])};
    VBytes words[4];
    for (std::size_t b = 0; b < blocks; b += 16 / sizeof(Bits)) {  // blocks past the end are never read
      turn(rows, b * sizeof(Bits), words);
      for (std::size_t j = 0; j < 4; ++j) {
        const VWords word = hn::BitCast(Words(), words[j]);
        if constexpr (sizeof(Bits) == sizeof(Half)) {
          hn::Store(half_of(word), d, to.scale[b + 2 * j]);
          hn::Store(half_of(hn::ShiftRight<16>(word)), d, to.scale[b + 2 * j + 1]);
        } else {
          hn::Store(half_of(word), d, to.scale[b + j]);
          hn::Store(hn::Neg(half_of(hn::ShiftRight<16>(word))), d, to.minus[b + j]);
        }
      }
    }
  }
};

// unpack_block(b) for every block.
template <class Bits, std::size_t Size, class Ahead, class Unpack>
HWY_INLINE void panel_small(const PanelRows& rows, std::size_t blocks, Ahead& ahead, Scales& to,
                            Unpack unpack_block) {
  SmallScales<Bits, Size> scales;
  scales.read(rows, blocks);
  for (std::size_t b = 0; b < blocks; ++b) {
    ahead.template ask<Size>();
    unpack_block(b);
  }
  scales.write(blocks, to);
}

HWY_INLINE void low_halves(const VBytes* words, VBytes* low) {
  for (std::size_t j = 0; j < 4; ++j) low[j] = low_half(words[j]);
}
HWY_INLINE void high_halves(const VBytes* words, VBytes* high) {
  for (std::size_t j = 0; j < 4; ++j) high[j] = hn::ShiftRight<4>(words[j]);
}

template <class Sink>
HWY_INLINE void nibbles(const PanelRows& rows, std::size_t offset, std::size_t g, const Sink& to) {
  VBytes words[4], part[4];
  to.take(rows, offset, words);
  auto group = to.template begin<2>(g);
  low_halves(words, part);
  group.template add<0>(part);
  high_halves(words, part);
  group.template add<1>(part);
  to.end(g, group);
}
template <class Sink>
HWY_INLINE void whole_bytes(const PanelRows& rows, std::size_t offset, std::uint8_t flip, std::size_t g,
                            const Sink& to) {
  const VBytes flips = hn::Set(Bytes(), flip);
  VBytes words[4];
  auto group = to.template begin<2>(g);
  to.take(rows, offset, words);
  for (VBytes& word : words) word = hn::Xor(word, flips);
  group.template add<0>(words);
  to.take(rows, offset + 16, words);
  for (VBytes& word : words) word = hn::Xor(word, flips);
  group.template add<1>(words);
  to.end(g, group);
}
// `flip` is the top bit or nothing; books of 16 signed values.
template <class Book, class Sink>
HWY_INLINE void book_words(const PanelRows& rows, std::size_t offset, std::uint8_t flip, std::size_t g,
                           const Sink& to) {
  const Bytes d;
  const VBytes book =
      hn::Xor(hn::LoadDup128(d, reinterpret_cast<const std::uint8_t*>(Book::kTable)), hn::Set(d, flip));
  VBytes words[4], part[4];
  to.take(rows, offset, words);
  auto group = to.template begin<2>(g);
  low_halves(words, part);
  for (VBytes& word : part) word = hn::TableLookupBytes(book, word);
  group.template add<0>(part);
  high_halves(words, part);
  for (VBytes& word : part) word = hn::TableLookupBytes(book, word);
  group.template add<1>(part);
  to.end(g, group);
}

#endif

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

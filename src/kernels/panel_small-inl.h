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

// A word of each row: a scale, or a scale with what is added above it.
template <class Bits>
HWY_INLINE void put_scales(VWords words, std::size_t g, Scales& to) {
  const F d;
  if constexpr (sizeof(Bits) == sizeof(Half)) {
    hn::Store(half_of(words), d, to.scale[g]);
    hn::Store(half_of(hn::ShiftRight<16>(words)), d, to.scale[g + 1]);
  } else {
    hn::Store(half_of(words), d, to.scale[g]);
    hn::Store(hn::Neg(half_of(hn::ShiftRight<16>(words))), d, to.minus[g]);
  }
}
// 16 bytes of scales of each row, from block g on.
template <class Bits>
HWY_INLINE void put_turned(const VBytes* words, std::size_t g, Scales& to) {
  for (std::size_t j = 0; j < 4; ++j)
    put_scales<Bits>(hn::BitCast(Words(), words[j]), g + j * sizeof(std::uint32_t) / sizeof(Bits), to);
}

#if HWY_TARGET == HWY_AVX3
// The scales of as many blocks as 16 bytes hold, picked out of 64 bytes for each kEach of them.
template <class Bits, std::size_t Size>
struct PickScales {
  static constexpr std::size_t kBlocks = 16 / sizeof(Bits);
  static constexpr std::size_t kEach =
      HWY_MIN((64 - sizeof(Bits)) / Size + 1, kBlocks / (sizeof(Bits) == 4 ? 1 : 2));
  static_assert(kBlocks % kEach == 0);
  struct Places {
    alignas(64) Bits at[64 / sizeof(Bits)] = {};
  };
  static constexpr Places kPlaces = [] {
    Places places;
    for (std::size_t i = 0; i < 2 * kEach; ++i)
      places.at[i] = static_cast<Bits>((i / kEach * 64 + i % kEach * Size) / sizeof(Bits));
    return places;
  }();

  static HWY_INLINE __m512i load(const std::uint8_t* row, std::size_t block) {
    return _mm512_loadu_si512(row + Size * block);
  }
  static HWY_INLINE __m128i two(const std::uint8_t* row, std::size_t block) {
    return _mm512_castsi512_si128(
        _mm512_permutex2var_epi16(load(row, block), _mm512_load_si512(kPlaces.at), load(row, block + kEach)));
  }
  static HWY_INLINE hn::Vec<Bytes16> of(const std::uint8_t* row) {
    if constexpr (sizeof(Bits) == 4) {
      return {_mm512_castsi512_si128(_mm512_permutexvar_epi32(_mm512_load_si512(kPlaces.at), load(row, 0)))};
    } else if constexpr (2 * kEach == kBlocks) {
      return {two(row, 0)};
    } else {
      return {_mm_unpacklo_epi64(two(row, 0), two(row, 2 * kEach))};
    }
  }
};
#elif HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4
// One after the other, but not through memory: loads would wait for such small stores.
template <class Bits, std::size_t Size>
struct PickScales {
  static constexpr std::size_t kBlocks = 16 / sizeof(Bits);
  template <int I>
  static HWY_INLINE void insert(const std::uint8_t* row, __m128i& all) {
    if constexpr (I < static_cast<int>(kBlocks)) {
      Bits bits;
      std::memcpy(&bits, row + Size * I, sizeof(bits));
      if constexpr (sizeof(Bits) == 4) {
        all = _mm_insert_epi32(all, static_cast<int>(bits), I);
      } else {
        all = _mm_insert_epi16(all, bits, I);
      }
      insert<I + 1>(row, all);
    }
  }
  static HWY_INLINE hn::Vec<Bytes16> of(const std::uint8_t* row) {
    __m128i all = _mm_setzero_si128();
    insert<0>(row, all);
    return hn::Vec<Bytes16>{all};
  }
};
#endif
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4
// Returns how many blocks of all rows these were.
template <class Bits, std::size_t Size>
HWY_INLINE std::size_t most_scales(const PanelRows& rows, std::size_t blocks, Scales& to) {
  using Pick = PickScales<Bits, Size>;
  std::size_t b = 0;
  for (; b + Pick::kBlocks <= blocks; b += Pick::kBlocks) {
    VBytes part[4];
    VBytes words[4];
    const std::uint8_t* row = rows.first + Size * b;
    for (VBytes& four : part) {
      row = as_it_is(row);
      four = join_parts([&](int i) HWY_ATTR { return Pick::of(row + 4 * i * rows.stride); });
      row += rows.stride;
    }
    turn_quarters(part, words);
    put_turned<Bits>(words, b, to);
  }
  return b;
}
#endif

// The f16 of the blocks of each row: one (16 bits) or two (32 bits, scale below) for a block.
template <class Bits, std::size_t Size>
HWY_INLINE void scales_of_small(const PanelRows& rows, std::size_t blocks, Scales& to) {
  constexpr std::size_t kAll = kWhole / 32;
  std::size_t done = 0;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4
  done = most_scales<Bits, Size>(rows, blocks, to);
  if (done == blocks) return;
#endif
  HWY_ALIGN Bits bits[kLanes][kAll];
  const std::uint8_t* from = rows.first;
  for (std::size_t i = 0; i < kLanes; ++i, from += rows.stride) {
    for (std::size_t b = done; b < blocks; ++b) std::memcpy(&bits[i][b], from + Size * b, sizeof(Bits));
  }
  constexpr std::size_t kEach = 16 / sizeof(Bits);
  for (std::size_t b = done; b < blocks; b += kEach) {  // blocks past the end are never read
    VBytes words[4];
    turn({reinterpret_cast<const std::uint8_t*>(bits[0]), sizeof(bits[0])}, b * sizeof(Bits), words);
    put_turned<Bits>(words, b, to);
  }
}

// unpack_block(b) for every block.
template <class Bits, std::size_t Size, class Ahead, class Unpack>
HWY_INLINE void panel_small(const PanelRows& rows, std::size_t blocks, Ahead& ahead, Scales& to,
                            Unpack unpack_block) {
  scales_of_small<Bits, Size>(rows, blocks, to);
  for (std::size_t b = 0; b < blocks; ++b) {
    ahead.template ask<Size * kLanes>();
    unpack_block(b);
  }
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

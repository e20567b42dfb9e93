// SPDX-License-Identifier: Apache-2.0
// Panels of rows (attend-panel-inl.h) over caches of bf16, with both products in the tile registers of AMX.
// Lanes are rows here too, so keys are the left operand as they lie in the cache, and pairs of queries and of
// weights come from two vectors without a turn. Only values are turned, once for all panels of a block.
//
//   S[slot][rows] = K[slot][i] Q[i][rows]        16 x 16 += 16 x 32 by 32 x 16 for every part of Q
//   O[c][rows]    = V^T[c][slot] P[slot][rows]   the same for every part of P
//
// Q and P are f32, taken exactly as sums of three bf16 (amx-inl.h): the error is that of f32 sums. Slots that
// only some rows see are added by vectors under a mask. A key that is not finite makes its scores NaN.
#if defined(LOCANT_KERNELS_ATTEND_AMX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_ATTEND_AMX_INL_H_
#undef LOCANT_KERNELS_ATTEND_AMX_INL_H_
#else
#define LOCANT_KERNELS_ATTEND_AMX_INL_H_
#endif

#include "kernels/amx_tiles.h"
#include "kernels/attend-panel-inl.h"
#include "kernels/parts-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

// A tile has as many columns as a vector of AVX-512 has lanes: other targets have no panels of whole tiles.
#if HWY_TARGET == HWY_AVX3

inline constexpr std::int64_t kTileSlots = 32;  // of one product with values
static_assert(kStep == kTileSide);

struct AmxPanelScratch {
  PanelScratch s;
  HWY_ALIGN std::uint32_t q[3 * kAttendFloats / 2];           // [panel][part][key_width / 2][its rows]
  HWY_ALIGN std::uint32_t p[3][kPanelSlots / 2][kPanelRows];  // pairs of slots
  HWY_ALIGN std::uint16_t values[kPanelFloats];               // [value_width][slots of a chunk]
  HWY_ALIGN std::uint16_t keys[kTileSide * kAttendWidth];     // a tile at the end of a chunk
  HWY_ALIGN std::uint16_t columns[kTileSide][kTileSlots];     // likewise of values
  HWY_ALIGN float sums[kTileSide * kPanelRows];
  std::int64_t slots;  // of a chunk
};

[[nodiscard]] HWY_INLINE bool fits_tiles(const AttendBlock& b) {
  return b.key_dtype == DType::bf16 && b.value_dtype == DType::bf16 && b.key_width % kTileSlots == 0 &&
         b.value_width % kTileSide == 0 && HWY_MAX(b.key_width, b.value_width) <= kPanelFloats / kTileSlots;
}

// to[part][row of a pair][rows] from rows of vectors; rows past `count` are zero.
template <int Vectors>
HWY_INLINE void pair_rows(const float* from, std::int64_t count, std::int64_t pairs, std::uint32_t* to,
                          std::int64_t part_stride) {
  const F d;
  const hn::RebindToUnsigned<F> du;
  for (std::int64_t i = 0; i < pairs; ++i) {
    for (int v = 0; v < Vectors; ++v) {
      const float* at = from + 2 * i * kRowsOf<Vectors> + v * kStep;
      const V even = 2 * i < count ? hn::Load(d, at) : hn::Zero(d);
      const V odd = 2 * i + 1 < count ? hn::Load(d, at + kRowsOf<Vectors>) : hn::Zero(d);
      VecOf<decltype(du)> low[3], high[3];
      split<3>(even, low);
      split<3>(odd, high);
      for (int p = 0; p < 3; ++p)
        hn::Store(hn::Or(low[p], hn::ShiftLeft<16>(high[p])), du,
                  to + p * part_stride + i * kRowsOf<Vectors> + v * kStep);
    }
  }
}

// Values of the chunk to [value_width][slots], whole blocks of 8 x 8.
HWY_INLINE void turn_values(const AttendBlock& b, const Chunk& chunk, AmxPanelScratch& t) {
  const hn::CappedTag<std::uint16_t, 8> d;
  const hn::Repartition<std::uint32_t, decltype(d)> d32;
  const hn::Repartition<std::uint64_t, decltype(d)> d64;
  const auto* from = static_cast<const std::uint16_t*>(b.values) + chunk.begin * b.value_width;
  std::int64_t j = 0;
  for (; j + 8 <= chunk.count; j += 8) {
    for (std::int64_t c = 0; c < b.value_width; c += 8) {
      hn::Vec<decltype(d)> rows[8];
      for (int n = 0; n < 8; ++n) rows[n] = hn::LoadU(d, from + (j + n) * b.value_width + c);
      hn::Vec<decltype(d32)> two[8];
      for (int n = 0; n < 8; n += 2) {
        two[n] = hn::BitCast(d32, hn::InterleaveLower(d, rows[n], rows[n + 1]));
        two[n + 1] = hn::BitCast(d32, hn::InterleaveUpper(d, rows[n], rows[n + 1]));
      }
      // two[n] holds columns 0 ... 3, two[n + 1] columns 4 ... 7 of rows n, n + 1.
      for (int half = 0; half < 2; ++half) {
        const auto a = hn::BitCast(d64, hn::InterleaveLower(d32, two[half], two[2 + half]));
        const auto e = hn::BitCast(d64, hn::InterleaveUpper(d32, two[half], two[2 + half]));
        const auto f = hn::BitCast(d64, hn::InterleaveLower(d32, two[4 + half], two[6 + half]));
        const auto g = hn::BitCast(d64, hn::InterleaveUpper(d32, two[4 + half], two[6 + half]));
        std::uint16_t* to = t.values + (c + 4 * half) * t.slots + j;
        hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, a, f)), d, to);
        hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, a, f)), d, to + t.slots);
        hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, e, g)), d, to + 2 * t.slots);
        hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, e, g)), d, to + 3 * t.slots);
      }
    }
  }
  for (; j < chunk.count; ++j) {
    for (std::int64_t c = 0; c < b.value_width; ++c) t.values[c * t.slots + j] = from[j * b.value_width + c];
  }
}

// Tiles 0 ... Vectors - 1 += A B of every part of B: `steps` times 32 of A's columns.
template <int Vectors, class Tiles>
HWY_INLINE void add_parts(Tiles& tiles, const std::uint16_t* a, std::size_t a_stride, const std::uint32_t* b,
                          std::int64_t part_stride, std::int64_t steps) {
  constexpr std::size_t kRowBytes = 4 * static_cast<std::size_t>(kRowsOf<Vectors>);
  for (std::int64_t step = 0; step < steps; ++step) {
    tiles.template load<6>(a + 32 * step, a_stride);
    for (int p = 0; p < 3; ++p) {
      const std::uint32_t* from = b + p * part_stride + 16 * step * kRowsOf<Vectors>;
      tiles.template load<3>(from, kRowBytes);
      tiles.template add_bf16<0, 6, 3>();
      if constexpr (Vectors > 1) {
        tiles.template load<4>(from + kStep, kRowBytes);
        tiles.template add_bf16<1, 6, 4>();
      }
      if constexpr (Vectors > 2) {
        tiles.template load<5>(from + 2 * kStep, kRowBytes);
        tiles.template add_bf16<2, 6, 5>();
      }
    }
  }
}
template <int Vectors, class Tiles>
HWY_INLINE void zero_sums(Tiles& tiles) {
  tiles.template zero<0>();
  if constexpr (Vectors > 1) tiles.template zero<1>();
  if constexpr (Vectors > 2) tiles.template zero<2>();
}
template <int Vectors, class Tiles>
HWY_INLINE void store_sums(Tiles& tiles, float* to) {
  constexpr std::size_t kRowBytes = 4 * static_cast<std::size_t>(kRowsOf<Vectors>);
  tiles.template store<0>(to, kRowBytes);
  if constexpr (Vectors > 1) tiles.template store<1>(to + kStep, kRowBytes);
  if constexpr (Vectors > 2) tiles.template store<2>(to + 2 * kStep, kRowBytes);
}

template <int Vectors, class Tiles>
HWY_INLINE void scores_in_tiles(const Panel& p, const Chunk& chunk, AmxPanelScratch& t, Tiles& tiles) {
  const std::int64_t width = p.b.key_width;
  const auto* keys = static_cast<const std::uint16_t*>(p.b.keys) + chunk.begin * width;
  const std::uint32_t* q = t.q + 3 * p.row * (width / 2);
  for (std::int64_t j = p.seen.first; j < p.seen.end; j += kTileSide) {
    const std::int64_t live = HWY_MIN(kTileSide, p.seen.end - j);
    const std::uint16_t* from = keys + j * width;
    if (live < kTileSide) {  // what lies behind the chunk may be no memory
      std::memset(t.keys, 0, index(kTileSide * width) * sizeof(t.keys[0]));
      std::memcpy(t.keys, from, index(live * width) * sizeof(t.keys[0]));
      from = t.keys;
    }
    zero_sums<Vectors>(tiles);
    add_parts<Vectors>(tiles, from, 2 * index(width), q, width / 2 * kRowsOf<Vectors>, width / 32);
    float* to = p.s.weights + j * kRowsOf<Vectors>;
    store_sums<Vectors>(tiles, live < kTileSide ? t.sums : to);
    if (live < kTileSide) std::memcpy(to, t.sums, index(live * kRowsOf<Vectors>) * sizeof(float));
  }
}

// t.sums = 16 columns of V^T P over the slots that all rows see.
template <int Vectors, class Tiles>
HWY_INLINE void values_in_tiles(const Panel& p, std::int64_t c, AmxPanelScratch& t, Tiles& tiles) {
  const std::int64_t count = p.seen.full_end - p.seen.full_first;
  const std::int64_t whole = count / kTileSlots;
  const std::uint16_t* from = t.values + c * t.slots + p.seen.full_first;
  constexpr std::int64_t kPart = kPanelSlots / 2 * kPanelRows;
  zero_sums<Vectors>(tiles);
  add_parts<Vectors>(tiles, from, 2 * index(t.slots), t.p[0][0], kPart, whole);
  if (const std::int64_t rest = count - whole * kTileSlots; rest > 0) {
    std::memset(t.columns, 0, sizeof(t.columns));
    for (std::int64_t n = 0; n < kTileSide; ++n)
      std::memcpy(t.columns[n], from + n * t.slots + whole * kTileSlots, index(rest) * sizeof(from[0]));
    add_parts<Vectors>(tiles, t.columns[0], sizeof(t.columns[0]),
                       t.p[0][0] + whole * kTileSide * kRowsOf<Vectors>, kPart, 1);
  }
  store_sums<Vectors>(tiles, t.sums);
}

// Columns c ... c + kTile - 1, whose sums begin as `sums`: what only some rows see, and the sums so far.
template <int Vectors>
HWY_INLINE void finish_columns(const Panel& p, const float* values, const float* sums, std::int64_t c) {
  const F d;
  V acc[kTile][Vectors];
  for (int n = 0; n < kTile; ++n) {
    for (int v = 0; v < Vectors; ++v) acc[n][v] = hn::Load(d, sums + n * kRowsOf<Vectors> + v * kStep);
  }
  add_slots<true>(p, values + c, p.seen.first, HWY_MIN(p.seen.full_first, p.seen.end), acc);
  add_slots<true>(p, values + c, HWY_MAX(p.seen.full_first, p.seen.full_end), p.seen.end, acc);
  for (int v = 0; v < Vectors; ++v) {
    const V shrink = hn::Load(d, p.s.shrink + v * kStep);
    for (int n = 0; n < kTile; ++n) {
      float* at = p.out + (c + n) * kRowsOf<Vectors> + v * kStep;
      hn::Store(hn::MulAdd(hn::Load(d, at), shrink, acc[n][v]), d, at);
    }
  }
}

template <int Vectors, class Tiles>
HWY_NOINLINE void add_chunk_in_tiles(const Panel& p, const Chunk& chunk, AmxPanelScratch& t, Tiles& tiles) {
  const AttendBlock& b = p.b;
  V top[Vectors];
  for (int v = 0; v < Vectors; ++v) top[v] = hn::Set(F(), kNever);
  scores_in_tiles<Vectors>(p, chunk, t, tiles);
  finish_scores(p, chunk, top);
  for (std::int64_t r = p.row; r <= p.last; ++r) {
    write_scores(b, r, chunk.begin, chunk.begin + chunk.count, p.seen, p.s.weights + r - p.row,
                 kRowsOf<Vectors>);
  }
  soften(p, top);
  const std::int64_t full = p.seen.full_end - p.seen.full_first;
  pair_rows<Vectors>(p.s.weights + p.seen.full_first * kRowsOf<Vectors>, full,
                     (full + kTileSlots - 1) / kTileSlots * kTileSide, t.p[0][0],
                     kPanelSlots / 2 * kPanelRows);
  for (std::int64_t c = 0; c < b.value_width; c += kTileSide) {
    values_in_tiles<Vectors>(p, c, t, tiles);
    finish_columns<Vectors>(p, chunk.values, t.sums, c);
    finish_columns<Vectors>(p, chunk.values, t.sums + kTile * kRowsOf<Vectors>, c + kTile);
  }
}

template <class Tiles>
HWY_NOINLINE void attend_in_tiles(const AttendBlock& b, Tiles& tiles) {
  AmxPanelScratch t;
  const std::int64_t room = kPanelFloats / HWY_MAX(b.key_width, b.value_width);
  t.slots = HWY_MIN(room / kTileSlots * kTileSlots, kPanelSlots);
  tiles.configure(whole_tiles());
  each_panel(b, [&](std::int64_t row, auto vectors) HWY_ATTR {
    constexpr int kVectors = decltype(vectors)::value;
    take_panel(b, t.s, row, kRowsOf<kVectors>);
    pair_rows<kVectors>(t.s.q + row * b.key_width, b.key_width, b.key_width / 2,
                        t.q + 3 * row * (b.key_width / 2), b.key_width / 2 * kRowsOf<kVectors>);
  });
  each_chunk(
      b, t.s, t.slots,
      [&](Chunk& chunk) HWY_ATTR {
        chunk.values =
            as_floats(b.value_dtype, b.values, nullptr, b.value_width, chunk.begin, chunk.count, t.s.values);
        turn_values(b, chunk, t);
      },
      [&](const Panel& panel, const Chunk& chunk, auto vectors)
          HWY_ATTR { add_chunk_in_tiles<decltype(vectors)::value>(panel, chunk, t, tiles); });
  tiles.release();
  each_panel(b, [&](std::int64_t row, auto vectors)
                    HWY_ATTR { give_panel(b, t.s, row, decltype(vectors)::value * kStep); });
}

#endif

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

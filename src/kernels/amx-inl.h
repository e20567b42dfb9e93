// SPDX-License-Identifier: Apache-2.0
// A block of products with rows of bf16 in tiles: C[n][t] += W[n][k] X[k][t], each 16 x 32 by 32 x 16.
//
//            t: 16  16          W straight from memory; X, its pairs of k side by side, is laid out once for
//   X       +---+---+           all rows of the block, in Parts that add up to x: the leading 8 bits of its
//        32 |B6 |B7 |           24, the next 8, the last 8, which are exact, or x rounded (Parts = 1).
//           +---+---+
//   n 16 A4 |C0 |C1 |           Columns are summed 32 at a time from two chains of 16, in spans of
//   n 16 A5 |C2 |C3 |           kAmxColumns, which only order the reads.
//           +---+---+
#if defined(LOCANT_KERNELS_AMX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_AMX_INL_H_
#undef LOCANT_KERNELS_AMX_INL_H_
#else
#define LOCANT_KERNELS_AMX_INL_H_
#endif

#include "hwy/cache_control.h"
#include "kernels/amx.h"
#include "kernels/amx_tiles.h"
#include "kernels/parts-inl.h"
#include "kernels/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

inline constexpr std::int64_t kAmxColumns = 512;
inline constexpr std::int64_t kTileColumns = 32;  // of bf16

struct AmxScratch {
  HWY_ALIGN std::uint16_t parts[3][kTileSide][kAmxColumns];
  HWY_ALIGN std::uint32_t x[3][kProjectTokens / kTileSide][kAmxColumns / 2][kTileSide];
  HWY_ALIGN std::uint16_t w[2 * kTileSide][kAmxColumns];
  HWY_ALIGN float sums[kAmxRows][kProjectTokens];
};

// to[j][i] = pair j of row i.
HWY_INLINE void turn_pairs(const std::uint16_t (*rows)[kAmxColumns], std::int64_t pairs,
                           std::uint32_t (*to)[kTileSide]) {
  const auto* from = reinterpret_cast<const std::uint32_t(*)[kAmxColumns / 2]>(rows);
#if HWY_TARGET == HWY_SCALAR
  for (std::int64_t j = 0; j < pairs; ++j) {
    for (std::int64_t i = 0; i < kTileSide; ++i) to[j][i] = from[i][j];
  }
#else
  const hn::CappedTag<std::uint32_t, 4> d;
  const hn::Repartition<std::uint64_t, decltype(d)> d64;
  for (std::int64_t j = 0; j < pairs; j += 4) {
    for (std::int64_t i = 0; i < kTileSide; i += 4) {
      const auto a = hn::LoadU(d, from[i] + j), b = hn::LoadU(d, from[i + 1] + j);
      const auto c = hn::LoadU(d, from[i + 2] + j), e = hn::LoadU(d, from[i + 3] + j);
      const auto ab0 = hn::BitCast(d64, hn::InterleaveLower(d, a, b));
      const auto ab1 = hn::BitCast(d64, hn::InterleaveUpper(d, a, b));
      const auto ce0 = hn::BitCast(d64, hn::InterleaveLower(d, c, e));
      const auto ce1 = hn::BitCast(d64, hn::InterleaveUpper(d, c, e));
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, ab0, ce0)), d, to[j] + i);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, ab0, ce0)), d, to[j + 1] + i);
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, ab1, ce1)), d, to[j + 2] + i);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, ab1, ce1)), d, to[j + 3] + i);
    }
  }
#endif
}

// s.x of the 16 tokens from t on, those past the end zero, columns [k, k + count) and zeros to whole tiles.
template <int Parts>
HWY_INLINE void lay_out(const ProjectBlock& b, std::int64_t t, std::int64_t k, std::int64_t count,
                        AmxScratch& s) {
  const F d;
  const hn::RebindToUnsigned<F> du;
  const hn::Rebind<std::uint16_t, F> d16;
  constexpr auto kStep = static_cast<std::int64_t>(kLanes);
  const std::int64_t whole = (count + kTileColumns - 1) / kTileColumns * kTileColumns;
  for (std::int64_t i = 0; i < kTileSide; ++i) {
    const bool live = t + i < b.tokens;
    const float* x = b.x + (t + i) * b.x_stride + k;
    for (std::int64_t j = 0; j < whole; j += kStep) {
      V v = hn::Zero(d);
      if (live && j < count)
        v = j + kStep <= count ? hn::LoadU(d, x + j) : load_n(d, x + j, index(count - j));
      VecOf<hn::RebindToUnsigned<F>> parts[3] = {hn::Zero(du), hn::Zero(du), hn::Zero(du)};
      split<Parts>(v, parts);
      for (int p = 0; p < Parts; ++p)
        hn::StoreU(hn::DemoteTo(d16, hn::BitCast(hn::RebindToSigned<F>(), parts[p])), d16, s.parts[p][i] + j);
    }
  }
  for (int p = 0; p < Parts; ++p) turn_pairs(s.parts[p], whole / 2, s.x[p][t / kTileSide]);
}

// Rows of the weight as tiles are loaded from them.
struct AmxRows {
  const void* at;
  std::size_t stride;  // bytes
};
HWY_INLINE AmxRows amx_rows(const ProjectBlock& b, std::int64_t n, std::int64_t k, std::int64_t count,
                            AmxScratch& s) {
  const auto* from = static_cast<const std::byte*>(b.weight) + 2 * (n * b.weight_stride + k);
  const auto stride = static_cast<std::size_t>(2 * b.weight_stride);
  if (n + 2 * kTileSide <= b.rows && count % kTileColumns == 0) return {from, stride};
  std::memset(s.w, 0, sizeof(s.w));
  for (std::int64_t i = 0; i < HWY_MIN(2 * kTileSide, b.rows - n); ++i)
    std::memcpy(s.w[i], from + static_cast<std::size_t>(i) * stride, index(2 * count));
  return {s.w, sizeof(s.w[0])};
}

template <int Parts, int TokenTiles, class Tiles>
HWY_INLINE void add_tiles_of(Tiles& tiles, const AmxRows& w, std::int64_t n, std::int64_t t, std::int64_t k,
                             std::int64_t steps, AmxScratch& s) {
  constexpr std::size_t kSums = sizeof(s.sums[0]);
  float* low = s.sums[n] + t;
  float* high = s.sums[n + kTileSide] + t;
  if (k == 0) {
    tiles.template zero<0>();
    tiles.template zero<1>();
    tiles.template zero<2>();
    tiles.template zero<3>();
  } else {
    tiles.template load<0>(low, kSums);
    tiles.template load<2>(high, kSums);
    if constexpr (TokenTiles == 2) {
      tiles.template load<1>(low + kTileSide, kSums);
      tiles.template load<3>(high + kTileSide, kSums);
    }
  }
  const auto* rows = static_cast<const std::byte*>(w.at);
  for (std::int64_t step = 0; step < steps; ++step) {
    tiles.template load<4>(rows + 64 * step, w.stride);
    tiles.template load<5>(rows + kTileSide * static_cast<std::int64_t>(w.stride) + 64 * step, w.stride);
    for (int p = 0; p < Parts; ++p) {
      tiles.template load<6>(s.x[p][t / kTileSide][kTileSide * step], 64);
      tiles.template add_bf16<0, 4, 6>();
      tiles.template add_bf16<2, 5, 6>();
      if constexpr (TokenTiles == 2) {
        tiles.template load<7>(s.x[p][t / kTileSide + 1][kTileSide * step], 64);
        tiles.template add_bf16<1, 4, 7>();
        tiles.template add_bf16<3, 5, 7>();
      }
    }
  }
  tiles.template store<0>(low, kSums);
  tiles.template store<2>(high, kSums);
  if constexpr (TokenTiles == 2) {
    tiles.template store<1>(low + kTileSide, kSums);
    tiles.template store<3>(high + kTileSide, kSums);
  }
}

template <int Parts, class Tiles>
HWY_NOINLINE void project_in_tiles(const ProjectBlock& b, Tiles& tiles) {
  AmxScratch s;
  tiles.configure(whole_tiles());
  for (std::int64_t k = 0; k < b.columns; k += kAmxColumns) {
    const std::int64_t count = HWY_MIN(b.columns - k, kAmxColumns);
    const std::int64_t steps = (count + kTileColumns - 1) / kTileColumns;
    for (std::int64_t t = 0; t < b.tokens; t += kTileSide) lay_out<Parts>(b, t, k, count, s);
    for (std::int64_t n = 0; n < b.rows; n += 2 * kTileSide) {
      const AmxRows rows = amx_rows(b, n, k, count, s);
      std::int64_t t = 0;
      for (; t + kTileSide < b.tokens; t += 2 * kTileSide)
        add_tiles_of<Parts, 2>(tiles, rows, n, t, k, steps, s);
      if (t < b.tokens) add_tiles_of<Parts, 1>(tiles, rows, n, t, k, steps, s);
    }
  }
  tiles.release();
  HWY_ALIGN float row[kAmxRows];
  for (std::int64_t t = 0; t < b.tokens; ++t) {
    for (std::int64_t n = 0; n < b.rows; ++n) row[n] = s.sums[n][t];
    write_out(b, t, 0, b.rows, row);
  }
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

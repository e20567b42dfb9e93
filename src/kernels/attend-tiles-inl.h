// SPDX-License-Identifier: Apache-2.0
// Tiles of attention of many rows. Lanes are rows: a panel is kLanes rows of one to three vectors, and
// queries, scores and sums of values are kept with the panel's rows next to each other, so that keys and
// values are used as they lie in the cache, one broadcast element for all rows, and maxima, weights and sums
// need no sums over lanes.
//
//   scores  S[slot][rows] = sum_i K[slot][i] Q[i][rows]        tile of kTile slots x rows in registers
//   weights P[slot][rows] = e^(S - maximum[rows])              in place
//   values  O[c][rows]    = O e^(old - new maximum) + sum_slot V[slot][c] P[slot][rows]
//                                                              tile of kTile columns x rows in registers
//
//              rows ->                    registers, 32: 8 x 3 sums + 3 + 1     16: 4 x 3 sums + 3 + 1
//          Q [i] ======            For each chunk of slots, which stays in the second cache, every panel of
//   K[slot][i]  | tile             the block takes its turn; Q and P of a panel stay in the first. Slots that
//               |                  only some rows of a panel see are added under a mask, so that what a row
//                                  does not see is never multiplied.
#if defined(LOCANT_KERNELS_ATTEND_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_ATTEND_TILES_INL_H_
#undef LOCANT_KERNELS_ATTEND_TILES_INL_H_
#else
#define LOCANT_KERNELS_ATTEND_TILES_INL_H_
#endif

#include "kernels/attend-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON
inline constexpr int kTile = 8;
#else
inline constexpr int kTile = 4;
#endif
inline constexpr int kPanelVectors = 3;
inline constexpr std::int64_t kPanelRows = kPanelVectors * kStep;
inline constexpr std::int64_t kPanelSlots = 128;     // of a chunk, at most
inline constexpr std::int64_t kPanelFloats = 16384;  // of a chunk of keys or values

struct PanelScratch {
  HWY_ALIGN float q[kAttendFloats];    // [panel][key_width][its rows]
  HWY_ALIGN float out[kAttendFloats];  // [panel][value_width][its rows]
  HWY_ALIGN float weights[(kPanelSlots + kTile) * kPanelRows];
  HWY_ALIGN float keys[kPanelFloats];
  HWY_ALIGN float values[kPanelFloats];
  HWY_ALIGN float maximum[kAttendRows + kPanelRows];
  HWY_ALIGN float sum[kAttendRows + kPanelRows];
  HWY_ALIGN float slope[kAttendRows + kPanelRows];
  HWY_ALIGN float position[kAttendRows + kPanelRows];
  HWY_ALIGN float reach[kAttendRows + kPanelRows];
  HWY_ALIGN float left[kAttendRows + kPanelRows];
  HWY_ALIGN float shrink[kPanelRows];
  HWY_ALIGN float first[kPanelRows];  // slots of the chunk that a row sees
  HWY_ALIGN float end[kPanelRows];
  float slots[kPanelSlots];                // their positions
  bool far[kAttendRows / kPanelRows + 1];  // the panel leaves the tile out
};

// A chunk of slots as every panel reads it.
struct Chunk {
  std::int64_t begin;
  std::int64_t count;
  const float* keys;  // [count][key_width]
  const float* values;
};

struct Panel {
  const AttendBlock& b;
  PanelScratch& s;
  std::int64_t row;   // the panel's first
  std::int64_t last;  // the last that is the block's
  const float* q;
  float* out;
  Seen seen;
  [[nodiscard]] HWY_INLINE bool whole(std::int64_t j, std::int64_t slots) const {
    return j >= seen.full_first && j + slots <= seen.full_end;
  }
};

template <int Vectors>
inline constexpr std::int64_t kRowsOf = Vectors* kStep;

// Rows that see slot j of the chunk.
HWY_INLINE hn::Mask<F> sees(const Panel& p, std::int64_t j, int v) {
  const F d;
  const V slot = hn::Set(d, static_cast<float>(j));
  return hn::And(hn::Ge(slot, hn::Load(d, p.s.first + v * kStep)),
                 hn::Lt(slot, hn::Load(d, p.s.end + v * kStep)));
}

template <int Vectors>
HWY_INLINE void add_slope(const Panel& p, std::int64_t j, V (&score)[Vectors]) {
  const F d;
  const V at = hn::Set(d, p.s.slots[j]);
  for (int v = 0; v < Vectors; ++v) {
    const std::int64_t r = p.row + v * kStep;
    const V distance = hn::Abs(hn::Sub(at, hn::Load(d, p.s.position + r)));
    score[v] = hn::NegMulAdd(hn::Load(d, p.s.slope + r), distance, score[v]);
  }
}

template <int Vectors>
HWY_INLINE void hide_unseen(const Panel& p, std::int64_t j, V (&score)[Vectors]) {
  const F d;
  for (int v = 0; v < Vectors; ++v) score[v] = hn::IfThenElse(sees(p, j, v), score[v], hn::Set(d, kNever));
}

// S of kTile slots; those beyond `slots` repeat the last. A function of its own, so that sums and pointers
// have all registers.
template <int Vectors>
HWY_NOINLINE void score_tile(const float* q, const float* keys, std::int64_t width, std::int64_t slots,
                             float* to) {
  const F d;
  const float* k[kTile];
  for (int n = 0; n < kTile; ++n) k[n] = keys + HWY_MIN(n, slots - 1) * width;
  V acc[kTile][Vectors];
  for (int n = 0; n < kTile; ++n) {
    for (int v = 0; v < Vectors; ++v) acc[n][v] = hn::Zero(d);
  }
  for (std::int64_t i = 0; i < width; ++i, q += kRowsOf<Vectors>) {
    V rows[Vectors];
    for (int v = 0; v < Vectors; ++v) rows[v] = hn::Load(d, q + v * kStep);
    for (int n = 0; n < kTile; ++n) {
      const V key = hn::Set(d, k[n][i]);
      for (int v = 0; v < Vectors; ++v) acc[n][v] = hn::MulAdd(rows[v], key, acc[n][v]);
    }
  }
  for (int n = 0; n < kTile; ++n) {
    for (int v = 0; v < Vectors; ++v) hn::Store(acc[n][v], d, to + n * kRowsOf<Vectors> + v * kStep);
  }
}

template <bool Sloped, bool Hidden, int Vectors>
HWY_INLINE void finish_slots(const Panel& p, std::int64_t first, std::int64_t end, V (&top)[Vectors]) {
  const F d;
  for (std::int64_t j = first; j < end; ++j) {
    float* at = p.s.weights + j * kRowsOf<Vectors>;
    V score[Vectors];
    for (int v = 0; v < Vectors; ++v) score[v] = hn::Load(d, at + v * kStep);
    if constexpr (Sloped) add_slope(p, j, score);
    if constexpr (Hidden) hide_unseen(p, j, score);
    for (int v = 0; v < Vectors; ++v) {
      top[v] = hn::Max(top[v], score[v]);
      if constexpr (Sloped || Hidden) hn::Store(score[v], d, at + v * kStep);
    }
  }
}

template <bool Sloped, int Vectors>
HWY_INLINE void finish_seen(const Panel& p, V (&top)[Vectors]) {
  finish_slots<Sloped, true>(p, p.seen.first, HWY_MIN(p.seen.full_first, p.seen.end), top);
  finish_slots<Sloped, false>(p, p.seen.full_first, p.seen.full_end, top);
  finish_slots<Sloped, true>(p, HWY_MAX(p.seen.full_first, p.seen.full_end), p.seen.end, top);
}

// Softcaps, slopes, tables and masks of products, and the maxima of what is seen.
template <int Vectors>
HWY_INLINE void finish_scores(const Panel& p, const Chunk& chunk, V (&top)[Vectors]) {
  const F d;
  const AttendBlock& b = p.b;
  if (b.softcap > 0) {
    float* at = p.s.weights + p.seen.first * kRowsOf<Vectors>;
    float* const end = p.s.weights + p.seen.end * kRowsOf<Vectors>;
    const float inverse = 1 / b.softcap;
    for (; at < end; at += kStep) hn::Store(softcap(d, hn::Load(d, at), b.softcap, inverse), d, at);
  }
  if (b.relative != nullptr || b.bias != nullptr) {
    for (std::int64_t r = p.row; r <= p.last; ++r) {
      const Seen own = seen_of(b, r, r, chunk.begin, chunk.count);
      add_tables(b, r, chunk.begin, own.first, own.end, p.s.weights + r - p.row, kRowsOf<Vectors>);
    }
  }
  if (b.slopes != nullptr) {
    finish_seen<true>(p, top);
  } else {
    finish_seen<false>(p, top);
  }
}

// Scores to weights; keeps maximum and sum, and the factor for what was summed before.
template <int Vectors>
HWY_INLINE void soften(const Panel& p, const V (&top)[Vectors]) {
  const F d;
  V subtract[Vectors], added[Vectors];
  for (int v = 0; v < Vectors; ++v) {
    float* maximum = p.s.maximum + p.row + v * kStep;
    const V old = hn::Load(d, maximum);
    const V now = hn::Max(old, top[v]);
    // With nothing seen yet, subtract 0: unseen slots get weight 0 and NaN scores stay NaN.
    subtract[v] = hn::IfThenElse(hn::Eq(now, hn::Set(d, kNever)), hn::Zero(d), now);
    added[v] = hn::Zero(d);
    hn::Store(now, d, maximum);
    hn::Store(exp_down(d, hn::Sub(old, subtract[v])), d, p.s.shrink + v * kStep);
  }
  for (std::int64_t j = p.seen.first; j < p.seen.end; ++j) {
    float* at = p.s.weights + j * kRowsOf<Vectors>;
    for (int v = 0; v < Vectors; ++v) {
      const V weight = exp_down(d, hn::Sub(hn::Load(d, at + v * kStep), subtract[v]));
      hn::Store(weight, d, at + v * kStep);
      added[v] = hn::Add(added[v], weight);
    }
  }
  for (int v = 0; v < Vectors; ++v) {
    float* sum = p.s.sum + p.row + v * kStep;
    hn::Store(hn::MulAdd(hn::Load(d, sum), hn::Load(d, p.s.shrink + v * kStep), added[v]), d, sum);
  }
}

// acc += V[slot][c + n] P[slot] for slots first .. end.
template <bool Masked, int Columns, int Vectors>
HWY_INLINE void add_slots(const Panel& p, const float* values, std::int64_t first, std::int64_t end,
                          V (&acc)[Columns][Vectors]) {
  const F d;
  const std::int64_t width = p.b.value_width;
  const float* weights = p.s.weights + first * kRowsOf<Vectors>;
  values += first * width;
  for (std::int64_t j = first; j < end; ++j, values += width, weights += kRowsOf<Vectors>) {
    V rows[Vectors];
    for (int v = 0; v < Vectors; ++v) rows[v] = hn::Load(d, weights + v * kStep);
    for (int n = 0; n < Columns; ++n) {
      const V value = hn::Set(d, values[n]);
      for (int v = 0; v < Vectors; ++v) {
        const V sum = hn::MulAdd(rows[v], value, acc[n][v]);
        acc[n][v] = Masked ? hn::IfThenElse(sees(p, j, v), sum, acc[n][v]) : sum;
      }
    }
  }
}

template <int Columns, int Vectors>
HWY_INLINE void value_columns(const Panel& p, const float* values, std::int64_t c) {
  const F d;
  V acc[Columns][Vectors];
  for (int n = 0; n < Columns; ++n) {
    for (int v = 0; v < Vectors; ++v) acc[n][v] = hn::Zero(d);
  }
  add_slots<true>(p, values + c, p.seen.first, HWY_MIN(p.seen.full_first, p.seen.end), acc);
  add_slots<false>(p, values + c, p.seen.full_first, p.seen.full_end, acc);
  add_slots<true>(p, values + c, HWY_MAX(p.seen.full_first, p.seen.full_end), p.seen.end, acc);
  for (int v = 0; v < Vectors; ++v) {
    const V shrink = hn::Load(d, p.s.shrink + v * kStep);
    for (int n = 0; n < Columns; ++n) {
      float* at = p.out + (c + n) * kRowsOf<Vectors> + v * kStep;
      hn::Store(hn::MulAdd(hn::Load(d, at), shrink, acc[n][v]), d, at);
    }
  }
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

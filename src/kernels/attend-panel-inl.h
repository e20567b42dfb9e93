// SPDX-License-Identifier: Apache-2.0
// Attention of many rows. Lanes are rows: a panel is kLanes rows of one to three vectors, and queries, scores
// and sums of values are kept with the panel's rows next to each other, so that keys and values are used as
// they lie in the cache, one broadcast element for all rows, and maxima, weights and sums need no sums over
// lanes.
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
#if defined(LOCANT_KERNELS_ATTEND_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_ATTEND_PANEL_INL_H_
#undef LOCANT_KERNELS_ATTEND_PANEL_INL_H_
#else
#define LOCANT_KERNELS_ATTEND_PANEL_INL_H_
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

template <int Vectors>
HWY_NOINLINE void add_chunk(const Panel& p, const Chunk& chunk) {
  const AttendBlock& b = p.b;
  V top[Vectors];
  for (int v = 0; v < Vectors; ++v) top[v] = hn::Set(F(), kNever);
  for (std::int64_t j = p.seen.first; j < p.seen.end; j += kTile) {
    score_tile<Vectors>(p.q, chunk.keys + j * b.key_width, b.key_width, p.seen.end - j,
                        p.s.weights + j * kRowsOf<Vectors>);
  }
  finish_scores(p, chunk, top);
  for (std::int64_t r = p.row; r <= p.last; ++r) {
    write_scores(b, r, chunk.begin, chunk.begin + chunk.count, p.seen, p.s.weights + r - p.row,
                 kRowsOf<Vectors>);
  }
  soften(p, top);
  std::int64_t c = 0;
  for (; c + kTile <= b.value_width; c += kTile) value_columns<kTile, Vectors>(p, chunk.values, c);
  for (; c < b.value_width; ++c) value_columns<1, Vectors>(p, chunk.values, c);
}

// ---- the block

template <class Call>
HWY_INLINE void by_vectors(std::int64_t rows, Call call) {
  if (rows > 2 * kStep) {
    call(std::integral_constant<int, 3>());
  } else if (rows > kStep) {
    call(std::integral_constant<int, 2>());
  } else {
    call(std::integral_constant<int, 1>());
  }
}

// Queries [rows][key_width] to [key_width][rows], scaled; rows beyond the block's repeat its last.
HWY_INLINE void take_panel(const AttendBlock& b, PanelScratch& s, std::int64_t row, std::int64_t rows) {
  for (std::int64_t r = 0; r < rows; r += 4) {
    const float* from[4];
    for (std::int64_t n = 0; n < 4; ++n) {
      const std::int64_t at = HWY_MIN(row + r + n, b.rows - 1);
      from[n] = b.q + token_of(b, at) * b.q_token + head_of(b, at) * b.q_head;
    }
    turn_rows(from, HWY_MIN(rows - r, std::int64_t{4}), b.scale, b.key_width, s.q + row * b.key_width + r,
              rows);
  }
  std::memset(s.out + row * b.value_width, 0, index(rows * b.value_width) * sizeof(float));
  for (std::int64_t r = row; r < row + rows; ++r) {
    const std::int64_t own = HWY_MIN(r, b.rows - 1);
    // A sink is a slot seen first, without a value.
    s.maximum[r] = b.sinks != nullptr ? b.sinks[head_of(b, own) * b.sink_stride] : kNever;
    s.sum[r] = s.maximum[r] == kNever ? 0.0f : 1.0f;
    if (b.slopes == nullptr) continue;
    s.slope[r] = b.slopes[head_of(b, own) * b.slope_stride];
    // Positions are counted from the block's first query, so that f32 holds their differences to 2^24.
    s.position[r] = static_cast<float>(position_of(b, own) - position_of(b, 0));
    if (b.norms != nullptr) s.reach[r] = reach_of(b, own);
    s.left[r] = kLeave;
  }
}

#if HWY_TARGET != HWY_SCALAR
template <class D>
HWY_INLINE void scatter_blocks(D d, VecOf<D> v, float* const* rows, std::int64_t c) {
  if constexpr (hn::MaxLanes(D()) <= 4) {
    hn::StoreU(v, d, rows[0] + c);
  } else {
    const hn::Half<D> half;
    scatter_blocks(half, hn::LowerHalf(half, v), rows, c);
    scatter_blocks(half, hn::UpperHalf(half, v), rows + hn::MaxLanes(half), c);
  }
}
#endif

// Sums [value_width][rows] to rows of the output, over the sum of their weights.
HWY_INLINE void give_panel(const AttendBlock& b, PanelScratch& s, std::int64_t row, std::int64_t rows) {
  const F d;
  float* to[kPanelRows];
  for (std::int64_t r = 0; r < rows; ++r) {
    // Rows beyond the block's go where nobody reads.
    to[r] = row + r < b.rows ? row_out(b, row + r) : s.weights;
    if (b.partial == nullptr || row + r >= b.rows) continue;
    to[r][-2] = s.maximum[row + r];
    to[r][-1] = s.sum[row + r];
  }
  const float* out = s.out + row * b.value_width;
  for (std::int64_t r = 0; r < rows; r += kStep) {
    const V one = hn::Set(d, 1.0f);
    const V factor = b.partial != nullptr ? one : hn::Div(one, hn::Load(d, s.sum + row + r));
    std::int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
    const hn::Repartition<std::uint64_t, F> d64;
    for (; c + 4 <= b.value_width; c += 4) {
      V v[4];
      for (std::int64_t n = 0; n < 4; ++n) v[n] = hn::Mul(hn::Load(d, out + (c + n) * rows + r), factor);
      const auto p = hn::BitCast(d64, hn::InterleaveLower(d, v[0], v[1]));
      const auto q = hn::BitCast(d64, hn::InterleaveLower(d, v[2], v[3]));
      const auto t = hn::BitCast(d64, hn::InterleaveUpper(d, v[0], v[1]));
      const auto u = hn::BitCast(d64, hn::InterleaveUpper(d, v[2], v[3]));
      // Block i of vector n holds four columns of row 4 i + n.
      scatter_blocks(d, hn::BitCast(d, hn::InterleaveLower(d64, p, q)), to + r, c);
      scatter_blocks(d, hn::BitCast(d, hn::InterleaveUpper(d64, p, q)), to + r + 1, c);
      scatter_blocks(d, hn::BitCast(d, hn::InterleaveLower(d64, t, u)), to + r + 2, c);
      scatter_blocks(d, hn::BitCast(d, hn::InterleaveUpper(d64, t, u)), to + r + 3, c);
    }
#endif
    HWY_ALIGN float factors[kLanes];
    hn::Store(factor, d, factors);
    for (; c < b.value_width; ++c) {
      for (std::int64_t i = 0; i < kStep; ++i) to[r + i][c] = factors[i] * out[c * rows + r + i];
    }
  }
}

// `count` rows of a cache in f32: where they lie, or converted.
HWY_INLINE const float* as_floats(DType dtype, const void* data, const float* scales, std::int64_t width,
                                  std::int64_t begin, std::int64_t count, float* room) {
  if (dtype == DType::f32) return static_cast<const float*>(data) + begin * width;
  by_dtype(dtype, data, [&](const auto* from) HWY_ATTR {
    const F d;
    from += begin * width;
    for (std::int64_t j = 0; j < count; ++j, from += width) {
      const V scale = hn::Set(d, scales == nullptr ? 1.0f : scales[begin + j]);
      float* to = room + j * width;
      std::int64_t i = 0;
      for (; i + kStep <= width; i += kStep) hn::StoreU(hn::Mul(load(d, from + i), scale), d, to + i);
      if (i < width)
        store_n(d, hn::Mul(load_n(d, from + i, index(width - i)), scale), to + i, index(width - i));
    }
  });
  return room;
}

// add(panel) where a row of the panel sees a slot of the chunk.
template <int Vectors, class Add>
HWY_INLINE void visit(const AttendBlock& b, PanelScratch& s, const Chunk& chunk, std::int64_t row, Add add) {
  const std::int64_t last = HWY_MIN(row + kRowsOf<Vectors>, b.rows) - 1;
  const Panel panel{b,
                    s,
                    row,
                    last,
                    s.q + row * b.key_width,
                    s.out + row * b.value_width,
                    seen_of(b, row, last, chunk.begin, chunk.count)};
  if (panel.seen.empty()) {
    for (std::int64_t r = row; r <= last; ++r)
      write_scores(b, r, chunk.begin, chunk.begin + chunk.count, panel.seen, nullptr, 0);
    return;
  }
  if (!panel.whole(panel.seen.first, panel.seen.end - panel.seen.first)) {
    for (std::int64_t r = 0; r < kRowsOf<Vectors>; ++r) {
      const std::int64_t own = HWY_MIN(row + r, last);
      const Seen sees = seen_of(b, own, own, chunk.begin, chunk.count);
      s.first[r] = static_cast<float>(sees.first);
      s.end[r] = static_cast<float>(sees.end);
    }
  }
  add(panel);
}

template <int Vectors>
HWY_INLINE bool is_far(PanelScratch& s, std::int64_t row, const Tile& tile) {
  const F d;
  V left[Vectors];
  for (int v = 0; v < Vectors; ++v) {
    const std::int64_t r = row + v * kStep;
    left[v] = hn::Load(d, s.left + r);
    const auto far = too_far(tile, hn::Load(d, s.reach + r), hn::Load(d, s.slope + r),
                             hn::Load(d, s.position + r), hn::Load(d, s.maximum + r), left[v]);
    if (!hn::AllTrue(d, far)) return false;
  }
  for (int v = 0; v < Vectors; ++v) hn::Store(left[v], d, s.left + row + v * kStep);
  return true;
}

inline HWY_NOINLINE void attend_panels(const AttendBlock& b) {
  PanelScratch s;
  const std::int64_t room = kPanelFloats / HWY_MAX(b.key_width, b.value_width);
  const std::int64_t slots = HWY_MIN(room / kTile * kTile, kPanelSlots);
  const auto each_panel = [&](auto call) HWY_ATTR {
    for (std::int64_t row = 0; row < b.rows; row += kPanelRows)
      by_vectors(b.rows - row, [&](auto vectors) HWY_ATTR { call(row, vectors); });
  };
  each_panel([&](std::int64_t row, auto vectors)
                 HWY_ATTR { take_panel(b, s, row, decltype(vectors)::value * kStep); });
  // What the block sees of the span: from its first row's first slot to its last row's last.
  const std::int64_t span = b.slot_end - b.slot_begin;
  const Seen all = seen_of(b, 0, b.rows - 1, b.slot_begin, span);
  for (std::int64_t r = 0; r < b.rows; ++r) {
    const Seen none{};
    write_scores(b, r, b.slot_begin, b.slot_begin + HWY_MIN(all.first, all.end), none, nullptr, 0);
    write_scores(b, r, b.slot_begin + all.end, b.slot_end, none, nullptr, 0);
  }
  const auto visit_all = [&](std::int64_t begin, std::int64_t count) HWY_ATTR {
    Chunk chunk{begin, count, nullptr, nullptr};
    chunk.keys = as_floats(b.key_dtype, b.keys, b.key_scales, b.key_width, begin, count, s.keys);
    chunk.values = as_floats(b.value_dtype, b.values, b.value_scales, b.value_width, begin, count, s.values);
    if (b.slopes != nullptr) {
      for (std::int64_t j = 0; j < count; ++j) {
        s.slots[j] =
            static_cast<float>(b.key_positions[(begin + j) * b.key_position_stride] - position_of(b, 0));
      }
    }
    each_panel([&](std::int64_t row, auto vectors) HWY_ATTR {
      constexpr int kVectors = decltype(vectors)::value;
      if (s.far[row / kPanelRows]) return;
      visit<kVectors>(b, s, chunk, row,
                      [&](const Panel& panel) HWY_ATTR { add_chunk<kVectors>(panel, chunk); });
    });
  };
  for (bool& far : s.far) far = false;
  if (b.norms == nullptr) {
    for (std::int64_t at = all.first; at < all.end; at += slots)
      visit_all(b.slot_begin + at, HWY_MIN(slots, all.end - at));
  } else {
    each_tile(b, all, [&](std::int64_t begin, std::int64_t count) HWY_ATTR {
      const Tile tile = tile_of(b, begin, count);
      bool far = true;
      each_panel([&](std::int64_t row, auto vectors) HWY_ATTR {
        bool& own = s.far[row / kPanelRows];
        own = is_far<decltype(vectors)::value>(s, row, tile);
        far = far && own;
      });
      for (; !far && count > 0; begin += slots, count -= slots) visit_all(begin, HWY_MIN(slots, count));
    });
  }
  each_panel([&](std::int64_t row, auto vectors)
                 HWY_ATTR { give_panel(b, s, row, decltype(vectors)::value * kStep); });
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

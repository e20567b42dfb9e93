// SPDX-License-Identifier: Apache-2.0
// Attention of many rows, in panels of attend-tiles-inl.h: queries turned so that rows lie next to each
// other, chunks of slots for every panel in turn, and sums turned back.
#if defined(LOCANT_KERNELS_ATTEND_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_ATTEND_PANEL_INL_H_
#undef LOCANT_KERNELS_ATTEND_PANEL_INL_H_
#else
#define LOCANT_KERNELS_ATTEND_PANEL_INL_H_
#endif

#include "kernels/attend-tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

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

// call(first row, vectors as a constant) for every panel of the block.
template <class Call>
HWY_INLINE void each_panel(const AttendBlock& b, Call call) {
  for (std::int64_t row = 0; row < b.rows; row += kPanelRows)
    by_vectors(b.rows - row, [&](auto vectors) HWY_ATTR { call(row, vectors); });
}

// The way through a block's slots, `slots` at a time: prepare(chunk) says where keys and values are read,
// then add(panel, chunk, vectors as a constant) for the panels that see some of them. With norms, panels pass
// over tiles that are too far.
template <class Prepare, class Add>
HWY_INLINE void each_chunk(const AttendBlock& b, PanelScratch& s, std::int64_t slots, Prepare prepare,
                           Add add) {
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
    prepare(chunk);
    if (b.slopes != nullptr) {
      for (std::int64_t j = 0; j < count; ++j) {
        s.slots[j] =
            static_cast<float>(b.key_positions[(begin + j) * b.key_position_stride] - position_of(b, 0));
      }
    }
    each_panel(b, [&](std::int64_t row, auto vectors) HWY_ATTR {
      if (s.far[row / kPanelRows]) return;
      visit<decltype(vectors)::value>(b, s, chunk, row,
                                      [&](const Panel& panel) HWY_ATTR { add(panel, chunk, vectors); });
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
      each_panel(b, [&](std::int64_t row, auto vectors) HWY_ATTR {
        bool& own = s.far[row / kPanelRows];
        own = is_far<decltype(vectors)::value>(s, row, tile);
        far = far && own;
      });
      for (; !far && count > 0; begin += slots, count -= slots) visit_all(begin, HWY_MIN(slots, count));
    });
  }
}

inline HWY_NOINLINE void attend_panels(const AttendBlock& b) {
  PanelScratch s;
  const std::int64_t room = kPanelFloats / HWY_MAX(b.key_width, b.value_width);
  each_panel(b, [&](std::int64_t row, auto vectors)
                    HWY_ATTR { take_panel(b, s, row, decltype(vectors)::value * kStep); });
  each_chunk(
      b, s, HWY_MIN(room / kTile * kTile, kPanelSlots),
      [&](Chunk& chunk) HWY_ATTR {
        chunk.keys =
            as_floats(b.key_dtype, b.keys, b.key_scales, b.key_width, chunk.begin, chunk.count, s.keys);
        chunk.values = as_floats(b.value_dtype, b.values, b.value_scales, b.value_width, chunk.begin,
                                 chunk.count, s.values);
      },
      [&](const Panel& panel, const Chunk& chunk, auto vectors)
          HWY_ATTR { add_chunk<decltype(vectors)::value>(panel, chunk); });
  each_panel(b, [&](std::int64_t row, auto vectors)
                    HWY_ATTR { give_panel(b, s, row, decltype(vectors)::value * kStep); });
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

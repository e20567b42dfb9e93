// SPDX-License-Identifier: Apache-2.0
// Products with a weight of blocks, in whole numbers: x is rounded to q = x / factor in groups of 32, and
// sum_k x w = sum over groups of factor (scale sum q_x q_w - minus sum q_x). Products of 8 bits are summed in
// i32, exactly (32 * 127 * 255 < 2^24, so f32 holds them too); groups are added in f32, in order, in spans of
// 512 columns at most, so an element's bits depend on its row alone.
//
//                 lanes = rows                            A row stands in each 32-bit lane: 16 bytes of as
//              +-----------------+                        many rows as there are lanes are turned round, four
//     word 0   | w0 w1 ...   w15 |  x 4 bytes of x,       words at a time, then split into nibbles. They stay
//     word 1   |                 |    the same in         in a panel in the first cache, and tiles of 4
//     ...      |      group      |    every lane          tokens x panels pass over it. One token: bytes are
//     word 7   |                 |                        multiplied as they lie, and sums are turned round.
//              +-----------------+
//              x factor x scales -> f32 sums
#if defined(LOCANT_KERNELS_PROJECT_INT8_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_PROJECT_INT8_INL_H_
#undef LOCANT_KERNELS_PROJECT_INT8_INL_H_
#else
#define LOCANT_KERNELS_PROJECT_INT8_INL_H_
#endif

#include "kernels/amx_tiles.h"
#include "kernels/panel-inl.h"
#include "kernels/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

// Tokens and panels of the largest tile: 4 x 2 f32 sums, as many whole ones and their operands need 32
// registers.
#if HWY_TARGET == HWY_AVX3
inline constexpr int kPanels = 2;
#else
inline constexpr int kPanels = 1;
#endif
inline constexpr int kTileTokens = 4;

// What the products of a type need: groups, and the largest whole number of a weight.
template <int Elements, bool Minus, int Most>
struct Whole {
  static constexpr int kElements = Elements;
  static constexpr bool kMinus = Minus;
  static constexpr int kMost = Most;
};

// Wide weights are unsigned by an offset where the unit wants that.
template <class G, class Dots>
inline constexpr std::uint8_t kFlip = G::kMost == kWide&& Dots::kOffset ? 128 : 0;

template <class Body>
HWY_INLINE void with_whole(GgmlType type, Body body) {
  switch (type) {
    case GgmlType::q4_1:
    case GgmlType::q5_1:
    case GgmlType::q4_k:
    case GgmlType::q5_k:
      return body(Whole<32, true, 31>());
    case GgmlType::q2_k:
      return body(Whole<16, true, 31>());
    case GgmlType::q3_k:
    case GgmlType::q6_k:
      return body(Whole<16, false, 63>());
    case GgmlType::q8_0:
    case GgmlType::iq4_nl:
    case GgmlType::iq4_xs:
      return body(Whole<32, false, kWide>());
    default:
      return body(Whole<32, false, 31>());
  }
}

// The whole sums of group g of a tile.
template <class G, class Sum, int Tokens, int J>
HWY_INLINE void add_words(const Rounded& x, std::int64_t t, std::size_t g, const Panel* w,
                          Sum (*sums)[kPanels]) {
  constexpr int kCount = G::kElements / 4;
  if constexpr (J < kCount) {
    const Words d;
    const std::size_t word = g * kCount + J;
    VWords rows[kPanels];
    for (int v = 0; v < kPanels; ++v) rows[v] = hn::Load(d, w[v].q[word]);
    for (int i = 0; i < Tokens; ++i) {
      std::uint32_t four;
      std::memcpy(&four, x.q[t + i] + 4 * word, sizeof(four));
      const VWords xs = hn::Set(d, four);
      for (int v = 0; v < kPanels; ++v) sums[i][v].template add<J>(rows[v], xs);
    }
    add_words<G, Sum, Tokens, J + 1>(x, t, g, w, sums);
  }
}

// acc[i][n] of tokens t + i of a span, n the rows of kPanels panels; the first span begins the sums.
template <class G, class Dots, int Tokens>
HWY_INLINE void add_tile(const Rounded& x, std::int64_t t, const Panel* w, std::size_t count, bool begins,
                         std::int64_t acc_stride, float* acc) {
  using Sum = typename Dots::template Sum<G::kMost, G::kElements / 4>;
  const F d;
  V all[Tokens][kPanels];
  for (int i = 0; i < Tokens; ++i) {
    for (int v = 0; v < kPanels; ++v) all[i][v] = hn::Zero(d);
  }
  for (std::size_t g = 0; g < count / G::kElements; ++g) {
    Sum sums[Tokens][kPanels];
    for (int i = 0; i < Tokens; ++i) {
      for (int v = 0; v < kPanels; ++v) sums[i][v] = Sum(x.first[t + i][g]);
    }
    add_words<G, Sum, Tokens, 0>(x, t, g, w, sums);
    for (int v = 0; v < kPanels; ++v) {
      const V scale = hn::Load(d, w[v].of.scale[g]);
      for (int i = 0; i < Tokens; ++i) {
        const V factor = hn::Set(d, x.factor[t + i][g * G::kElements / 32]);
        all[i][v] = hn::MulAdd(hn::ConvertTo(d, sums[i][v].total()), hn::Mul(factor, scale), all[i][v]);
        if constexpr (G::kMinus) {
          const V total = hn::Set(d, x.total[t + i][g]);
          all[i][v] = hn::NegMulAdd(total, hn::Load(d, w[v].of.minus[g]), all[i][v]);
        }
      }
    }
  }
  for (int i = 0; i < Tokens; ++i) {
    for (int v = 0; v < kPanels; ++v) {
      float* to = acc + i * acc_stride + v * static_cast<std::int64_t>(kLanes);
      hn::Store(begins ? all[i][v] : hn::Add(hn::Load(d, to), all[i][v]), d, to);
    }
  }
}

#if HWY_TARGET == HWY_AVX3
// Dot products in the byte tiles of AMX, 16 tokens by the 16 rows of a panel, whose words lie as the right
// operand wants them. The whole sums are those of DotUnit, and so are all bits.
template <class TileRegisters>
struct DotTiles : DotUnit {
  using Tiles = TileRegisters;
};
template <class Dots>
inline constexpr bool kInTiles = requires {
  typename Dots::Tiles;
};

// Tiles 0 ... 3 are whole sums; 4 holds x, 5 a group of the panel.
template <class G>
[[nodiscard]] HWY_INLINE TileConfig group_tiles() {
  TileConfig config = whole_tiles();
  config.row_bytes[4] = G::kElements;
  config.rows[5] = G::kElements / 4;
  return config;
}

// As add_tile() for up to 16 tokens and one panel. Rows of x behind `live` are read and their sums dropped.
template <class G, class Tiles>
HWY_INLINE void add_in_tiles(Tiles& tiles, const Rounded& x, std::int64_t t, std::int64_t live,
                             const Panel& w, std::size_t count, bool begins, std::int64_t acc_stride,
                             float* acc) {
  const F d;
  const hn::RebindToSigned<F> di;
  constexpr std::int64_t kSide = 16;
  HWY_ALIGN std::int32_t sums[kSide][kSide];
  V all[kSide];
  for (V& sum : all) sum = hn::Zero(d);
  for (std::size_t g = 0; g < count / G::kElements; ++g) {
    tiles.template zero<0>();
    tiles.template load<4>(x.q[t] + g * G::kElements, sizeof(x.q[0]));
    tiles.template load<5>(w.q[g * G::kElements / 4], sizeof(w.q[0]));
    tiles.template add_bytes<0, 4, 5>();
    tiles.template store<0>(sums, sizeof(sums[0]));
    const V scale = hn::Load(d, w.of.scale[g]);
    const V minus = G::kMinus ? hn::Load(d, w.of.minus[g]) : hn::Zero(d);
    for (std::int64_t i = 0; i < live; ++i) {
      const auto whole = hn::Add(hn::Load(di, sums[i]), hn::Set(di, x.first[t + i][g]));
      const V factor = hn::Set(d, x.factor[t + i][g * G::kElements / 32]);
      all[i] = hn::MulAdd(hn::ConvertTo(d, whole), hn::Mul(factor, scale), all[i]);
      if constexpr (G::kMinus) all[i] = hn::NegMulAdd(hn::Set(d, x.total[t + i][g]), minus, all[i]);
    }
  }
  for (std::int64_t i = 0; i < live; ++i) {
    float* to = acc + i * acc_stride;
    hn::Store(begins ? all[i] : hn::Add(hn::Load(d, to), all[i]), d, to);
  }
}
#else
template <class Dots>
inline constexpr bool kInTiles = false;
#endif

// Room for the rows of a panel that the weight has not all of.
struct LastRows {
  HWY_ALIGN std::uint8_t bytes[kLanes][kWhole * 34 / 32];
};

// How a product walks through its weight: spans of about equal length, at most kWhole columns.
struct SpanWalk {
  BlockBytes all;
  std::int64_t columns;  // of a span
  std::int64_t step;     // columns between two requests of what comes next

  HWY_INLINE explicit SpanWalk(const ProjectBlock& b) : all(b), step(all.elements == 32 ? 32 : 64) {
    const std::int64_t spans = (b.columns + kMost - 1) / kMost;
    const std::int64_t each = (b.columns + spans - 1) / spans;
    columns = (each + all.elements - 1) / all.elements * all.elements;
  }
  [[nodiscard]] std::int64_t count(const ProjectBlock& b, std::int64_t k) const {
    return HWY_MIN(b.columns - k, columns);
  }

 private:
  static constexpr auto kMost = static_cast<std::int64_t>(kWhole);
};

// kLanes rows from row n on, from column k on. Rows past the end repeat the last one.
HWY_INLINE PanelRows panel_rows(const SpanWalk& walk, const ProjectBlock& b, std::int64_t n, std::int64_t k,
                                LastRows& last) {
  constexpr auto kRows = static_cast<std::int64_t>(kLanes);
  const BlockBytes& all = walk.all;
  if (n + kRows <= b.rows) return {all.at(n, k), all.stride};
  const std::size_t bytes = index(all.of(walk.count(b, k)));
  for (std::int64_t i = 0; i < kRows; ++i)
    std::memcpy(last.bytes[i], all.at(HWY_MIN(n + i, b.rows - 1), k), bytes);
  return {last.bytes[0], sizeof(last.bytes[0])};
}

// What is asked for during a span of `rows` rows: the same columns of rows far enough ahead to arrive in
// time. These may lie past the end, where other rows of the weight mostly are; asking is no access. With many
// tokens, after the last rows come the first ones' of the columns that are rounded next.
inline constexpr std::int64_t kReach = 24 << 10;  // bytes, half of a first-level cache
HWY_INLINE Ahead span_ahead(const SpanWalk& walk, const ProjectBlock& b, std::int64_t n, std::int64_t k,
                            std::int64_t rows, std::int64_t room) {
  const std::int64_t steps = rows / static_cast<std::int64_t>(kLanes) * walk.count(b, k) / walk.step;
  n += rows * HWY_MAX(kReach / (rows * walk.all.stride), std::int64_t{1});
  if (n >= b.rows && k + room < b.columns) {
    n = 0;
    k += room;
  }
  return in_steps({.row = walk.all.at(n, k),
                   .stride = walk.all.stride,
                   .bytes = walk.all.of(walk.count(b, k)),
                   .rows = rows},
                  steps);
}
// The same of kLanes rows times one token, as memory has them.
HWY_INLINE LinesAhead lines_ahead(const SpanWalk& walk, std::int64_t n, std::int64_t k) {
  constexpr auto kRows = static_cast<std::int64_t>(kLanes);
  const std::int64_t some = walk.all.stride * kRows;
  return {walk.all.at(n + kRows * HWY_MAX(kReach / some, std::int64_t{1}), 0) + kRows * walk.all.of(k)};
}
// The first rows of all, while x is rounded.
HWY_INLINE void ask_for_first(const SpanWalk& walk, const ProjectBlock& b, std::int64_t rows) {
  const std::int64_t columns = HWY_MIN(walk.columns * (kProjectTokens / b.tokens), b.columns);
  Ahead{.row = walk.all.at(0, 0),
        .stride = walk.all.stride,
        .bytes = walk.all.of(columns),
        .rows = HWY_MIN(rows, b.rows)}
      .ask_all();
}

// Panels from row n on times a span of all tokens, whose first is `x`.
template <class G, class Dots>
HWY_INLINE void add_span(const SpanWalk& walk, const ProjectBlock& b, const Rounded& x, std::int64_t first,
                         std::int64_t n, std::int64_t k, Ahead& ahead, Panel* panels, std::int64_t acc_stride,
                         float* acc) {
  constexpr auto kRows = static_cast<std::int64_t>(kLanes);
  const std::size_t count = index(walk.count(b, k));
  LastRows last;
  for (std::int64_t v = 0; v < kPanels; ++v)
    unpack_panel(b.type, panel_rows(walk, b, n + v * kRows, k, last), count, kFlip<G, Dots>, ahead,
                 panels[v]);
#if HWY_TARGET == HWY_AVX3
  if constexpr (kInTiles<Dots>) {
    constexpr std::int64_t kSide = 16;
    typename Dots::Tiles tiles;
    tiles.configure(group_tiles<G>());
    for (std::int64_t t = 0; t < b.tokens; t += kSide) {
      for (int v = 0; v < kPanels; ++v)
        add_in_tiles<G>(tiles, x, first + t, HWY_MIN(kSide, b.tokens - t), panels[v], count, k == 0,
                        acc_stride, acc + t * acc_stride + v * kRows);
    }
    tiles.release();
    return;
  }
#endif
  std::int64_t t = 0;
  for (; t + kTileTokens <= b.tokens; t += kTileTokens)
    add_tile<G, Dots, kTileTokens>(x, first + t, panels, count, k == 0, acc_stride, acc + t * acc_stride);
  if (t + 2 <= b.tokens) {
    add_tile<G, Dots, 2>(x, first + t, panels, count, k == 0, acc_stride, acc + t * acc_stride);
    t += 2;
  }
  if (t < b.tokens)
    add_tile<G, Dots, 1>(x, first + t, panels, count, k == 0, acc_stride, acc + t * acc_stride);
}

#if HWY_TARGET != HWY_SCALAR
// A span's sum of kLanes rows times one token, in the order of the groups.
template <class G>
struct SpanSum {
  V all = hn::Zero(F());
  const Rounded& x;
  std::int64_t slot;
  const Scales& by;

  HWY_INLINE void take(std::size_t g, VWhole sums) {
    const F d;
    const V whole = hn::ConvertTo(d, hn::Add(sums, hn::Set(hn::RebindToSigned<F>(), x.first[slot][g])));
    const V factor = hn::Set(d, x.factor[slot][g * G::kElements / 32]);
    all = hn::MulAdd(whole, hn::Mul(factor, hn::Load(d, by.scale[g])), all);
    if constexpr (G::kMinus) all = hn::NegMulAdd(hn::Set(d, x.total[slot][g]), hn::Load(d, by.minus[g]), all);
  }
};
// Of types whose groups come in another order.
struct KeptSums {
  HWY_ALIGN std::int32_t of[kWhole / 16][kLanes];
  HWY_INLINE void take(std::size_t g, VWhole sums) { hn::Store(sums, hn::RebindToSigned<F>(), of[g]); }
};

// One token: bytes are multiplied as they are taken from the rows, without a panel between.
template <class G, class Dots>
HWY_INLINE void add_one_token(const SpanWalk& walk, const ProjectBlock& b, const Rounded& x,
                              std::int64_t slot, std::int64_t n, std::int64_t k, Scales& by, float* acc) {
  const F d;
  const std::size_t count = index(walk.count(b, k));
  LastRows last;
  LinesAhead ahead = lines_ahead(walk, n, k);
  SpanSum<G> sum{.x = x, .slot = slot, .by = by};
  const PanelRows rows = panel_rows(walk, b, n, k, last);
  if constexpr (G::kElements == 32) {
    turn_blocks(b.type, rows, count, kFlip<G, Dots>, ahead, by,
                DotParts<Dots, G::kMost, SpanSum<G>>{x.q[slot], sum});
  } else {
    KeptSums kept;
    turn_blocks(b.type, rows, count, kFlip<G, Dots>, ahead, by,
                DotParts<Dots, G::kMost, KeptSums>{x.q[slot], kept});
    for (std::size_t g = 0; g < count / G::kElements; ++g)
      sum.take(g, hn::Load(hn::RebindToSigned<F>(), kept.of[g]));
  }
  hn::Store(k == 0 ? sum.all : hn::Add(hn::Load(d, acc), sum.all), d, acc);
}
#endif

// As many spans as Rounded has room for are rounded at once; few tokens walk whole rows of the weight.
template <class G, class Dots>
HWY_NOINLINE void multiply(const ProjectBlock& b) {
  constexpr auto kRows = static_cast<std::int64_t>(kLanes);
  const std::int32_t offset = offset_of(b.type) + kFlip<G, Dots>;
  const SpanWalk walk(b);
#if HWY_TARGET == HWY_SCALAR
  const bool is_one = false;
#else
  const bool is_one = b.tokens == 1 && is_turned(b.type);
#endif
  const std::int64_t rows = is_one ? kRows : kPanels * kRows;
  Rounded x;
  Panel panels[kPanels];
  HWY_ALIGN float acc[kInt8Sums];
  ask_for_first(walk, b, rows);
  const std::int64_t acc_stride = (b.rows + kPanels * kRows - 1) / (kPanels * kRows) * (kPanels * kRows);
  const std::int64_t room = kProjectTokens / b.tokens * walk.columns;
  for (std::int64_t from = 0; from < b.columns; from += room) {
    const std::int64_t to = HWY_MIN(from + room, b.columns);
    for (std::int64_t k = from; k < to; k += walk.columns) {
      const std::int64_t slot = (k - from) / walk.columns * b.tokens;
      for (std::int64_t t = 0; t < b.tokens; ++t)
        round_span<static_cast<std::size_t>(G::kElements)>(b.x + t * b.x_stride + k, index(walk.count(b, k)),
                                                           offset, slot + t, x);
    }
    for (std::int64_t n = 0; n < b.rows; n += rows) {
      for (std::int64_t k = from; k < to; k += walk.columns) {
        const std::int64_t slot = (k - from) / walk.columns * b.tokens;
#if HWY_TARGET != HWY_SCALAR
        if (is_one) {
          add_one_token<G, Dots>(walk, b, x, slot, n, k, panels[0].of, acc + n);
          continue;
        }
#endif
        Ahead ahead = span_ahead(walk, b, n, k, rows, room);
        add_span<G, Dots>(walk, b, x, slot, n, k, ahead, panels, acc_stride, acc + n);
      }
    }
  }
  for (std::int64_t t = 0; t < b.tokens; ++t) write_out(b, t, 0, b.rows, acc + t * acc_stride);
}

template <class Dots>
HWY_INLINE void multiply_with(const ProjectBlock& b) {
  with_whole(b.type, [&](auto whole) { multiply<decltype(whole), Dots>(b); });
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

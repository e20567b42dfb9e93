// SPDX-License-Identifier: Apache-2.0
// Products of x [tokens, K] with the rows of a weight of floats: sums[t][n] = sum_k x[t][k] w[n][k].
//
//               4 rows of w          A tile holds 6 x 4 sums in registers (3 x 4 where there are sixteen),
//             +-------------+        lanes along k: a step loads 10 vectors for 24 multiply-adds.
//    6 tokens | o  o  o  o  | k ->   Tiles of tokens pass over a panel of rows that stays in the second-level
//    of x     | o  o  o  o  |        cache; x is copied once a block, aligned and in the form that is
//             +-------------+        multiplied. While a tile runs, it asks for a part of the next panel.
//
// The lanes of a span of columns (4096 bytes of x) are summed as sum4() does, spans in order, whatever the
// tile: an element's bits depend on its row alone.
#if defined(LOCANT_KERNELS_DENSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_DENSE_INL_H_
#undef LOCANT_KERNELS_DENSE_INL_H_
#else
#define LOCANT_KERNELS_DENSE_INL_H_
#endif

#include "kernels/ahead-inl.h"
#include "kernels/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON
inline constexpr int kDenseTokens = 6;
#else
inline constexpr int kDenseTokens = 3;
#endif
// Up to two tiles of tokens the weight's way from memory is what takes the time.
inline constexpr auto kFewTokens = 2 * static_cast<std::int64_t>(kDenseTokens);
inline constexpr std::int64_t kPanelRows = 32;
// Keeps rows of x from lying a page apart, where they would share their places in a cache.
inline constexpr std::int64_t kPad = 16;

// ---- the weight's way from memory

// `rows` rows from row n on and `columns` columns from column k on, as far as they exist, in `steps` steps.
template <class T>
HWY_INLINE Ahead ahead_of(const ProjectBlock& b, std::int64_t n, std::int64_t rows, std::int64_t k,
                          std::int64_t columns, std::int64_t steps) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
  const auto* row = static_cast<const T*>(b.weight) + n * b.weight_stride + k;
  return in_steps({.row = reinterpret_cast<const std::uint8_t*>(row),
                   .stride = b.weight_stride * kSize,
                   .bytes = HWY_MIN(columns, b.columns - k) * kSize,
                   .rows = HWY_MIN(rows, b.rows + b.following - n)},
                  steps);
}

// `rows` whole rows as memory has them, one after the other.
template <class T>
HWY_INLINE Ahead rows_ahead(const ProjectBlock& b, std::int64_t n, std::int64_t rows, std::int64_t steps) {
  const auto* row = static_cast<const T*>(b.weight) + n * b.weight_stride;
  return in_steps({.row = reinterpret_cast<const std::uint8_t*>(row),
                   .bytes = rows * b.weight_stride * static_cast<std::int64_t>(sizeof(T)),
                   .rows = 1},
                  steps);
}

// ---- arithmetic

// x and w as vectors of a step. F32: weights become f32 on the way.
template <class T>
struct FloatProducts {
  using X = float;
  static constexpr std::int64_t kStep = static_cast<std::int64_t>(kLanes);
  static HWY_INLINE V x(const float* p) { return hn::LoadU(F(), p); }
  static HWY_INLINE V x_n(const float* p, std::size_t n) { return load_n(F(), p, n); }
  static HWY_INLINE V w(const T* p) { return load(F(), p); }
  static HWY_INLINE V w_n(const T* p, std::size_t n) { return load_n(F(), p, n); }
  static HWY_INLINE V add(V x, V w, V sum) { return hn::MulAdd(x, w, sum); }
};

#if HWY_TARGET == HWY_AVX3
// Pairs of bf16: lane i of the sum grows by x[2i] w[2i] + x[2i+1] w[2i+1]. By its name: the intrinsic needs a
// compiler option that AVX3 lacks.
struct PairProducts {
  using X = BFloat16;
  using D = hn::Repartition<std::uint16_t, F>;
  static constexpr std::int64_t kStep = 2 * static_cast<std::int64_t>(kLanes);
  static HWY_INLINE VecOf<D> x(const BFloat16* p) {
    return hn::LoadU(D(), reinterpret_cast<const std::uint16_t*>(p));
  }
  static HWY_INLINE VecOf<D> x_n(const BFloat16* p, std::size_t n) {
    return hn::MaskedLoad(hn::FirstN(D(), n), D(), reinterpret_cast<const std::uint16_t*>(p));
  }
  static HWY_INLINE VecOf<D> w(const BFloat16* p) { return x(p); }
  static HWY_INLINE VecOf<D> w_n(const BFloat16* p, std::size_t n) { return x_n(p, n); }
  static HWY_INLINE V add(VecOf<D> x, VecOf<D> w, V sum) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(x.raw), "v"(w.raw));
    return sum;
  }
};
#endif

// ---- tiles

// acc[t][n] += x(t) w(n), the smaller side held: 3 x 4 sums with 3 + 1 operands just fit sixteen registers.
template <int Tokens, class P, class GetX, class GetW>
HWY_INLINE void multiply_add(V (*acc)[4], GetX x, GetW w) {
  if constexpr (Tokens < 4) {
    decltype(x(0)) xs[Tokens];
    for (int t = 0; t < Tokens; ++t) xs[t] = x(t);
    for (int n = 0; n < 4; ++n) {
      const auto wn = w(n);
      for (int t = 0; t < Tokens; ++t) acc[t][n] = P::add(xs[t], wn, acc[t][n]);
    }
  } else {
    decltype(w(0)) ws[4];
    for (int n = 0; n < 4; ++n) ws[n] = w(n);
    for (int t = 0; t < Tokens; ++t) {
      const auto xt = x(t);
      for (int n = 0; n < 4; ++n) acc[t][n] = P::add(xt, ws[n], acc[t][n]);
    }
  }
}

// A span of columns of some tokens and of the rows of a panel.
template <class X, class T>
struct Spans {
  const X* x;
  std::int64_t x_stride;
  const T* w;
  std::int64_t w_stride;
  std::int64_t rows;
  std::int64_t columns;
  bool first;                // of the sums
  float* sums;               // up to the next multiple of 4 rows
  std::int64_t sums_stride;  // of a token
};

// Whole: the columns are whole steps, which spares the sums a way through memory.
template <int Tokens, bool Whole, class P, class X, class T>
HWY_INLINE void dense_tile(const X* const* x, const T* const* w, std::int64_t columns, Ahead& ahead,
                           bool first, float* sums, std::int64_t sums_stride) {
  Ahead asking = ahead;  // in registers
  V acc[Tokens][4];
  for (int t = 0; t < Tokens; ++t) {
    for (int n = 0; n < 4; ++n) acc[t][n] = hn::Zero(F());
  }
  std::int64_t i = 0;
  for (; i + P::kStep <= columns; i += P::kStep) {
    multiply_add<Tokens, P>(
        acc, [&](int t) HWY_ATTR { return P::x(x[t] + i); }, [&](int n) HWY_ATTR { return P::w(w[n] + i); });
    asking.ask();
  }
  if constexpr (!Whole) {
    const std::size_t rest = index(columns - i);
    multiply_add<Tokens, P>(
        acc, [&](int t) HWY_ATTR { return P::x_n(x[t] + i, rest); },
        [&](int n) HWY_ATTR { return P::w_n(w[n] + i, rest); });
  }
  ahead = asking;
  for (int t = 0; t < Tokens; ++t) {
    float four[4];
    sum4(acc[t][0], acc[t][1], acc[t][2], acc[t][3], four);
    float* to = sums + t * sums_stride;
    for (int n = 0; n < 4; ++n) to[n] = first ? four[n] : to[n] + four[n];
  }
}

template <int Tokens, class P, class X, class T>
HWY_NOINLINE void tokens_by_rows(const Spans<X, T>& s, Ahead& ahead) {
  const X* x[Tokens];
  for (int t = 0; t < Tokens; ++t) x[t] = s.x + t * s.x_stride;
  for (std::int64_t n = 0; n < s.rows; n += 4) {
    const T* w[4];
    // Rows past the end repeat the last one; their sums are dropped.
    for (int i = 0; i < 4; ++i) w[i] = s.w + HWY_MIN(n + i, s.rows - 1) * s.w_stride;
    if (s.columns % P::kStep == 0) {
      dense_tile<Tokens, true, P>(x, w, s.columns, ahead, s.first, s.sums + n, s.sums_stride);
    } else {
      dense_tile<Tokens, false, P>(x, w, s.columns, ahead, s.first, s.sums + n, s.sums_stride);
    }
  }
}

// Tiles of about the same size.
template <class P, class X, class T>
HWY_INLINE void all_tokens(std::int64_t tokens, const Spans<X, T>& s, Ahead& ahead) {
  const std::int64_t tiles = (tokens + kDenseTokens - 1) / kDenseTokens;
  for (std::int64_t i = 0, t = 0; i < tiles; ++i) {
    const std::int64_t live = (i + 1) * tokens / tiles - t;
    Spans<X, T> tile = s;
    tile.x += t * s.x_stride;
    tile.sums += t * s.sums_stride;
    t += live;
    if (live == 1) tokens_by_rows<1, P>(tile, ahead);
    if (live == 2) tokens_by_rows<2, P>(tile, ahead);
    if (live == 3) tokens_by_rows<3, P>(tile, ahead);
    if constexpr (kDenseTokens == 6) {
      if (live == 4) tokens_by_rows<4, P>(tile, ahead);
      if (live == 5) tokens_by_rows<5, P>(tile, ahead);
      if (live == 6) tokens_by_rows<6, P>(tile, ahead);
    }
  }
}

// The block. pack(from, count, to) makes `count` columns of a token what P multiplies.
template <class P, class T, class Pack>
HWY_INLINE void dense(const ProjectBlock& b, Pack pack) {
  using X = typename P::X;
  constexpr std::int64_t kSpanOf = 4096 / static_cast<std::int64_t>(sizeof(X));
  constexpr std::int64_t kRoom = kProjectTokens * (kSpanOf + kPad);
  HWY_ALIGN_MAX float sums[kProjectTokens * kDenseRows];
  HWY_ALIGN_MAX X xs[kRoom];
  const T* weight = static_cast<const T*>(b.weight);
  const bool few = b.tokens <= kFewTokens;
  const std::int64_t panel = few ? 4 : kPanelRows;
  const std::int64_t tiles = (b.tokens + kDenseTokens - 1) / kDenseTokens;
  // Few tokens: as many columns as there is room for, and the next page of every row is asked for.
  const std::int64_t page = few ? HWY_MAX(kSpanOf, 4096 / static_cast<std::int64_t>(sizeof(T))) : kSpanOf;
  const std::int64_t chunk = few ? (kRoom / b.tokens - kPad) / page * page : kSpanOf;
  const bool whole = few && b.columns <= chunk;
  for (std::int64_t c = 0; c < b.columns; c += chunk) {
    const std::int64_t end = HWY_MIN(b.columns, c + chunk);
    for (std::int64_t t = 0; t < b.tokens; ++t)
      pack(b.x + t * b.x_stride + c, index(end - c), xs + t * (chunk + kPad));
    for (std::int64_t n = 0; n < b.rows; n += panel) {
      const std::int64_t rows = HWY_MIN(b.rows - n, panel);
      Ahead ahead;
      if (whole) ahead = rows_ahead<T>(b, n + panel, panel, tiles * (b.columns / P::kStep));
      for (std::int64_t k = c; k < end; k += kSpanOf) {
        if (!whole && (k - c) % page == 0) {
          const std::int64_t steps =
              tiles * (panel / 4) * HWY_MAX(HWY_MIN(end - k, page) / P::kStep, std::int64_t{1});
          ahead = k + page < end ? ahead_of<T>(b, n, panel, k + page, page, steps)
                                 : ahead_of<T>(b, n + panel, panel, c, page, steps);
        }
        all_tokens<P, X, T>(b.tokens,
                            {.x = xs + (k - c),
                             .x_stride = chunk + kPad,
                             .w = weight + n * b.weight_stride + k,
                             .w_stride = b.weight_stride,
                             .rows = rows,
                             .columns = HWY_MIN(end - k, kSpanOf),
                             .first = k == 0,
                             .sums = sums + n,
                             .sums_stride = kDenseRows},
                            ahead);
      }
    }
  }
  for (std::int64_t t = 0; t < b.tokens; ++t) write_out(b, t, 0, b.rows, sums + t * kDenseRows);
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

// SPDX-License-Identifier: Apache-2.0
// Tiles of a product with a weight of floats, the weight's next rows asked for on the way.
//
//                 4 rows of w            Tokens x 4 sums stand in registers, lanes along k: a step loads
//               +-----------+            Tokens + 4 vectors for 4 Tokens multiply-adds. A product's lanes are
//        x tile | o o o o   |  k ->      summed as dots-inl.h does, so its bits do not depend on its tile.
//               | o o o o   |
//               +-----------+
#if defined(LOCANT_KERNELS_DENSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_DENSE_INL_H_
#undef LOCANT_KERNELS_DENSE_INL_H_
#else
#define LOCANT_KERNELS_DENSE_INL_H_
#endif

#include "kernels/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

// Tokens of a tile: thirty-two registers hold 6 x 4 sums and their operands, sixteen hold 3 x 4.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON
inline constexpr int kDenseTokens = 6;
#else
inline constexpr int kDenseTokens = 3;
#endif

// Rows to come, asked for line by line in the order they lie in memory.
struct Ahead {
  const std::uint8_t* row = nullptr;
  std::size_t stride = 0;  // bytes
  std::size_t bytes = 0;   // of a row that are asked for
  std::int64_t rows = 0;   // left
  int each = 1;            // lines a step
  std::size_t at = 0;

  HWY_INLINE void ask() {
    for (int i = 0; i < each && rows > 0; ++i) {
      __builtin_prefetch(row + at, 0, 3);
      at += 64;
      if (at >= bytes) {
        at = 0;
        row += stride;
        --rows;
      }
    }
  }
};

// sums[i] becomes, or grows by, the sum of the lanes of the i-th vector.
HWY_INLINE void add_sum4(V a, V b, V c, V e, bool first, float* sums) {
  HWY_ALIGN float four[4];
  sum4(a, b, c, e, four);
  if (first) {
    for (int i = 0; i < 4; ++i) sums[i] = four[i];
  } else {
    for (int i = 0; i < 4; ++i) sums[i] += four[i];
  }
}

// A span of `Tokens` tokens and of the rows of a weight.
template <class T>
struct Spans {
  const float* x;
  std::int64_t x_stride;
  const T* w;
  std::int64_t w_stride;
  std::int64_t rows;
  std::size_t columns;
  bool first;  // of the sums
  float* sums;
  std::int64_t sums_stride;  // of a token; sums of rows up to the next multiple of 4 are written
};

// acc[t][n] += x[t] w[n], one operand of the smaller side at a time: 3 x 4 sums just fit sixteen registers.
template <int Tokens, class X, class W>
HWY_INLINE void multiply_add(V (*acc)[4], X x, W w) {
  if constexpr (Tokens < 4) {
    V xs[Tokens];
    for (int t = 0; t < Tokens; ++t) xs[t] = x(t);
    for (int n = 0; n < 4; ++n) {
      const V wn = w(n);
      for (int t = 0; t < Tokens; ++t) acc[t][n] = hn::MulAdd(xs[t], wn, acc[t][n]);
    }
  } else {
    V ws[4];
    for (int n = 0; n < 4; ++n) ws[n] = w(n);
    for (int t = 0; t < Tokens; ++t) {
      const V xt = x(t);
      for (int n = 0; n < 4; ++n) acc[t][n] = hn::MulAdd(xt, ws[n], acc[t][n]);
    }
  }
}

// Whole: k is a multiple of the lanes, which spares the sums a way through memory.
template <int Tokens, bool Whole, class T>
HWY_INLINE void dense_tile(const float* const* x, const T* const* w, std::size_t k, Ahead& ahead, bool first,
                           float* sums, std::int64_t sums_stride) {
  const F d;
  Ahead asking = ahead;
  V acc[Tokens][4];
  for (int t = 0; t < Tokens; ++t) {
    for (int n = 0; n < 4; ++n) acc[t][n] = hn::Zero(d);
  }
  std::size_t i = 0;
  for (; i + kLanes <= k; i += kLanes) {
    multiply_add<Tokens>(
        acc, [&](int t) HWY_ATTR { return hn::LoadU(d, x[t] + i); },
        [&](int n) HWY_ATTR { return load(d, w[n] + i); });
    asking.ask();
  }
  if constexpr (!Whole) {
    multiply_add<Tokens>(
        acc, [&](int t) HWY_ATTR { return load_n(d, x[t] + i, k - i); },
        [&](int n) HWY_ATTR { return load_n(d, w[n] + i, k - i); });
  }
  ahead = asking;
  for (int t = 0; t < Tokens; ++t)
    add_sum4(acc[t][0], acc[t][1], acc[t][2], acc[t][3], first, sums + t * sums_stride);
}

template <int Tokens, bool Whole, class T>
HWY_NOINLINE void dense_rows(const Spans<T>& s, Ahead& ahead) {
  const float* x[Tokens];
  for (int t = 0; t < Tokens; ++t) x[t] = s.x + t * s.x_stride;
  for (std::int64_t n = 0; n < s.rows; n += 4) {
    const T* w[4];
    // Rows past the end repeat the last one; their sums are dropped.
    for (int i = 0; i < 4; ++i) w[i] = s.w + HWY_MIN(n + i, s.rows - 1) * s.w_stride;
    dense_tile<Tokens, Whole>(x, w, s.columns, ahead, s.first, s.sums + n, s.sums_stride);
  }
}

template <bool Whole, class T>
HWY_INLINE void dense_tokens(int tokens, const Spans<T>& s, Ahead& ahead) {
  if (tokens == 1) return dense_rows<1, Whole>(s, ahead);
  if (tokens == 2) return dense_rows<2, Whole>(s, ahead);
  if (tokens == 3) return dense_rows<3, Whole>(s, ahead);
  if constexpr (kDenseTokens == 6) {
    if (tokens == 4) return dense_rows<4, Whole>(s, ahead);
    if (tokens == 5) return dense_rows<5, Whole>(s, ahead);
    return dense_rows<6, Whole>(s, ahead);
  }
}

// All of `tokens` tokens, in tiles of about the same size.
template <class T>
HWY_INLINE void dense_spans(std::int64_t tokens, const Spans<T>& s, Ahead& ahead) {
  const std::int64_t tiles = (tokens + kDenseTokens - 1) / kDenseTokens;
  for (std::int64_t i = 0, t = 0; i < tiles; ++i) {
    const std::int64_t end = (i + 1) * tokens / tiles;
    Spans<T> tile = s;
    tile.x += t * s.x_stride;
    tile.sums += t * s.sums_stride;
    if (s.columns % kLanes == 0) {
      dense_tokens<true>(static_cast<int>(end - t), tile, ahead);
    } else {
      dense_tokens<false>(static_cast<int>(end - t), tile, ahead);
    }
    t = end;
  }
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

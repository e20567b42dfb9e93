// SPDX-License-Identifier: Apache-2.0
// What the products of a block of tokens with rows of a weight share: tiles of tokens x rows over a span of
// columns, and the way out of the sums. Columns are summed in spans of kColumns whatever the tile.
#if defined(LOCANT_KERNELS_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_TILES_INL_H_
#undef LOCANT_KERNELS_TILES_INL_H_
#else
#define LOCANT_KERNELS_TILES_INL_H_
#endif

#include "kernels/dots-inl.h"
#include "kernels/project.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

// Sixteen registers hold 3 x 4 sums and their operands, thirty-two hold 4 x 4.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON
inline constexpr int kTile = 4;
#else
inline constexpr int kTile = 3;
#endif
inline constexpr std::int64_t kColumns = 1024;

// The sums of a span from column k on; the first span begins the sum.
HWY_INLINE void add_sums(std::int64_t k, int n, const float* sums, float* acc) {
  for (int i = 0; i < n; ++i) acc[i] = k == 0 ? sums[i] : acc[i] + sums[i];
}

template <int Tokens, int Rows, class T>
HWY_INLINE void add_tile(const ProjectBlock& b, std::int64_t t, std::int64_t k, std::int64_t count,
                         const T* const* w, float* acc) {
  const float* x[Tokens];
  for (int i = 0; i < Tokens; ++i) x[i] = b.x + (t + i) * b.x_stride + k;
  float sums[Tokens * Rows];
  dots<Tokens, Rows>(x, w, index(count), sums);
  add_sums(k, Tokens * Rows, sums, acc + t * Rows);
}

// acc is [tokens][Rows].
template <int Rows, class T>
HWY_INLINE void add_tiles(const ProjectBlock& b, std::int64_t k, std::int64_t count, const T* const* w,
                          float* acc) {
  std::int64_t t = 0;
  if constexpr (Rows == 4) {
    for (; t + kTile <= b.tokens; t += kTile) add_tile<kTile, Rows>(b, t, k, count, w, acc);
    if (t + 2 <= b.tokens) {
      add_tile<2, Rows>(b, t, k, count, w, acc);
      t += 2;
    }
  }
  for (; t < b.tokens; ++t) add_tile<1, Rows>(b, t, k, count, w, acc);
}

// Row n of token t: scale * sums[i] + bias, for `live` rows.
HWY_INLINE void write_out(const ProjectBlock& b, std::int64_t t, std::int64_t n, std::int64_t live,
                          const float* sums) {
  float* out = b.out + t * b.out_stride + n;
  const float* added = b.added == nullptr ? nullptr : b.added + t * b.out_stride + n;
  for (std::int64_t i = 0; i < live; ++i) {
    float y = b.scale * sums[i];
    if (b.bias != nullptr) y += b.bias[(n + i) * b.bias_stride];
    out[i] = added == nullptr ? y : added[i] + y;
  }
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

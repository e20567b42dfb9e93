// SPDX-License-Identifier: Apache-2.0
// A tile of dot products straight from row-major operands: sums[t][n] = sum_k x[t][k] w[n][k], f32 or 16-bit
// w. One accumulator vector per product, so a product's bits do not depend on the shape of its tile.
#if defined(LOCANT_KERNELS_DOTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_DOTS_INL_H_
#undef LOCANT_KERNELS_DOTS_INL_H_
#else
#define LOCANT_KERNELS_DOTS_INL_H_
#endif

#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

// Rows is a multiple of 4; sums is [Tokens][Rows].
template <int Tokens, int Rows, class T>
HWY_INLINE void dots(const float* const* x, const T* const* w, std::size_t k, float* sums) {
  const F d;
  V acc[Tokens][Rows];
  for (int t = 0; t < Tokens; ++t) {
    for (int n = 0; n < Rows; ++n) acc[t][n] = hn::Zero(d);
  }
  std::size_t i = 0;
  for (; i + kLanes <= k; i += kLanes) {
    V xs[Tokens];
    for (int t = 0; t < Tokens; ++t) xs[t] = hn::LoadU(d, x[t] + i);
    for (int n = 0; n < Rows; ++n) {
      const V wn = load(d, w[n] + i);
      for (int t = 0; t < Tokens; ++t) acc[t][n] = hn::MulAdd(xs[t], wn, acc[t][n]);
    }
  }
  if (i < k) {
    V xs[Tokens];
    for (int t = 0; t < Tokens; ++t) xs[t] = load_n(d, x[t] + i, k - i);
    for (int n = 0; n < Rows; ++n) {
      const V wn = load_n(d, w[n] + i, k - i);
      for (int t = 0; t < Tokens; ++t) acc[t][n] = hn::MulAdd(xs[t], wn, acc[t][n]);
    }
  }
  for (int t = 0; t < Tokens; ++t) {
    for (int n = 0; n < Rows; n += 4) {
      sum4(acc[t][n], acc[t][n + 1], acc[t][n + 2], acc[t][n + 3], sums + std::ptrdiff_t{t} * Rows + n);
    }
  }
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

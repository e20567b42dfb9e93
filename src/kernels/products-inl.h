// SPDX-License-Identifier: Apache-2.0
// Products of a padded f32 matrix with the rows of another, f32 or 16-bit: to[r][c] += sum_j p[r][j] m[j][c].
// A product is summed from zero before it is added, which keeps sums over many blocks short.
#if defined(LOCANT_KERNELS_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_PRODUCTS_INL_H_
#undef LOCANT_KERNELS_PRODUCTS_INL_H_
#else
#define LOCANT_KERNELS_PRODUCTS_INL_H_
#endif

#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

// Vectors of columns that a tile of four rows keeps in registers.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON
inline constexpr int kColumnVectors = 4;
#else
inline constexpr int kColumnVectors = 2;
#endif

// to[r][c] += sum_j p[r][j] m[j][c] for Rows rows and `columns` columns; `to` and `p` are padded.
template <int Rows, int Vectors, class T>
HWY_INLINE void add_product_columns(const float* p, std::int64_t p_stride, const T* m, std::int64_t m_stride,
                                    std::int64_t depth, std::size_t live, float* to, std::int64_t to_stride) {
  const F d;
  V acc[Rows][Vectors];
  for (int r = 0; r < Rows; ++r) {
    for (int c = 0; c < Vectors; ++c) acc[r][c] = hn::Zero(d);
  }
  for (std::int64_t j = 0; j < depth; ++j, m += m_stride) {
    V columns[Vectors];
    for (int c = 0; c < Vectors; ++c) {
      const T* from = m + static_cast<std::size_t>(c) * kLanes;
      columns[c] = live == 0 ? load(d, from) : load_n(d, from, live);
    }
    for (int r = 0; r < Rows; ++r) {
      const V weight = hn::Set(d, p[r * p_stride + j]);
      for (int c = 0; c < Vectors; ++c) acc[r][c] = hn::MulAdd(weight, columns[c], acc[r][c]);
    }
  }
  for (int r = 0; r < Rows; ++r) {
    for (int c = 0; c < Vectors; ++c) {
      float* at = to + r * to_stride + c * static_cast<std::int64_t>(kLanes);
      hn::StoreU(hn::Add(hn::LoadU(d, at), acc[r][c]), d, at);
    }
  }
}

template <int Rows, class T>
HWY_NOINLINE void add_product(const float* p, std::int64_t p_stride, const T* m, std::int64_t m_stride,
                              std::int64_t depth, std::int64_t columns, float* to, std::int64_t to_stride) {
  constexpr auto kStep = static_cast<std::int64_t>(kLanes);
  std::int64_t c = 0;
  for (; c + kColumnVectors * kStep <= columns; c += kColumnVectors * kStep) {
    add_product_columns<Rows, kColumnVectors>(p, p_stride, m + c, m_stride, depth, 0, to + c, to_stride);
  }
  for (; c + kStep <= columns; c += kStep) {
    add_product_columns<Rows, 1>(p, p_stride, m + c, m_stride, depth, 0, to + c, to_stride);
  }
  if (c < columns) {
    add_product_columns<Rows, 1>(p, p_stride, m + c, m_stride, depth, index(columns - c), to + c, to_stride);
  }
}

HWY_INLINE void add_product_rows(std::int64_t rows, const float* p, std::int64_t p_stride, const float* m,
                                 std::int64_t m_stride, std::int64_t depth, std::int64_t columns, float* to,
                                 std::int64_t to_stride) {
  for (std::int64_t r = 0; r < rows; r += 4) {
    add_product<4>(p + r * p_stride, p_stride, m, m_stride, depth, columns, to + r * to_stride, to_stride);
  }
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

// SPDX-License-Identifier: Apache-2.0
// out[t][n] = scale * sum_k x[t][k] weight[n][k] + bias[n], from row-major weights without packing.
// One token: eight rows stream together. More: a tile of tokens x 4 rows; 16-bit rows are converted once
// into a panel that stays in the first-level cache. Columns are summed in blocks of 1024.
#include "kernels/project.h"

#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/project.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

template <class T>
HWY_INLINE void to_floats(const T* from, std::size_t n, float* to) {
  const F d;
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(load(d, from + i), d, to + i);
  if (i < n) store_n(d, load_n(d, from + i, n - i), to + i, n - i);
}

template <int Rows, class T>
void rows_of(const ProjectBlock& b, const T* weight) {
  HWY_ALIGN float acc[kProjectTokens * Rows];
  HWY_ALIGN float panel[Rows == 4 && !std::is_same_v<T, float> ? 4 * kColumns : 1];
  for (std::int64_t n = 0; n < b.rows; n += Rows) {
    const std::int64_t live = HWY_MIN(b.rows - n, static_cast<std::int64_t>(Rows));
    for (std::int64_t k = 0; k < b.columns; k += kColumns) {
      const std::int64_t count = HWY_MIN(b.columns - k, kColumns);
      const T* w[Rows];
      // Rows past the end repeat the last one; their sums are dropped.
      for (int i = 0; i < Rows; ++i) {
        w[i] = weight + (n + HWY_MIN(static_cast<std::int64_t>(i), live - 1)) * b.weight_stride + k;
      }
      if constexpr (Rows == 4 && !std::is_same_v<T, float>) {
        if (b.tokens > kTile) {
          const float* converted[Rows];
          for (int i = 0; i < Rows; ++i) {
            to_floats(w[i], index(count), panel + i * kColumns);
            converted[i] = panel + i * kColumns;
          }
          add_tiles<Rows>(b, k, count, converted, acc);
          continue;
        }
      }
      add_tiles<Rows>(b, k, count, w, acc);
    }
    for (std::int64_t t = 0; t < b.tokens; ++t) write_out(b, t, n, live, acc + t * Rows);
  }
}

template <class T>
HWY_INLINE void typed(const ProjectBlock& b) {
  const T* weight = static_cast<const T*>(b.weight);
  if (b.tokens == 1) {
    rows_of<8>(b, weight);
  } else {
    rows_of<4>(b, weight);
  }
}

void Project(const ProjectBlock& b) {
  if (b.dtype == DType::f16) {
    typed<Half>(b);
  } else if (b.dtype == DType::bf16) {
    typed<BFloat16>(b);
  } else {
    typed<float>(b);
  }
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace locant::kernels {
HWY_EXPORT(Project);
void project(const ProjectBlock& block) noexcept {
  HWY_DYNAMIC_DISPATCH(Project)(block);
}
}  // namespace locant::kernels
#endif

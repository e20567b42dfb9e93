// SPDX-License-Identifier: Apache-2.0
// out[t][n] = scale * sum_k x[t][k] weight[n][k] + bias[n], from row-major weights as they are stored. One
// token: four rows stream together, in the order of dense-inl.h, which has everything else.
#include "kernels/project.h"

#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/project.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/dense-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

inline constexpr int kRows = 4;

// Sums of `count` columns of four rows. The next four are asked for on the way, as memory has them.
template <class T>
HWY_INLINE void four_rows(const float* x, const T* const* w, std::size_t count, LinesAhead& ahead,
                          float* sums) {
  const F d;
  V acc[kRows];
  for (V& sum : acc) sum = hn::Zero(d);
  LinesAhead asking = ahead;
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const V xs = hn::LoadU(d, x + i);
    for (int n = 0; n < kRows; ++n) acc[n] = hn::MulAdd(xs, load(d, w[n] + i), acc[n]);
    asking.template ask<kRows * kLanes * sizeof(T)>();
  }
  if (i < count) {
    const V xs = load_n(d, x + i, count - i);
    for (int n = 0; n < kRows; ++n) acc[n] = hn::MulAdd(xs, load_n(d, w[n] + i, count - i), acc[n]);
  }
  ahead = asking;
  sum4(acc[0], acc[1], acc[2], acc[3], sums);
}

template <class T>
void one_token(const ProjectBlock& b) {
  const T* weight = static_cast<const T*>(b.weight);
  for (std::int64_t n = 0; n < b.rows; n += kRows) {
    const std::int64_t live = HWY_MIN(b.rows - n, std::int64_t{kRows});
    float acc[kRows] = {};
    LinesAhead ahead{reinterpret_cast<const std::uint8_t*>(weight + (n + kRows) * b.weight_stride)};
    for (std::int64_t k = 0; k < b.columns; k += kColumns) {
      const T* w[kRows];
      for (int i = 0; i < kRows; ++i)
        w[i] = weight + (n + HWY_MIN(static_cast<std::int64_t>(i), live - 1)) * b.weight_stride + k;
      float sums[kRows];
      four_rows(b.x + k, w, index(HWY_MIN(b.columns - k, kColumns)), ahead, sums);
      add_sums(k, kRows, sums, acc);
    }
    write_out(b, 0, n, live, acc);
  }
}

template <class T>
HWY_INLINE void typed(const ProjectBlock& b) {
  if (b.tokens == 1) return one_token<T>(b);
  dense<FloatProducts<T>, T>(b, [](const float* from, std::size_t n, float* to)
                                    HWY_ATTR { std::memcpy(to, from, n * sizeof(float)); });
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

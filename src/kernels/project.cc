// SPDX-License-Identifier: Apache-2.0
// out[t][n] = scale * sum_k x[t][k] weight[n][k] + bias[n], from row-major weights.
//
// One token: eight rows stream together. Few: a tile reads four rows as they are stored. Many: a panel of
// rows is made f32 and aligned once, stays in the second-level cache, and tiles of tokens pass over it:
//
//             panel: 32 rows x 1024 columns                while a tile runs, it asks for a part of what
//            +------+------+-- ... --+------+              the next panel is made of
//   6 tokens | tile | tile |         | tile |
//            +------+------+-- ... --+------+
//   6 tokens | tile | ...
//
// Columns are summed in spans of 1024, so an element's bits depend on its row alone.
#include "kernels/project.h"

#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/project.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/dense-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

inline constexpr std::int64_t kPanelRows = 32;
// Rows of a panel lie apart by more than a page, which would give them all the same place in a cache.
inline constexpr std::int64_t kPanelStride = kColumns + 16;

template <class T>
HWY_INLINE void to_floats(const T* from, std::size_t n, float* to) {
  const F d;
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(load(d, from + i), d, to + i);
  if (i < n) store_n(d, load_n(d, from + i, n - i), to + i, n - i);
}

// Lines a step that ask for `bytes` in `steps` steps.
HWY_INLINE int lines_each(std::size_t bytes, std::int64_t steps) {
  return static_cast<int>((static_cast<std::int64_t>(bytes / 64) + steps - 1) / HWY_MAX(steps, std::int64_t{1}));
}

template <class T>
void few_tokens(const ProjectBlock& b, const T* weight) {
  HWY_ALIGN float acc[2 * kDenseTokens * 4] = {};
  const std::int64_t tiles = (b.tokens + kDenseTokens - 1) / kDenseTokens;
  const std::size_t bytes = index(b.columns) * sizeof(T);
  const std::int64_t steps = tiles * (b.columns / static_cast<std::int64_t>(kLanes));
  for (std::int64_t n = 0; n < b.rows; n += 4) {
    const std::int64_t live = HWY_MIN(b.rows - n, std::int64_t{4});
    Ahead ahead{.row = reinterpret_cast<const std::uint8_t*>(weight + (n + 4) * b.weight_stride),
                .stride = index(b.weight_stride) * sizeof(T),
                .bytes = bytes,
                .rows = HWY_MIN(b.rows - n - 4, std::int64_t{4}),
                .each = lines_each(4 * bytes, steps)};
    for (std::int64_t k = 0; k < b.columns; k += kColumns) {
      dense_spans<T>(b.tokens,
                     {.x = b.x + k,
                      .x_stride = b.x_stride,
                      .w = weight + n * b.weight_stride + k,
                      .w_stride = b.weight_stride,
                      .rows = live,
                      .columns = index(HWY_MIN(b.columns - k, kColumns)),
                      .first = k == 0,
                      .sums = acc,
                      .sums_stride = 4},
                     ahead);
    }
    for (std::int64_t t = 0; t < b.tokens; ++t) write_out(b, t, n, live, acc + t * 4);
  }
}

template <class T>
void many_tokens(const ProjectBlock& b, const T* weight) {
  alignas(64) float acc[kProjectTokens * kProjectRows];
  alignas(64) float xs[kProjectTokens * kPanelStride];
  const std::int64_t tiles = (b.tokens + kDenseTokens - 1) / kDenseTokens;
  for (std::int64_t k = 0; k < b.columns; k += kColumns) {
    const std::size_t count = index(HWY_MIN(b.columns - k, kColumns));
    for (std::int64_t t = 0; t < b.tokens; ++t) to_floats(b.x + t * b.x_stride + k, count, xs + t * kPanelStride);
    for (std::int64_t n = 0; n < b.rows; n += kPanelRows) {
      const std::int64_t rows = HWY_MIN(b.rows - n, kPanelRows);
      Ahead ahead{.row = reinterpret_cast<const std::uint8_t*>(weight + (n + kPanelRows) * b.weight_stride + k),
                  .stride = index(b.weight_stride) * sizeof(T),
                  .bytes = count * sizeof(T),
                  .rows = HWY_MIN(b.rows - n - kPanelRows, kPanelRows),
                  .each = lines_each(kPanelRows * count * sizeof(T), tiles * 8 * static_cast<std::int64_t>(count / kLanes))};
      dense_spans<T>(b.tokens,
                     {.x = xs,
                      .x_stride = kPanelStride,
                      .w = weight + n * b.weight_stride + k,
                      .w_stride = b.weight_stride,
                      .rows = rows,
                      .columns = count,
                      .first = k == 0,
                      .sums = acc + n,
                      .sums_stride = kProjectRows},
                     ahead);
    }
  }
  for (std::int64_t t = 0; t < b.tokens; ++t) write_out(b, t, 0, b.rows, acc + t * kProjectRows);
}

// One token. `ahead` walks through the next eight rows as they lie in memory.
template <class T>
void one_token(const ProjectBlock& b, const T* weight) {
  const F d;
  for (std::int64_t n = 0; n < b.rows; n += 8) {
    const std::int64_t live = HWY_MIN(b.rows - n, std::int64_t{8});
    float acc[8] = {};
    Ahead ahead{.row = reinterpret_cast<const std::uint8_t*>(weight + (n + 8) * b.weight_stride),
                .stride = index(b.weight_stride) * sizeof(T),
                .bytes = index(b.columns) * sizeof(T),
                .rows = HWY_MIN(b.rows - n - 8, std::int64_t{8}),
                .each = static_cast<int>(8 * kLanes * sizeof(T) / 64)};
    for (std::int64_t k = 0; k < b.columns; k += kColumns) {
      const std::size_t count = index(HWY_MIN(b.columns - k, kColumns));
      const T* w[8];
      for (int i = 0; i < 8; ++i)
        w[i] = weight + (n + HWY_MIN(static_cast<std::int64_t>(i), live - 1)) * b.weight_stride + k;
      const float* x = b.x + k;
      V sum[8];
      for (auto& s : sum) s = hn::Zero(d);
      std::size_t i = 0;
      for (; i + kLanes <= count; i += kLanes) {
        const V xs = hn::LoadU(d, x + i);
        for (int j = 0; j < 8; ++j) sum[j] = hn::MulAdd(xs, load(d, w[j] + i), sum[j]);
        ahead.ask();
      }
      if (i < count) {
        const V xs = load_n(d, x + i, count - i);
        for (int j = 0; j < 8; ++j) sum[j] = hn::MulAdd(xs, load_n(d, w[j] + i, count - i), sum[j]);
      }
      float sums[8];
      sum4(sum[0], sum[1], sum[2], sum[3], sums);
      sum4(sum[4], sum[5], sum[6], sum[7], sums + 4);
      add_sums(k, 8, sums, acc);
    }
    write_out(b, 0, n, live, acc);
  }
}

template <class T>
HWY_INLINE void typed(const ProjectBlock& b) {
  const T* weight = static_cast<const T*>(b.weight);
  if (b.tokens == 1) {
    one_token(b, weight);
  } else if (b.tokens <= 2 * kDenseTokens) {
    few_tokens(b, weight);
  } else {
    many_tokens(b, weight);
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

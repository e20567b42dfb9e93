// SPDX-License-Identifier: Apache-2.0
// Products with a weight of blocks. One token: four rows are unpacked to whole numbers and multiplied on the
// way. More: four rows become f32 in a panel that stays in the first-level cache. The sums are those of
// project() on the dequantized weight, in the same order.
#include "kernels/project.h"

#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/project_blocks.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/blocks-inl.h"
#include "kernels/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

static_assert(kColumns == static_cast<std::int64_t>(kSpan));

// sums[i] = sum_k x[k] w_i[k] of four rows.
template <class G>
HWY_INLINE void dot_spans(const float* x, const Span* w, std::size_t count, float* sums) {
  const F d;
  constexpr auto kGroup = static_cast<std::size_t>(G::kElements);
  V acc[4];
  for (int n = 0; n < 4; ++n) acc[n] = hn::Zero(d);
  for (std::size_t i = 0; i < count; i += kGroup) {
    V scale[4];
    V minus[4];
    for (int n = 0; n < 4; ++n) {
      scale[n] = hn::Set(d, w[n].scale[i / kGroup]);
      minus[n] = G::kMinus ? hn::Set(d, w[n].minus[i / kGroup]) : hn::Zero(d);
    }
    for (std::size_t j = i; j < i + kGroup; j += kLanes) {
      const V xs = hn::LoadU(d, x + j);
      for (int n = 0; n < 4; ++n)
        acc[n] = hn::MulAdd(xs, value_of<G>(w[n].q + j, scale[n], minus[n]), acc[n]);
    }
  }
  sum4(acc[0], acc[1], acc[2], acc[3], sums);
}

template <class G>
HWY_INLINE void one_token(const ProjectBlock& b, std::int64_t k, std::size_t count,
                          const std::uint8_t* const* rows, float* acc) {
  Span spans[4];
  float sums[4];
  for (int i = 0; i < 4; ++i) unpack(b.type, rows[i], count, spans[i]);
  dot_spans<G>(b.x + k, spans, count, sums);
  add_sums(k, 4, sums, acc);
}

template <class G>
HWY_INLINE void more_tokens(const ProjectBlock& b, std::int64_t k, std::size_t count,
                            const std::uint8_t* const* rows, float* acc) {
  const F d;
  HWY_ALIGN float panel[4 * kColumns];
  const float* w[4];
  Span span;
  for (int i = 0; i < 4; ++i) {
    float* to = panel + i * kColumns;
    unpack(b.type, rows[i], count, span);
    each_value<G>(span, count, [&](std::size_t at, V values) { hn::Store(values, d, to + at); });
    w[i] = to;
  }
  add_tiles<4>(b, k, static_cast<std::int64_t>(count), w, acc);
}

void ProjectBlocks(const ProjectBlock& b) {
  HWY_ALIGN float acc[kProjectTokens * 4];
  const auto* weight = static_cast<const std::uint8_t*>(b.weight);
  const std::int64_t elements = block_elements(b.type);
  const std::int64_t bytes = block_bytes(b.type);
  with_groups(b.type, [&](auto groups) {
    using G = decltype(groups);
    for (std::int64_t n = 0; n < b.rows; n += 4) {
      const std::int64_t live = HWY_MIN(b.rows - n, std::int64_t{4});
      for (std::int64_t k = 0; k < b.columns; k += kColumns) {
        const std::size_t count = index(HWY_MIN(b.columns - k, kColumns));
        const std::uint8_t* rows[4];
        // Rows past the end repeat the last one; their sums are dropped.
        for (std::int64_t i = 0; i < 4; ++i) {
          rows[i] = weight + ((n + HWY_MIN(i, live - 1)) * b.weight_stride + k) / elements * bytes;
        }
        if (b.tokens == 1) {
          one_token<G>(b, k, count, rows, acc);
        } else {
          more_tokens<G>(b, k, count, rows, acc);
        }
      }
      for (std::int64_t t = 0; t < b.tokens; ++t) write_out(b, t, n, live, acc + t * 4);
    }
  });
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace locant::kernels {
HWY_EXPORT(ProjectBlocks);
void project_blocks(const ProjectBlock& block) noexcept {
  HWY_DYNAMIC_DISPATCH(ProjectBlocks)(block);
}
}  // namespace locant::kernels
#endif

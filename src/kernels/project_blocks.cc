// SPDX-License-Identifier: Apache-2.0
// Products with a weight of blocks in f32. One token: four rows are unpacked to whole numbers and multiplied
// on the way, or more straight from their bytes (direct-inl.h). More: four rows become f32 in a panel that
// stays in the first-level cache. The sums are those of project() on the dequantized weight, in the same
// order.
#include "kernels/project.h"

#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/project_blocks.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/direct-inl.h"
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
HWY_INLINE void one_token(const ProjectBlock& b) {
  const BlockBytes all(b);
  Span spans[4];
  float acc[4];
  float sums[4];
  for (std::int64_t n = 0; n < b.rows; n += 4) {
    for (std::int64_t k = 0; k < b.columns; k += kColumns) {
      const std::size_t count = index(HWY_MIN(b.columns - k, kColumns));
      const SomeRows<4> rows = some_rows<4>(all, b, n, k);
      span_ahead(all, b, n, k, 4, kColumns, 1).ask_all();
      for (int i = 0; i < 4; ++i) unpack(b.type, rows.at[i], count, spans[i]);
      dot_spans<G>(b.x + k, spans, count, sums);
      add_sums(k, 4, sums, acc);
    }
    write_out(b, 0, n, HWY_MIN(b.rows - n, std::int64_t{4}), acc);
  }
}

template <class G>
HWY_INLINE void more_tokens(const ProjectBlock& b) {
  const BlockBytes all(b);
  const F d;
  HWY_ALIGN float acc[kProjectTokens * 4];
  HWY_ALIGN float panel[4 * kColumns];
  const float* const w[4] = {panel, panel + kColumns, panel + 2 * kColumns, panel + 3 * kColumns};
  Span span;
  for (std::int64_t n = 0; n < b.rows; n += 4) {
    for (std::int64_t k = 0; k < b.columns; k += kColumns) {
      const std::int64_t count = HWY_MIN(b.columns - k, kColumns);
      const SomeRows<4> rows = some_rows<4>(all, b, n, k);
      span_ahead(all, b, n, k, 4, kColumns, 1).ask_all();
      for (int i = 0; i < 4; ++i) {
        float* const to = panel + i * kColumns;
        const auto keep = [&](std::size_t at, V values) HWY_ATTR { hn::Store(values, d, to + at); };
        if (with_direct(b.type, [&](auto direct) HWY_ATTR {
              each_direct_value<decltype(direct)>(rows.at[i], index(count), span, keep);
            }))
          continue;
        unpack(b.type, rows.at[i], index(count), span);
        each_value<G>(span, index(count), keep);
      }
      add_tiles<4>(b, k, count, w, acc);
    }
    for (std::int64_t t = 0; t < b.tokens; ++t)
      write_out(b, t, n, HWY_MIN(b.rows - n, std::int64_t{4}), acc + t * 4);
  }
}

template <class Direct>
HWY_INLINE void one_direct_token(const ProjectBlock& b) {
  const BlockBytes all(b);
  Span spans[kDirectRows];
  float acc[kDirectRows];
  float sums[kDirectRows];
  for (std::int64_t n = 0; n < b.rows; n += kDirectRows) {
    for (std::int64_t k = 0; k < b.columns; k += kColumns) {
      const std::size_t count = index(HWY_MIN(b.columns - k, kColumns));
      const SomeRows<kDirectRows> rows = some_rows<kDirectRows>(all, b, n, k);
      const auto steps = static_cast<std::int64_t>(count / Direct::kStep);
      Ahead ahead = span_ahead(all, b, n, k, kDirectRows, kColumns, steps);
      for (int i = 0; i < kDirectRows; ++i) Direct::scales(rows.at[i], count, spans[i]);
      dot_rows<Direct>(b.x + k, rows.at, count, spans, ahead, sums);
      add_sums(k, kDirectRows, sums, acc);
    }
    write_out(b, 0, n, HWY_MIN(b.rows - n, std::int64_t{kDirectRows}), acc);
  }
}

void ProjectBlocks(const ProjectBlock& b) {
  if (b.tokens == 1 &&
      with_direct(b.type, [&](auto direct) HWY_ATTR { one_direct_token<decltype(direct)>(b); }))
    return;
  with_groups(b.type, [&](auto groups) HWY_ATTR {
    using G = decltype(groups);
    if (b.tokens == 1) {
      one_token<G>(b);
    } else {
      more_tokens<G>(b);
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

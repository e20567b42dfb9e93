// SPDX-License-Identifier: Apache-2.0
// Products with a weight of blocks, in whole numbers: x is rounded to q = x / factor in groups of 32, and
// sum_k x w = sum over groups of factor (scale sum q_x q_w - minus sum q_x). Products of 8 bits are summed in
// i32, exactly (32 * 127 * 255 < 2^24, so f32 holds them too); groups are added in f32, in order, in spans of
// 512 columns. A tile is tokens x vectors of rows; a panel is unpacked once for all tokens.
#include "kernels/project.h"

#include "kernels/targets-inl.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/project_int8.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/panel-inl.h"
#include "kernels/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

// Tokens and panels of the largest tile: 4 x 2 f32 sums, as many whole ones and their operands need 32
// registers.
#if HWY_TARGET == HWY_AVX3
inline constexpr int kPanels = 2;
#else
inline constexpr int kPanels = 1;
#endif
inline constexpr int kTileTokens = 4;

// What the products of a type need: groups, and the largest whole number of a weight.
template <int Elements, bool Minus, int Most>
struct Whole {
  static constexpr int kElements = Elements;
  static constexpr bool kMinus = Minus;
  static constexpr int kMost = Most;
};

template <class Body>
HWY_INLINE void with_whole(GgmlType type, Body body) {
  switch (type) {
    case GgmlType::q4_1:
    case GgmlType::q5_1:
    case GgmlType::q4_k:
    case GgmlType::q5_k:
      return body(Whole<32, true, 31>());
    case GgmlType::q2_k:
      return body(Whole<16, true, 31>());
    case GgmlType::q3_k:
    case GgmlType::q6_k:
      return body(Whole<16, false, 63>());
    case GgmlType::q8_0:
    case GgmlType::iq4_nl:
    case GgmlType::iq4_xs:
      return body(Whole<32, false, kWide>());
    default:
      return body(Whole<32, false, 31>());
  }
}

// The whole sums of group g of a tile.
template <class G, class Sum, int Tokens, int J>
HWY_INLINE void add_words(const Rounded& x, std::int64_t t, std::size_t g, const Panel* w,
                          Sum (*sums)[kPanels]) {
  constexpr int kCount = G::kElements / 4;
  if constexpr (J < kCount) {
    const Words d;
    const std::size_t word = g * kCount + J;
    VWords rows[kPanels];
    for (int v = 0; v < kPanels; ++v) rows[v] = hn::Load(d, w[v].q[word]);
    for (int i = 0; i < Tokens; ++i) {
      std::uint32_t four;
      std::memcpy(&four, x.q[t + i] + 4 * word, sizeof(four));
      const VWords xs = hn::Set(d, four);
      for (int v = 0; v < kPanels; ++v) sums[i][v].template add<J>(rows[v], xs);
    }
    add_words<G, Sum, Tokens, J + 1>(x, t, g, w, sums);
  }
}

// acc[i][n] of tokens t + i of a span, n the rows of kPanels panels; the first span begins the sums.
template <class G, class Dots, int Tokens>
HWY_INLINE void add_tile(const Rounded& x, std::int64_t t, const Panel* w, std::size_t count, bool begins,
                         float* acc) {
  using Sum = typename Dots::template Sum<G::kMost, G::kElements / 4>;
  const F d;
  V all[Tokens][kPanels];
  for (int i = 0; i < Tokens; ++i) {
    for (int v = 0; v < kPanels; ++v) all[i][v] = hn::Zero(d);
  }
  for (std::size_t g = 0; g < count / G::kElements; ++g) {
    Sum sums[Tokens][kPanels];
    for (int i = 0; i < Tokens; ++i) {
      for (int v = 0; v < kPanels; ++v) sums[i][v] = Sum(x.first[t + i][g]);
    }
    add_words<G, Sum, Tokens, 0>(x, t, g, w, sums);
    for (int v = 0; v < kPanels; ++v) {
      const V scale = hn::Load(d, w[v].scale[g]);
      for (int i = 0; i < Tokens; ++i) {
        const V factor = hn::Set(d, x.factor[t + i][g * G::kElements / 32]);
        all[i][v] = hn::MulAdd(hn::ConvertTo(d, sums[i][v].total()), hn::Mul(factor, scale), all[i][v]);
        if constexpr (G::kMinus) {
          const V total = hn::Set(d, x.total[t + i][g]);
          all[i][v] = hn::NegMulAdd(total, hn::Load(d, w[v].minus[g]), all[i][v]);
        }
      }
    }
  }
  for (int i = 0; i < Tokens; ++i) {
    for (int v = 0; v < kPanels; ++v) {
      float* to = acc + i * kInt8Rows + v * static_cast<std::int64_t>(kLanes);
      hn::Store(begins ? all[i][v] : hn::Add(hn::Load(d, to), all[i][v]), d, to);
    }
  }
}

HWY_INLINE PanelRows panel_rows(const ProjectBlock& b, std::int64_t n, std::int64_t k) {
  PanelRows rows;
  const std::int64_t elements = block_elements(b.type);
  const std::int64_t bytes = block_bytes(b.type);
  const std::int64_t row_bytes = b.weight_stride / elements * bytes;
  const auto* first = static_cast<const std::uint8_t*>(b.weight) + k / elements * bytes;
  for (std::size_t i = 0; i < kLanes; ++i)
    rows.at[i] = first + HWY_MIN(n + static_cast<std::int64_t>(i), b.rows - 1) * row_bytes;
  constexpr auto kStep = kPanels * static_cast<std::int64_t>(kLanes);
  if (n + kStep < b.rows) rows.ahead = kStep * row_bytes;
  return rows;
}
// Panels from row n on times a span of all tokens, whose first is `x`.
template <class G, class Dots>
HWY_INLINE void add_span(const ProjectBlock& b, const Rounded& x, std::int64_t first, std::int64_t n,
                         std::int64_t k, Panel* panels, float* acc) {
  constexpr auto kRows = static_cast<std::int64_t>(kLanes);
  constexpr std::uint8_t kFlip = G::kMost == kWide && Dots::kOffset ? 128 : 0;
  const std::int64_t columns = HWY_MIN(b.columns - k, static_cast<std::int64_t>(kWhole));
  const std::size_t count = index(columns);
  for (std::int64_t v = 0; v < kPanels; ++v)
    unpack_panel(b.type, panel_rows(b, n + v * kRows, k), count, kFlip, panels[v]);
  std::int64_t t = 0;
  for (; t + kTileTokens <= b.tokens; t += kTileTokens)
    add_tile<G, Dots, kTileTokens>(x, first + t, panels, count, k == 0, acc + t * kInt8Rows);
  if (t + 2 <= b.tokens) {
    add_tile<G, Dots, 2>(x, first + t, panels, count, k == 0, acc + t * kInt8Rows);
    t += 2;
  }
  if (t < b.tokens) add_tile<G, Dots, 1>(x, first + t, panels, count, k == 0, acc + t * kInt8Rows);
}

// As many spans as Rounded has room for are rounded at once; few tokens walk whole rows of the weight.
template <class G, class Dots>
HWY_NOINLINE void multiply(const ProjectBlock& b) {
  constexpr auto kSpanColumns = static_cast<std::int64_t>(kWhole);
  const std::int32_t offset = offset_of(b.type) + (G::kMost == kWide && Dots::kOffset ? 128 : 0);
  Rounded x;
  Panel panels[kPanels];
  HWY_ALIGN float acc[kProjectTokens * kInt8Rows];
  const std::int64_t step = kProjectTokens / b.tokens * kSpanColumns;
  for (std::int64_t from = 0; from < b.columns; from += step) {
    const std::int64_t to = HWY_MIN(from + step, b.columns);
    for (std::int64_t k = from; k < to; k += kSpanColumns) {
      const std::int64_t slot = (k - from) / kSpanColumns * b.tokens;
      const std::size_t count = index(HWY_MIN(to - k, kSpanColumns));
      for (std::int64_t t = 0; t < b.tokens; ++t)
        round_span<static_cast<std::size_t>(G::kElements)>(b.x + t * b.x_stride + k, count, offset, slot + t,
                                                           x);
    }
    for (std::int64_t n = 0; n < b.rows; n += kPanels * static_cast<std::int64_t>(kLanes)) {
      for (std::int64_t k = from; k < to; k += kSpanColumns)
        add_span<G, Dots>(b, x, (k - from) / kSpanColumns * b.tokens, n, k, panels, acc + n);
    }
  }
  for (std::int64_t t = 0; t < b.tokens; ++t) write_out(b, t, 0, b.rows, acc + t * kInt8Rows);
}

template <class Dots>
HWY_INLINE void multiply_with(const ProjectBlock& b) {
  with_whole(b.type, [&](auto whole) { multiply<decltype(whole), Dots>(b); });
}

void ProjectInt8(const ProjectBlock& b) {
#if HWY_TARGET == HWY_AVX3
  if (has_byte_dots()) return multiply_with<DotUnit>(b);
#endif
  multiply_with<Portable>(b);
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace locant::kernels {
HWY_EXPORT(ProjectInt8);
void project_int8(const ProjectBlock& block) noexcept {
  HWY_DYNAMIC_DISPATCH(ProjectInt8)(block);
}
}  // namespace locant::kernels
#endif

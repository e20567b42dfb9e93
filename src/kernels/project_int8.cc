// SPDX-License-Identifier: Apache-2.0
// Products with a weight of blocks, in whole numbers: x is rounded to q = x / factor, |q| <= 127, in groups
// of
// 32. sum_k x w = sum over groups of factor (scale sum q_x q_w - minus sum q_x). Products of 8 bits are
// summed in i32, exactly (32 * 127 * 128 < 2^24, so f32 holds them too); the rest is f32 in a fixed order.
#include "kernels/project.h"

#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/project_int8.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/blocks-inl.h"
#include "kernels/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

inline constexpr std::int64_t kRoundedTokens = 16;

// A span of columns of some tokens.
struct Rounded {
  HWY_ALIGN std::int16_t q[kRoundedTokens][kSpan];
  HWY_ALIGN float factor[kRoundedTokens][kSpan / 32];
  HWY_ALIGN float total[kRoundedTokens][kSpan / 16];  // factor * sum q of the weight's groups
};

HWY_INLINE float largest(const float* x) {
  const F d;
  const hn::RebindToSigned<F> di;
  auto top = hn::Zero(di);  // order of bits is order of sizes, and NaN is above infinity
  for (std::size_t i = 0; i < 32; i += kLanes)
    top = hn::Max(top, hn::BitCast(di, hn::Abs(hn::LoadU(d, x + i))));
  return hn::GetLane(hn::BitCast(d, hn::MaxOfLanes(di, top)));
}

template <class G>
HWY_INLINE void round_span(const float* x, std::size_t count, std::int64_t t, Rounded& to) {
  const F d;
  const hn::RebindToSigned<F> di;
  const hn::Rebind<std::int16_t, F> d16;
  constexpr auto kGroup = static_cast<std::size_t>(G::kElements);
  for (std::size_t i = 0; i < count; i += 32) {
    const float most = largest(x + i);
    const bool finite = most <= 3.402823466e38f;
    const bool counts = finite && most >= 0x1p-119f;
    const float factor = finite ? (counts ? most / 127 : 0) : most - most;  // NaN
    const V inverse = hn::Set(d, counts ? 127 / most : 0);
    to.factor[t][i / 32] = factor;
    for (std::size_t group = i; group < i + 32; group += kGroup) {
      auto sum = hn::Zero(di);
      for (std::size_t j = group; j < group + kGroup; j += kLanes) {
        const auto q = hn::NearestInt(hn::Mul(hn::LoadU(d, x + j), inverse));
        sum = hn::Add(sum, q);
        hn::StoreU(hn::DemoteTo(d16, q), d16, to.q[t] + j);
      }
      to.total[t][group / kGroup] = factor * static_cast<float>(hn::GetLane(hn::SumOfLanes(di, sum)));
    }
  }
}

#if HWY_TARGET == HWY_SCALAR
inline constexpr std::size_t kShorts = 1;
using WideSum = hn::Vec<hn::RebindToSigned<F>>;
HWY_INLINE void load_shorts(const std::int8_t* q, std::int16_t& to) {
  to = *q;
}
HWY_INLINE void load_shorts(const std::int16_t* q, std::int16_t& to) {
  to = *q;
}
using Shorts = std::int16_t;
HWY_INLINE void add_products(Shorts a, Shorts b, WideSum& sum, WideSum& /*other*/) {
  sum = hn::Add(sum, hn::Set(hn::RebindToSigned<F>(), a * b));
}
#else
using S16 = hn::ScalableTag<std::int16_t>;
using Shorts = hn::Vec<S16>;
using WideSum = hn::Vec<hn::RepartitionToWide<S16>>;
inline constexpr std::size_t kShorts = hn::MaxLanes(S16());
HWY_INLINE void load_shorts(const std::int8_t* q, Shorts& to) {
  to = hn::PromoteTo(S16(), hn::LoadU(hn::Rebind<std::int8_t, S16>(), q));
}
HWY_INLINE void load_shorts(const std::int16_t* q, Shorts& to) {
  to = hn::LoadU(S16(), q);
}
HWY_INLINE void add_products(Shorts a, Shorts b, WideSum& sum, WideSum& other) {
  sum = hn::ReorderWidenMulAccumulate(hn::RepartitionToWide<S16>(), a, b, sum, other);
}
#endif

// Parts of 32 elements that have their own scale: two halves of 16 in vectors that hold no more, else one,
// whose scale may differ between the halves of the vector.
template <class G>
inline constexpr std::size_t kParts = G::kElements == 16 && kShorts < 32 ? 2 : 1;

// The scale of part p of the 32 elements from element i on.
template <class G>
HWY_INLINE V scale_of(const Span& w, std::size_t i, [[maybe_unused]] std::size_t p) {
  const F d;
  if constexpr (G::kElements == 32) {
    return hn::Set(d, w.scale[i / 32]);
  } else if constexpr (kParts<G> == 2) {
    return hn::Set(d, w.scale[i / 16 + p]);
  } else {
    const V second = hn::Set(d, w.scale[i / 16 + 1]);
    return hn::IfThenElse(hn::FirstN(d, 8), hn::Set(d, w.scale[i / 16]), second);
  }
}

// sums is [Tokens][4].
template <class G, int Tokens>
HWY_INLINE void dot_rounded(const Rounded& x, std::int64_t t0, const Span* w, std::size_t count,
                            float* sums) {
  const F d;
  constexpr std::size_t kVectors = 32 / kShorts / kParts<G>;
  V acc[Tokens][4];
  for (int t = 0; t < Tokens; ++t) {
    for (int n = 0; n < 4; ++n) acc[t][n] = hn::Zero(d);
  }
  for (std::size_t i = 0; i < count; i += 32) {
    V factor[Tokens];
    for (int t = 0; t < Tokens; ++t) factor[t] = hn::Set(d, x.factor[t0 + t][i / 32]);
    for (std::size_t p = 0; p < kParts<G>; ++p) {
      for (int n = 0; n < 4; ++n) {
        const V scale = scale_of<G>(w[n], i, p);
        Shorts rows[kVectors];
        for (std::size_t v = 0; v < kVectors; ++v)
          load_shorts(w[n].q + i + (p * kVectors + v) * kShorts, rows[v]);
        for (int t = 0; t < Tokens; ++t) {
          auto sum = hn::Zero(hn::RebindToSigned<F>());
          auto other = sum;
          for (std::size_t v = 0; v < kVectors; ++v) {
            Shorts xs;
            load_shorts(x.q[t0 + t] + i + (p * kVectors + v) * kShorts, xs);
            add_products(rows[v], xs, sum, other);
          }
          acc[t][n] = hn::MulAdd(hn::ConvertTo(d, hn::Add(sum, other)), hn::Mul(factor[t], scale), acc[t][n]);
        }
      }
    }
  }
  for (int t = 0; t < Tokens; ++t) {
    if constexpr (G::kMinus) {
      const std::size_t groups = count / static_cast<std::size_t>(G::kElements);
      for (int n = 0; n < 4; ++n) {
        V less = hn::Zero(d);
        std::size_t g = 0;
        for (; g + kLanes <= groups; g += kLanes)
          less = hn::MulAdd(hn::LoadU(d, x.total[t0 + t] + g), hn::LoadU(d, w[n].minus + g), less);
        if (g < groups) {
          less = hn::MulAdd(load_n(d, x.total[t0 + t] + g, groups - g), load_n(d, w[n].minus + g, groups - g),
                            less);
        }
        acc[t][n] = hn::Sub(acc[t][n], less);
      }
    }
    sum4(acc[t][0], acc[t][1], acc[t][2], acc[t][3], sums + std::ptrdiff_t{t} * 4);
  }
}

// A span of columns of four rows for all tokens; acc is [tokens][kProjectRows].
template <class G, int Tokens>
HWY_INLINE void add_rounded(const Rounded& x, std::int64_t t, const Span* w, std::int64_t k,
                            std::size_t count, float* acc) {
  float sums[Tokens * 4];
  dot_rounded<G, Tokens>(x, t, w, count, sums);
  for (int i = 0; i < Tokens; ++i) add_sums(k, 4, sums + std::ptrdiff_t{i} * 4, acc + (t + i) * kProjectRows);
}

template <class G>
void tokens_of(const ProjectBlock& b, std::int64_t first, std::int64_t tokens) {
  Rounded x;
  Span spans[4];
  HWY_ALIGN float acc[kRoundedTokens * kProjectRows];
  const auto* weight = static_cast<const std::uint8_t*>(b.weight);
  const std::int64_t elements = block_elements(b.type);
  for (std::int64_t k = 0; k < b.columns; k += kColumns) {
    const std::size_t count = index(HWY_MIN(b.columns - k, kColumns));
    for (std::int64_t t = 0; t < tokens; ++t) round_span<G>(b.x + (first + t) * b.x_stride + k, count, t, x);
    for (std::int64_t n = 0; n < b.rows; n += 4) {
      for (std::int64_t i = 0; i < 4; ++i) {  // rows past the end repeat the last one
        const std::int64_t at = HWY_MIN(n + i, b.rows - 1) * b.weight_stride + k;
        unpack(b.type, weight + at / elements * block_bytes(b.type), count, spans[i]);
      }
      std::int64_t t = 0;
      for (; t + kTile <= tokens; t += kTile) add_rounded<G, kTile>(x, t, spans, k, count, acc + n);
      for (; t < tokens; ++t) add_rounded<G, 1>(x, t, spans, k, count, acc + n);
    }
  }
  for (std::int64_t t = 0; t < tokens; ++t) write_out(b, first + t, 0, b.rows, acc + t * kProjectRows);
}

void ProjectInt8(const ProjectBlock& b) {
  with_groups(b.type, [&](auto groups) {
    for (std::int64_t t = 0; t < b.tokens; t += kRoundedTokens)
      tokens_of<decltype(groups)>(b, t, HWY_MIN(b.tokens - t, kRoundedTokens));
  });
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

// SPDX-License-Identifier: Apache-2.0
// A span of a row of blocks as 8-bit whole numbers, scales and minuses: value = scale * q - minus. The
// product is exact in f32 for every type, so it may be fused with the subtraction.
#if defined(LOCANT_KERNELS_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_BLOCKS_INL_H_
#undef LOCANT_KERNELS_BLOCKS_INL_H_
#else
#define LOCANT_KERNELS_BLOCKS_INL_H_
#endif

#include "kernels/ahead-inl.h"
#include "kernels/project.h"
#include "kernels/unpack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

// `bytes` at the block that holds the first of `count` elements, whole blocks, kSpan at most.
inline void unpack(GgmlType type, const std::uint8_t* bytes, std::size_t count, Span& to) {
  switch (type) {
    case GgmlType::q4_0:
      return unpack_small<SmallQ40>(bytes, count, to);
    case GgmlType::q4_1:
      return unpack_small<SmallQ41>(bytes, count, to);
    case GgmlType::q5_0:
      return unpack_small<SmallQ50>(bytes, count, to);
    case GgmlType::q5_1:
      return unpack_small<SmallQ51>(bytes, count, to);
    case GgmlType::q8_0:
      return unpack_small<SmallQ80>(bytes, count, to);
    case GgmlType::iq4_nl:
      return unpack_small<SmallIq4Nl>(bytes, count, to);
    case GgmlType::mxfp4:
      return unpack_mxfp4(bytes, count, to);
    case GgmlType::iq4_xs:
      return unpack_iq4_xs(bytes, count, to);
    case GgmlType::q2_k:
      return unpack_q2_k(bytes, count, to);
    case GgmlType::q3_k:
      return unpack_q3_k(bytes, count, to);
    case GgmlType::q4_k:
      return unpack_q4_k(bytes, count, to);
    case GgmlType::q5_k:
      return unpack_q5_k(bytes, count, to);
    default:
      return unpack_q6_k(bytes, count, to);
  }
}

// A weight of blocks in bytes.
struct BlockBytes {
  const std::uint8_t* weight;
  std::int64_t elements;  // of a block
  std::int64_t bytes;     // of a block
  std::int64_t stride;    // from row to row

  HWY_INLINE explicit BlockBytes(const ProjectBlock& b)
      : weight(static_cast<const std::uint8_t*>(b.weight)),
        elements(block_elements(b.type)),
        bytes(block_bytes(b.type)),
        stride(b.weight_stride / elements * bytes) {}
  [[nodiscard]] const std::uint8_t* at(std::int64_t n, std::int64_t k) const {
    return weight + n * stride + of(k);
  }
  [[nodiscard]] std::int64_t of(std::int64_t columns) const { return columns / elements * bytes; }
};

// `Count` rows of a weight of blocks from column k on. Rows past the end repeat the last one.
template <std::int64_t Count>
struct SomeRows {
  const std::uint8_t* at[Count];
};
template <std::int64_t Count>
HWY_INLINE SomeRows<Count> some_rows(const BlockBytes& all, const ProjectBlock& b, std::int64_t n,
                                     std::int64_t k) {
  SomeRows<Count> rows;
  for (std::int64_t i = 0; i < Count; ++i) rows.at[i] = all.at(HWY_MIN(n + i, b.rows - 1), k);
  return rows;
}

// Where `rows` rows from row n on go on after the span of column k: the next span, or the next rows' first.
HWY_INLINE Ahead span_ahead(const BlockBytes& all, const ProjectBlock& b, std::int64_t n, std::int64_t k,
                            std::int64_t rows, std::int64_t span, std::int64_t steps) {
  if (k + span < b.columns) {
    k += span;
  } else {
    k = 0;
    n += rows;
  }
  if (n >= b.rows) return {};
  return in_steps({.row = all.at(n, k),
                   .stride = all.stride,
                   .bytes = all.of(HWY_MIN(span, b.columns - k)),
                   .rows = HWY_MIN(rows, b.rows - n)},
                  steps);
}

// Elements that share a scale, and whether a minus is taken off.
template <int Elements, bool Minus>
struct Groups {
  static constexpr int kElements = Elements;
  static constexpr bool kMinus = Minus;
};

// body(Groups<...>()) for the type's groups.
template <class Body>
HWY_INLINE void with_groups(GgmlType type, Body body) {
  switch (type) {
    case GgmlType::q4_1:
    case GgmlType::q5_1:
    case GgmlType::q4_k:
    case GgmlType::q5_k:
      return body(Groups<32, true>());
    case GgmlType::q2_k:
      return body(Groups<16, true>());
    case GgmlType::q3_k:
    case GgmlType::q6_k:
      return body(Groups<16, false>());
    default:
      return body(Groups<32, false>());
  }
}

// The values of one vector of a group.
template <class G>
HWY_INLINE V value_of(const std::int8_t* q, V scale, [[maybe_unused]] V minus) {
  const F d;
  const hn::RebindToSigned<F> di;
  const hn::Rebind<std::int8_t, F> d8;
  const V whole = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d8, q)));
  if constexpr (G::kMinus) {
    return hn::MulSub(whole, scale, minus);
  } else {
    return hn::Mul(whole, scale);
  }
}

// use(i, values) for each vector of values from element i.
template <class G, class Use>
HWY_INLINE void each_value(const Span& from, std::size_t count, Use use) {
  const F d;
  constexpr auto kGroup = static_cast<std::size_t>(G::kElements);
  for (std::size_t i = 0; i < count; i += kGroup) {
    const V scale = hn::Set(d, from.scale[i / kGroup]);
    const V minus = G::kMinus ? hn::Set(d, from.minus[i / kGroup]) : hn::Zero(d);
    for (std::size_t j = 0; j < kGroup; j += kLanes) use(i + j, value_of<G>(from.q + i + j, scale, minus));
  }
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

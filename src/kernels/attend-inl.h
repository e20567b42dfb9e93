// SPDX-License-Identifier: Apache-2.0
// What both ways of attention share (attend-panel-inl.h for many rows, attend-few-inl.h for few): the weights
// of scores, what a group of rows sees of a chunk of slots, and scores that are asked for.
#if defined(LOCANT_KERNELS_ATTEND_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_ATTEND_INL_H_
#undef LOCANT_KERNELS_ATTEND_INL_H_
#else
#define LOCANT_KERNELS_ATTEND_INL_H_
#endif

#include <limits>

#include "kernels/attend.h"
#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

inline constexpr float kNever = -std::numeric_limits<float>::infinity();
inline constexpr auto kStep = static_cast<std::int64_t>(kLanes);

// e^x for x <= 0, as exp() of lanes-inl.h; 0 below -87.3, NaN stays NaN. Adding 1.5 * 2^23 + 127 leaves the
// biased exponent at the bottom of the sum.
template <class D>
HWY_INLINE VecOf<D> exp_down(D d, VecOf<D> x) {
  const auto magic = hn::Set(d, 12583039.0f);
  const auto biased = hn::MulAdd(x, hn::Set(d, 1.44269504f), magic);
  const auto n = hn::Sub(biased, magic);
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);  // 9 bits: the product is exact
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  auto q = hn::MulAdd(hn::Set(d, 0.0013933651f), r, hn::Set(d, 0.00836318f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.041666467f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.16666576f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.5f));
  const auto e = hn::Add(hn::MulAdd(hn::Mul(r, r), q, r), hn::Set(d, 1.0f));
  const hn::RebindToUnsigned<D> du;
  const auto power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(du, biased)));
  return hn::IfThenElse(hn::Lt(x, hn::Set(d, -87.3f)), hn::Zero(d), hn::Mul(e, power));
}

// Slots of a chunk that neighbouring rows see, counted from the chunk's first: [first, end) by one of them,
// [full_first, full_end) by all.
struct Seen {
  std::int64_t first;
  std::int64_t full_first;
  std::int64_t full_end;
  std::int64_t end;
  [[nodiscard]] HWY_INLINE bool empty() const { return end <= first; }
};

HWY_INLINE std::int64_t clip(std::int64_t slot, std::int64_t count) {
  return HWY_MIN(HWY_MAX(slot, std::int64_t{0}), count);
}

// Rows are in token order: what the first sees ends first, what the last sees begins last.
HWY_INLINE Seen seen_of(const AttendBlock& b, std::int64_t first_row, std::int64_t last_row,
                        std::int64_t begin, std::int64_t count) {
  const std::int64_t from = b.first_slot + (b.first_row + first_row) / b.group;
  const std::int64_t to = b.first_slot + (b.first_row + last_row) / b.group;
  Seen seen{clip(b.seen.first(from) - begin, count), clip(b.seen.first(to) - begin, count),
            clip(b.seen.end(from) - begin, count), clip(b.seen.end(to) - begin, count)};
  if (seen.full_end <= seen.full_first) seen.full_first = seen.full_end = seen.first;
  return seen;
}

HWY_INLINE std::int64_t token_of(const AttendBlock& b, std::int64_t r) {
  return (b.first_row + r) / b.group;
}
HWY_INLINE std::int64_t head_of(const AttendBlock& b, std::int64_t r) {
  return (b.first_row + r) % b.group;
}
HWY_INLINE std::int64_t position_of(const AttendBlock& b, std::int64_t r) {
  return b.query_positions[token_of(b, r) * b.query_position_stride];
}

// The cache's type as a pointer.
template <class Call>
HWY_INLINE void by_dtype(DType dtype, const void* data, Call call) {
  if (dtype == DType::f16) {
    call(static_cast<const Half*>(data));
  } else if (dtype == DType::bf16) {
    call(static_cast<const BFloat16*>(data));
  } else if (dtype == DType::i8) {
    call(static_cast<const std::int8_t*>(data));
  } else {
    call(static_cast<const float*>(data));
  }
}

// What relative tables and a bias tensor add to row r; its scores are `stride` floats apart.
HWY_INLINE void add_tables(const AttendBlock& b, std::int64_t r, std::int64_t begin, std::int64_t first,
                           std::int64_t end, float* row, std::int64_t stride) {
  if (b.relative != nullptr) {
    const float* table = b.relative + head_of(b, r) * b.relative_head;
    const std::int64_t from = b.relative_zero - position_of(b, r);
    const std::int64_t* positions = b.key_positions + begin * b.key_position_stride;
    for (std::int64_t i = first; i < end; ++i) {
      const std::int64_t column = from + positions[i * b.key_position_stride];
      row[i * stride] += table[HWY_MAX(std::int64_t{0}, HWY_MIN(column, b.relative_columns - 1))];
    }
  }
  if (b.bias != nullptr) {
    const float* bias = b.bias + head_of(b, r) * b.bias_head + token_of(b, r) * b.bias_token + begin;
    for (std::int64_t i = first; i < end; ++i) row[i * stride] += bias[i];
  }
}

// The scores of row r against slots begin .. end, when they are asked for, from a column of [slot][stride];
// -inf outside what is seen.
HWY_INLINE void write_scores(const AttendBlock& b, std::int64_t r, std::int64_t begin, std::int64_t end,
                             const Seen& seen, const float* column, std::int64_t stride) {
  if (b.scores == nullptr) return;
  float* to = b.scores + head_of(b, r) * b.score_head + token_of(b, r) * b.score_token;
  for (std::int64_t i = 0; i < end - begin; ++i) {
    to[(begin + i) * b.score_slot] = i >= seen.first && i < seen.end ? column[i * stride] : kNever;
  }
}

#if HWY_TARGET != HWY_SCALAR
// Block i of four lanes to `to` + i * stride.
template <class D>
HWY_INLINE void store_blocks(D d, VecOf<D> v, float* to, std::int64_t stride) {
  if constexpr (hn::MaxLanes(D()) <= 4) {
    hn::StoreU(v, d, to);
  } else {
    const hn::Half<D> half;
    store_blocks(half, hn::LowerHalf(half, v), to, stride);
    store_blocks(half, hn::UpperHalf(half, v),
                 to + static_cast<std::int64_t>(hn::MaxLanes(half) / 4) * stride, stride);
  }
}
#endif

// to[i][n] = factor * from_n[i] for `rows` rows of `count` elements, four where there are vectors. Rows
// of `to` are `stride` apart.
HWY_INLINE void turn_rows(const float* const* from, std::int64_t rows, float factor, std::int64_t count,
                          float* to, std::int64_t stride) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const F d;
  const hn::Repartition<std::uint64_t, F> d64;
  const V times = hn::Set(d, factor);
  for (; i + kStep <= count; i += kStep) {
    V v[4];
    for (int n = 0; n < 4; ++n) v[n] = hn::Mul(hn::LoadU(d, from[n] + i), times);
    const auto a = hn::BitCast(d64, hn::InterleaveLower(d, v[0], v[1]));
    const auto b = hn::BitCast(d64, hn::InterleaveLower(d, v[2], v[3]));
    const auto c = hn::BitCast(d64, hn::InterleaveUpper(d, v[0], v[1]));
    const auto e = hn::BitCast(d64, hn::InterleaveUpper(d, v[2], v[3]));
    // Block q of vector n holds element i + 4 q + n of the four rows.
    float* at = to + i * stride;
    store_blocks(d, hn::BitCast(d, hn::InterleaveLower(d64, a, b)), at, 4 * stride);
    store_blocks(d, hn::BitCast(d, hn::InterleaveUpper(d64, a, b)), at + stride, 4 * stride);
    store_blocks(d, hn::BitCast(d, hn::InterleaveLower(d64, c, e)), at + 2 * stride, 4 * stride);
    store_blocks(d, hn::BitCast(d, hn::InterleaveUpper(d64, c, e)), at + 3 * stride, 4 * stride);
  }
#endif
  for (; i < count; ++i) {
    for (std::int64_t n = 0; n < rows; ++n) to[i * stride + n] = factor * from[n][i];
  }
}

// Where row r's values go: its part, behind maximum and sum, or the output.
HWY_INLINE float* row_out(const AttendBlock& b, std::int64_t r) {
  if (b.partial != nullptr) return b.partial + r * attend_partial(b.value_width) + 2;
  return b.out + token_of(b, r) * b.out_token + head_of(b, r) * b.out_head;
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

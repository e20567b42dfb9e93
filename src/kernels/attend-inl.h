// SPDX-License-Identifier: Apache-2.0
// What both ways of attention share (attend-panel-inl.h for many rows, attend-few-inl.h for few): the weights
// of scores, what a group of rows sees of a chunk of slots, and scores that are asked for.
#if defined(LOCANT_KERNELS_ATTEND_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_ATTEND_INL_H_
#undef LOCANT_KERNELS_ATTEND_INL_H_
#else
#define LOCANT_KERNELS_ATTEND_INL_H_
#endif

#include <cmath>
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
  const hn::RebindToUnsigned<D> du;
  const auto power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(du, biased)));
  return hn::IfThenElse(hn::Lt(x, hn::Set(d, -87.3f)), hn::Zero(d), hn::Mul(exp_rest(d, x, n), power));
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

// ---- tiles that are too far to count
//
// Slopes make what a far key can weigh small: its score is at most u = |scale q| norm - slope distance, with
// the tile's bound of norms and its least distance. A row's maximum m so far is a score (or a sink) of the
// row itself, so the sum Z of its weights is at least e^m when all is done, and a tile of kAttendTile slots
// adds at most kAttendTile e^(u - m) of Z. Each row may leave out kLeave = 2^-25 of Z in all, a tile an
// eighth of what is left of that, and a tile is passed over when it may be for every row of a group. What is
// left out moves a mean of values by at most twice its share of the weights times max |v|: 2^-24 max |v|,
// however long the cache. Of spans, each keeps the bound against its own Z, which add up to Z. Tiles go from
// the last slot to the first, near to far under a causal mask; the bound holds in any order. What is no
// number (a norm, a query, a maximum) compares as not small, a negative slope makes its row's reach NaN:
// never passed over.

inline constexpr float kLeave = 0x1p-25f;

struct Tile {
  float norm;
  float low;  // positions of its slots, from the block's first query on
  float high;
};

HWY_INLINE Tile tile_of(const AttendBlock& b, std::int64_t begin, std::int64_t count) {
  const std::int64_t* at = b.key_positions + begin * b.key_position_stride;
  std::int64_t low = at[0];
  std::int64_t high = at[0];
  std::int64_t j = 1;
  if (b.key_position_stride == 1) {
    const hn::ScalableTag<std::int64_t> d64;
    constexpr auto kWide = static_cast<std::int64_t>(hn::MaxLanes(d64));
    if (count >= kWide) {
      auto least = hn::LoadU(d64, at);
      auto most = least;
      for (j = kWide; j + kWide <= count; j += kWide) {
        const auto next = hn::LoadU(d64, at + j);
        least = hn::Min(least, next);
        most = hn::Max(most, next);
      }
      std::int64_t lanes[2][kWide];
      hn::StoreU(least, d64, lanes[0]);
      hn::StoreU(most, d64, lanes[1]);
      for (std::int64_t i = 0; i < kWide; ++i) {
        low = HWY_MIN(low, lanes[0][i]);
        high = HWY_MAX(high, lanes[1][i]);
      }
    }
  }
  for (; j < count; ++j) {
    const std::int64_t next = at[j * b.key_position_stride];
    low = HWY_MIN(low, next);
    high = HWY_MAX(high, next);
  }
  const std::int64_t base = position_of(b, 0);
  return {b.norms[begin / kAttendTile], static_cast<float>(low - base), static_cast<float>(high - base)};
}

// |q| of a scaled query, rounded up; NaN under a negative slope.
HWY_INLINE float reach_of(const AttendBlock& b, std::int64_t r) {
  const float* q = b.q + token_of(b, r) * b.q_token + head_of(b, r) * b.q_head;
  if (!(b.slopes[head_of(b, r) * b.slope_stride] >= 0)) return std::numeric_limits<float>::quiet_NaN();
  double sum = 0;
  for (std::int64_t i = 0; i < b.key_width; ++i) {
    const double x = static_cast<double>(b.scale) * static_cast<double>(q[i]);
    sum += x * x;
  }
  // Above the rounding of a product of a width up to kAttendWidth.
  return static_cast<float>(std::sqrt(sum) * 1.0002);
}

// Rows that may leave the tile out, and what each then has left.
HWY_INLINE hn::Mask<F> too_far(const Tile& tile, V reach, V slope, V position, V maximum, V& left) {
  const F d;
  const V low = hn::Sub(hn::Set(d, tile.low), position);
  const V high = hn::Sub(position, hn::Set(d, tile.high));
  const V distance = hn::Max(hn::Max(low, high), hn::Zero(d));
  const V most = hn::Mul(reach, hn::Set(d, tile.norm));
  const V away = hn::Mul(slope, distance);
  const V sizes = hn::Add(hn::Add(hn::Abs(most), away), hn::Abs(maximum));
  // Rounded up by more than the rounding of these sums.
  const V x = hn::MulAdd(sizes, hn::Set(d, 0x1p-20f), hn::Sub(hn::Sub(most, away), maximum));
  const V weight = hn::Add(exp_down(d, hn::Min(x, hn::Zero(d))), hn::Set(d, 0x1p-100f));
  const V share = hn::Mul(weight, hn::Set(d, 1.001f * static_cast<float>(kAttendTile)));
  const auto small = hn::And(hn::Le(x, hn::Zero(d)), hn::Le(share, hn::Mul(left, hn::Set(d, 0.125f))));
  left = hn::Sub(left, share);
  return small;
}

// Tiles of what is seen of a span, from the last to the first.
template <class Call>
HWY_INLINE void each_tile(const AttendBlock& b, const Seen& all, Call call) {
  std::int64_t end = b.slot_begin + all.end;
  const std::int64_t first = b.slot_begin + all.first;
  while (end > first) {
    const std::int64_t begin = HWY_MAX(first, (end - 1) / kAttendTile * kAttendTile);
    call(begin, end - begin);
    end = begin;
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

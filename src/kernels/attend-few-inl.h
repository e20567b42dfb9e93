// SPDX-License-Identifier: Apache-2.0
// Attention of few rows, in groups of four of attend-group-inl.h: every group takes its turn at a chunk of
// slots, which is read from far once.
#if defined(LOCANT_KERNELS_ATTEND_FEW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_ATTEND_FEW_INL_H_
#undef LOCANT_KERNELS_ATTEND_FEW_INL_H_
#else
#define LOCANT_KERNELS_ATTEND_FEW_INL_H_
#endif

#include "kernels/attend-group-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR
HWY_INLINE void scale_slots(const Group& g, const float* scales, std::int64_t count) {
  if (g.pitch == 1) {
    for (std::int64_t j = 0; j < count; ++j) g.weights[j] *= scales[j];
    return;
  }
  const hn::CappedTag<float, 4> d4;
  for (std::int64_t j = 0; j < count; ++j) {
    float* at = g.weights + j * 4;
    hn::Store(hn::Mul(hn::Load(d4, at), hn::Set(d4, scales[j])), d4, at);
  }
}

// Softcaps, slopes, tables and masks of raw scores.
HWY_INLINE void finish_few(const Group& g, std::int64_t rows, std::int64_t begin, std::int64_t count) {
  const F d;
  const AttendBlock& b = g.b;
  const std::int64_t floats = count * g.pitch;
  if (b.key_scales != nullptr) scale_slots(g, b.key_scales + begin, count);
  if (b.softcap > 0) {
    const float inverse = 1 / b.softcap;
    for (std::int64_t i = 0; i < floats; i += kStep)
      hn::Store(softcap(d, hn::Load(d, g.weights + i), b.softcap, inverse), d, g.weights + i);
  }
  if (b.slopes != nullptr) {
    const V slope = hn::Load(d, g.s.slope[g.index]);
    const V position = hn::Load(d, g.s.position[g.index]);
    for (std::int64_t i = 0; i < floats; i += kStep) {
      const V distance = hn::Abs(hn::Sub(hn::Load(d, g.s.slots + i), position));
      hn::Store(hn::NegMulAdd(slope, distance, hn::Load(d, g.weights + i)), d, g.weights + i);
    }
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    const Seen own = seen_of(b, g.row + r, g.row + r, begin, count);
    float* column = g.weights + r;
    add_tables(b, g.row + r, begin, own.first, own.end, column, g.pitch);
    for (std::int64_t j = 0; j < own.first; ++j) column[j * g.pitch] = kNever;
    for (std::int64_t j = own.end; j < count; ++j) column[j * g.pitch] = kNever;
    write_scores(b, g.row + r, begin, begin + count, own, column, g.pitch);
  }
}

// The largest of each row, in all lanes of the row.
HWY_INLINE V row_maximum(const Group& g, V top) {
  const F d;
  if (g.pitch == 1) return hn::Set(d, max_of_lanes(top));
  if constexpr (kLanes > 4) top = hn::Max(top, hn::ReverseBlocks(d, top));
  if constexpr (kLanes > 8) top = hn::Max(top, hn::SwapAdjacentBlocks(top));
  return top;
}

// Scores to weights; keeps maximum and sum, and rescales what was summed before.
HWY_INLINE void soften_few(const Group& g, std::int64_t rows, std::int64_t count) {
  const F d;
  const std::int64_t floats = count * g.pitch;
  const std::int64_t padded = (floats + kStep - 1) / kStep * kStep;
  for (std::int64_t i = floats; i < padded; ++i) g.weights[i] = kNever;
  V top = hn::Load(d, g.weights);
  for (std::int64_t i = kStep; i < padded; i += kStep) top = hn::Max(top, hn::Load(d, g.weights + i));
  const V old = hn::Load(d, g.s.maximum[g.index]);
  const V now = hn::Max(old, row_maximum(g, top));
  // With nothing seen yet, subtract 0: unseen slots get weight 0 and NaN scores stay NaN.
  const V subtract = hn::IfThenElse(hn::Eq(now, hn::Set(d, kNever)), hn::Zero(d), now);
  V added = hn::Zero(d);
  for (std::int64_t i = 0; i < padded; i += kStep) {
    const V weight = exp_down(d, hn::Sub(hn::Load(d, g.weights + i), subtract));
    hn::Store(weight, d, g.weights + i);
    added = hn::Add(added, weight);
  }
  const V shrink = exp_down(d, hn::Sub(old, subtract));
  hn::Store(hn::MulAdd(hn::Load(d, g.s.sum[g.index]), shrink, added), d, g.s.sum[g.index]);
  hn::Store(now, d, g.s.maximum[g.index]);
  HWY_ALIGN float factors[kLanes];
  hn::Store(shrink, d, factors);
  for (std::int64_t r = 0; r < rows; ++r) {
    if (factors[r] == 1.0f) continue;
    float* out = g.s.out + (g.row + r) * g.o_stride;
    const V factor = hn::Set(d, factors[r]);
    for (std::int64_t i = 0; i < g.o_stride; i += kStep)
      hn::Store(hn::Mul(hn::Load(d, out + i), factor), d, out + i);
  }
}

template <class Call>
HWY_INLINE void by_rows(std::int64_t rows, Call call) {
  if (rows >= 4) {
    call(std::integral_constant<int, 4>());
  } else if (rows == 3) {
    call(std::integral_constant<int, 3>());
  } else if (rows == 2) {
    call(std::integral_constant<int, 2>());
  } else {
    call(std::integral_constant<int, 1>());
  }
}

HWY_INLINE void take_few(const Group& g, std::int64_t rows) {
  const AttendBlock& b = g.b;
  if (rows == 1) std::memset(g.s.q + (g.row + 1) * g.q_stride, 0, index(g.q_stride) * sizeof(float));
  for (std::int64_t r = g.row; r < g.row + rows; ++r) {
    const float* from = b.q + token_of(b, r) * b.q_token + head_of(b, r) * b.q_head;
    float* q = g.s.q + r * g.q_stride;
    std::memset(q + b.key_width, 0, index(g.q_stride - b.key_width) * sizeof(float));
    for (std::int64_t i = 0; i < b.key_width; ++i) q[i] = b.scale * from[i];
    std::memset(g.s.out + r * g.o_stride, 0, index(g.o_stride) * sizeof(float));
  }
  for (std::int64_t i = 0; i < kStep; ++i) {
    const std::int64_t r = g.row + HWY_MIN(i % g.pitch, rows - 1);
    g.s.maximum[g.index][i] = b.sinks != nullptr ? b.sinks[head_of(b, r) * b.sink_stride] : kNever;
    // A sink is a slot seen first, without a value.
    g.s.sum[g.index][i] = g.s.maximum[g.index][i] == kNever || i >= g.pitch ? 0.0f : 1.0f;
    if (b.slopes == nullptr) continue;
    g.s.slope[g.index][i] = b.slopes[head_of(b, r) * b.slope_stride];
    // Positions are counted from the block's first query, so that f32 holds their differences to 2^24.
    g.s.position[g.index][i] = static_cast<float>(position_of(b, r) - position_of(b, 0));
    g.s.left[g.index][i] = kLeave;
  }
  if (b.norms != nullptr) {
    for (std::int64_t i = 0; i < kStep; ++i)
      g.s.reach[g.index][i] = i < rows      ? reach_of(b, g.row + i)
                              : i < g.pitch ? 0.0f
                                            : g.s.reach[g.index][i - g.pitch];
  }
}

HWY_INLINE void give_few(const Group& g, std::int64_t rows) {
  const AttendBlock& b = g.b;
  for (std::int64_t r = 0; r < rows; ++r) {
    float sum = 0;
    for (std::int64_t i = r; i < kStep; i += g.pitch) sum += g.s.sum[g.index][i];
    const float* from = g.s.out + (g.row + r) * g.o_stride;
    float* to = row_out(b, g.row + r);
    if (b.partial != nullptr) {
      to[-2] = g.s.maximum[g.index][r];
      to[-1] = sum;
      std::memcpy(to, from, index(b.value_width) * sizeof(float));
      continue;
    }
    const float factor = 1 / sum;
    for (std::int64_t i = 0; i < b.value_width; ++i) to[i] = from[i] * factor;
  }
}

HWY_INLINE void place_slots(const AttendBlock& b, FewScratch& s, std::int64_t pitch, std::int64_t begin,
                            std::int64_t count) {
  const hn::CappedTag<float, 4> d4;
  const std::int64_t base = position_of(b, 0);
  for (std::int64_t j = 0; j < count; ++j) {
    const auto at = static_cast<float>(b.key_positions[(begin + j) * b.key_position_stride] - base);
    if (pitch == 1) {
      s.slots[j] = at;
    } else {
      hn::Store(hn::Set(d4, at), d4, s.slots + 4 * j);
    }
  }
}

HWY_INLINE bool is_far(const Group& g, const Tile& tile) {
  const F d;
  V left = hn::Load(d, g.s.left[g.index]);
  const auto far = too_far(tile, hn::Load(d, g.s.reach[g.index]), hn::Load(d, g.s.slope[g.index]),
                           hn::Load(d, g.s.position[g.index]), hn::Load(d, g.s.maximum[g.index]), left);
  if (!hn::AllTrue(d, far)) return false;
  hn::Store(left, d, g.s.left[g.index]);
  return true;
}

HWY_NOINLINE void attend_few(const AttendBlock& b) {
  FewScratch s;
  const std::int64_t pitch = b.rows == 1 ? 1 : 4;
  const auto up = [](std::int64_t n) { return (n + 15) / 16 * 16; };
  const std::int64_t row_bytes = b.value_width * static_cast<std::int64_t>(size_of(b.value_dtype));
  const std::int64_t slots = HWY_MAX(std::int64_t{16}, HWY_MIN(kFewBytes / row_bytes / 16 * 16, kFewSlots));
  const auto each_group = [&](auto call) HWY_ATTR {
    for (std::int64_t row = 0; row < b.rows; row += 4) {
      const Group group{b,
                        s,
                        row / 4,
                        row,
                        pitch,
                        up(b.key_width),
                        up(b.value_width),
                        s.weights + row * (kFewSlots + kLoneSlots)};
      call(group, HWY_MIN(std::int64_t{4}, b.rows - row));
    }
  };
  each_group([&](const Group& g, std::int64_t rows) HWY_ATTR { take_few(g, rows); });
  // What the block sees of the span: from its first row's first slot to its last row's last.
  const Seen all = seen_of(b, 0, b.rows - 1, b.slot_begin, b.slot_end - b.slot_begin);
  for (std::int64_t r = 0; r < b.rows; ++r) {
    const Seen none{};
    write_scores(b, r, b.slot_begin, b.slot_begin + HWY_MIN(all.first, all.end), none, nullptr, 0);
    write_scores(b, r, b.slot_begin + all.end, b.slot_end, none, nullptr, 0);
  }
  const auto visit = [&](std::int64_t begin, std::int64_t count) HWY_ATTR {
    if (b.slopes != nullptr) place_slots(b, s, pitch, begin, count);
    const auto each_near = [&](auto call) HWY_ATTR {
      each_group([&](const Group& g, std::int64_t rows) HWY_ATTR {
        if (!s.far[g.index]) call(g, rows);
      });
    };
    by_dtype(b.key_dtype, b.keys, [&](const auto* keys) HWY_ATTR {
      const FewChunk<std::remove_const_t<std::remove_pointer_t<decltype(keys)> > > chunk{
          keys + begin * b.key_width, begin, count};
      each_near([&](const Group& g, std::int64_t rows) HWY_ATTR {
        // A row left over beside others lies as two do, beside zeros.
        by_rows(pitch == 1 ? 1 : HWY_MAX(rows, std::int64_t{2}),
                [&](auto n) HWY_ATTR { few_scores<decltype(n)::value>(g, chunk); });
      });
    });
    each_near([&](const Group& g, std::int64_t rows) HWY_ATTR {
      finish_few(g, rows, begin, count);
      soften_few(g, rows, count);
      if (b.value_scales != nullptr) scale_slots(g, b.value_scales + begin, count);
    });
    by_dtype(b.value_dtype, b.values, [&](const auto* values) HWY_ATTR {
      each_near([&](const Group& g, std::int64_t rows) HWY_ATTR {
        by_rows(rows, [&](auto n) HWY_ATTR { few_values<decltype(n)::value>(g, values, begin, count); });
      });
    });
  };
  for (bool& far : s.far) far = false;
  if (b.norms == nullptr) {
    for (std::int64_t at = all.first; at < all.end; at += slots)
      visit(b.slot_begin + at, HWY_MIN(slots, all.end - at));
  } else {
    each_tile(b, all, [&](std::int64_t begin, std::int64_t count) HWY_ATTR {
      const Tile tile = tile_of(b, begin, count);
      bool far = true;
      each_group([&](const Group& g, std::int64_t /*rows*/) HWY_ATTR {
        s.far[g.index] = is_far(g, tile);
        far = far && s.far[g.index];
      });
      if (!far) visit(begin, count);
    });
  }
  each_group([&](const Group& g, std::int64_t rows) HWY_ATTR { give_few(g, rows); });
}
#endif

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

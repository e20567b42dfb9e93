// SPDX-License-Identifier: Apache-2.0
// Attention of few rows, one token's heads of a group above all. Lanes are channels; what is read once from
// the cache serves all rows.
//
//   scores  S[slot][row] = K[slot] . q[row]    tile of kSlots slots x 4 rows in registers, summed over lanes
//                                              so that the four rows of a slot lie next to each other
//   weights P[slot][row] = e^(S - maximum)     in place, a vector holds kLanes / 4 slots
//   values  O[row] += P[slot][row] V[slot]     tile of 4 rows x kColumns vectors in registers
//
// A single row is kept as [slot]. While the scores of a chunk are summed, its values are asked for, and while
// its values are summed, the keys of the next one. Whole numbers of an i8 cache are turned into f32 exactly;
// their scales go to scores and weights.
#if defined(LOCANT_KERNELS_ATTEND_FEW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_ATTEND_FEW_INL_H_
#undef LOCANT_KERNELS_ATTEND_FEW_INL_H_
#else
#define LOCANT_KERNELS_ATTEND_FEW_INL_H_
#endif

#include "hwy/cache_control.h"
#include "kernels/attend-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
inline constexpr std::int64_t kFewRows = 0;
#else
inline constexpr std::int64_t kFewRows = 11;

inline constexpr std::int64_t kFewPadded = 12;
inline constexpr std::int64_t kFewSlots = 128;    // of a chunk, at most
inline constexpr std::int64_t kFewBytes = 16384;  // of a chunk of values
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON
inline constexpr int kSlots = 4;
inline constexpr int kColumns = 4;
#else
inline constexpr int kSlots = 2;
inline constexpr int kColumns = 2;
#endif
inline constexpr int kLoneSlots = 8;  // of a tile of one row

struct FewScratch {
  HWY_ALIGN float q[kFewPadded * kAttendWidth];
  HWY_ALIGN float out[kFewPadded * kAttendWidth];
  HWY_ALIGN float weights[kFewPadded * (kFewSlots + kLoneSlots)];
  HWY_ALIGN float slots[4 * kFewSlots];  // positions, as the weights lie
  HWY_ALIGN float maximum[3][kLanes];    // of a group of four rows, repeated
  HWY_ALIGN float sum[3][kLanes];        // in parts
  HWY_ALIGN float slope[3][kLanes];
  HWY_ALIGN float position[3][kLanes];
};

// Up to four rows.
struct Group {
  const AttendBlock& b;
  FewScratch& s;
  std::int64_t index;
  std::int64_t row;
  std::int64_t pitch;  // floats of a slot: 4, or 1 of a single row
  std::int64_t q_stride;
  std::int64_t o_stride;
  float* weights;
};

template <class T>
struct FewChunk {
  const T* keys;  // of the chunk's first slot
  std::int64_t begin;
  std::int64_t count;
};

// Asks for `bytes` bytes from `from` on, a line at a time; they may lie beyond what is the caller's.
HWY_INLINE void fetch(std::uintptr_t from, std::int64_t bytes) {
  for (std::int64_t at = 0; at < bytes; at += 64)
    hwy::Prefetch(reinterpret_cast<const std::uint8_t*>(from + index(at)));
}
HWY_INLINE std::uintptr_t place_of(const void* cache, std::int64_t offset) {
  return reinterpret_cast<std::uintptr_t>(cache) + index(offset);
}

template <int Rows, int Slots, class T>
HWY_INLINE void dot_tile(const float* const* q, const T* const* k, std::int64_t width, float* to) {
  const F d;
  V acc[Slots][Rows];
  for (int n = 0; n < Slots; ++n) {
    for (int r = 0; r < Rows; ++r) acc[n][r] = hn::Zero(d);
  }
  std::int64_t i = 0;
  for (; i + kStep <= width; i += kStep) {
    V x[Rows];
    for (int r = 0; r < Rows; ++r) x[r] = hn::Load(d, q[r] + i);
    for (int n = 0; n < Slots; ++n) {
      const V key = load(d, k[n] + i);
      for (int r = 0; r < Rows; ++r) acc[n][r] = hn::MulAdd(x[r], key, acc[n][r]);
    }
  }
  if (i < width) {
    for (int n = 0; n < Slots; ++n) {
      const V key = load_n(d, k[n] + i, index(width - i));
      for (int r = 0; r < Rows; ++r) acc[n][r] = hn::MulAdd(hn::Load(d, q[r] + i), key, acc[n][r]);
    }
  }
  if constexpr (Rows == 1) {
    for (int n = 0; n < Slots; n += 4) sum4(acc[n][0], acc[n + 1][0], acc[n + 2][0], acc[n + 3][0], to + n);
  } else {
    const V none = hn::Zero(d);
    for (int n = 0; n < Slots; ++n) {
      const V third = Rows > 2 ? acc[n][Rows > 2 ? 2 : 0] : none;
      const V fourth = Rows > 3 ? acc[n][Rows > 3 ? 3 : 0] : none;
      sum4(acc[n][0], acc[n][1], third, fourth, to + n * 4);
    }
  }
}

template <int Rows, class T>
HWY_INLINE void few_scores(const Group& g, const FewChunk<T>& chunk) {
  constexpr int kCount = Rows == 1 ? kLoneSlots : kSlots;
  const AttendBlock& b = g.b;
  const float* q[Rows];
  for (int r = 0; r < Rows; ++r) q[r] = g.s.q + (g.row + r) * g.q_stride;
  const auto value_bytes = b.value_width * static_cast<std::int64_t>(size_of(b.value_dtype));
  for (std::int64_t j = 0; j < chunk.count; j += kCount) {
    if (g.row == 0) fetch(place_of(b.values, (chunk.begin + j) * value_bytes), kCount * value_bytes);
    const T* k[kCount];
    for (std::int64_t n = 0; n < kCount; ++n)
      k[n] = chunk.keys + HWY_MIN(j + n, chunk.count - 1) * b.key_width;
    dot_tile<Rows, kCount>(q, k, b.key_width, g.weights + j * g.pitch);
  }
}

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

// out[r] += sum over slots first .. end of P[slot][r] V[slot], for Rows rows and Vectors vectors of columns,
// the last one `live` wide where it is not whole.
template <int Rows, int Vectors, class T>
HWY_INLINE void value_tile(const Group& g, const float* weights, const T* values, std::int64_t slots,
                           std::size_t live, std::uintptr_t next, float* out) {
  const F d;
  V acc[Rows][Vectors];
  for (int r = 0; r < Rows; ++r) {
    for (int v = 0; v < Vectors; ++v) acc[r][v] = hn::Zero(d);
  }
  constexpr auto kBytes = static_cast<std::int64_t>(Vectors * kLanes * sizeof(T));
  const std::size_t row_bytes = index(g.b.value_width) * sizeof(T);
  for (std::int64_t j = 0; j < slots; ++j, values += g.b.value_width, weights += g.pitch) {
    fetch(next, kBytes);
    next += row_bytes;
    V x[Vectors];
    for (int v = 0; v < Vectors; ++v)
      x[v] = live == 0 ? load(d, values + v * kStep) : load_n(d, values + v * kStep, live);
    for (int r = 0; r < Rows; ++r) {
      const V weight = hn::Set(d, weights[r]);
      for (int v = 0; v < Vectors; ++v) acc[r][v] = hn::MulAdd(weight, x[v], acc[r][v]);
    }
  }
  for (int r = 0; r < Rows; ++r) {
    for (int v = 0; v < Vectors; ++v) {
      float* at = out + r * g.o_stride + v * kStep;
      hn::Store(hn::Add(hn::Load(d, at), acc[r][v]), d, at);
    }
  }
}

// Rows row + r ... of a group over slots first .. end of a chunk of values; `next` is what is asked for
// beside them, as much as there are values.
template <int Rows, class T>
HWY_NOINLINE void add_values(const Group& g, std::int64_t r, const T* values, std::int64_t first,
                             std::int64_t end, std::uintptr_t next) {
  if (end <= first) return;
  const std::int64_t width = g.b.value_width;
  const float* weights = g.weights + first * g.pitch + r;
  float* out = g.s.out + (g.row + r) * g.o_stride;
  values += first * width;
  const std::int64_t slots = end - first;
  const auto ahead = [&](std::int64_t c) HWY_ATTR { return next + index(c) * sizeof(T); };
  std::int64_t c = 0;
  for (; c + kColumns * kStep <= width; c += kColumns * kStep)
    value_tile<Rows, kColumns>(g, weights, values + c, slots, 0, ahead(c), out + c);
  for (; c + kStep <= width; c += kStep)
    value_tile<Rows, 1>(g, weights, values + c, slots, 0, ahead(c), out + c);
  if (c < width) value_tile<Rows, 1>(g, weights, values + c, slots, index(width - c), ahead(c), out + c);
}

template <int Rows, class T>
HWY_INLINE void few_values(const Group& g, const T* values, std::int64_t begin, std::int64_t count) {
  const Seen seen = seen_of(g.b, g.row, g.row + Rows - 1, begin, count);
  values += begin * g.b.value_width;
  const auto key_bytes = g.b.key_width * static_cast<std::int64_t>(size_of(g.b.key_dtype));
  const std::uintptr_t next = place_of(g.b.keys, (begin + count) * key_bytes);
  add_values<Rows>(g, 0, values, seen.full_first, seen.full_end, next);
  if constexpr (Rows > 1) {
    if (seen.full_first == seen.first && seen.full_end == seen.end) return;
    for (std::int64_t r = 0; r < Rows; ++r) {
      const Seen own = seen_of(g.b, g.row + r, g.row + r, begin, count);
      if (seen.full_end <= seen.full_first) {
        add_values<1>(g, r, values, own.first, own.end, next);
        continue;
      }
      add_values<1>(g, r, values, own.first, seen.full_first, next);
      add_values<1>(g, r, values, seen.full_end, own.end, next);
    }
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
  for (std::int64_t at = all.first; at < all.end; at += slots) {
    const std::int64_t begin = b.slot_begin + at;
    const std::int64_t count = HWY_MIN(slots, all.end - at);
    if (b.slopes != nullptr) place_slots(b, s, pitch, begin, count);
    by_dtype(b.key_dtype, b.keys, [&](const auto* keys) HWY_ATTR {
      const FewChunk<std::remove_const_t<std::remove_pointer_t<decltype(keys)> > > chunk{
          keys + begin * b.key_width, begin, count};
      each_group([&](const Group& g, std::int64_t rows) HWY_ATTR {
        // A row left over beside others lies as two do, beside zeros.
        by_rows(pitch == 1 ? 1 : HWY_MAX(rows, std::int64_t{2}),
                [&](auto n) HWY_ATTR { few_scores<decltype(n)::value>(g, chunk); });
      });
    });
    each_group([&](const Group& g, std::int64_t rows) HWY_ATTR {
      finish_few(g, rows, begin, count);
      soften_few(g, rows, count);
      if (b.value_scales != nullptr) scale_slots(g, b.value_scales + begin, count);
    });
    by_dtype(b.value_dtype, b.values, [&](const auto* values) HWY_ATTR {
      each_group([&](const Group& g, std::int64_t rows) HWY_ATTR {
        by_rows(rows, [&](auto n) HWY_ATTR { few_values<decltype(n)::value>(g, values, begin, count); });
      });
    });
  }
  each_group([&](const Group& g, std::int64_t rows) HWY_ATTR { give_few(g, rows); });
}
#endif

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

// SPDX-License-Identifier: Apache-2.0
// Tiles of attention of few rows, one token's heads of a group above all. Lanes are channels; what is read
// once from the cache serves all rows.
//
//   scores  S[slot][row] = K[slot] . q[row]    tile of kSlots slots x 4 rows in registers, summed over lanes
//                                              so that the four rows of a slot lie next to each other
//   weights P[slot][row] = e^(S - maximum)     in place, a vector holds kLanes / 4 slots
//   values  O[row] += P[slot][row] V[slot]     tile of 4 rows x kColumns vectors in registers
//
// A single row is kept as [slot]. While the scores of a chunk are summed, its values are asked for, and while
// its values are summed, the keys of the next one. Whole numbers of an i8 cache are turned into f32 exactly;
// their scales go to scores and weights.
#if defined(LOCANT_KERNELS_ATTEND_GROUP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_ATTEND_GROUP_INL_H_
#undef LOCANT_KERNELS_ATTEND_GROUP_INL_H_
#else
#define LOCANT_KERNELS_ATTEND_GROUP_INL_H_
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
  HWY_ALIGN float reach[3][kLanes];
  HWY_ALIGN float left[3][kLanes];
  bool far[3];  // the group leaves the tile out
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

#endif

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

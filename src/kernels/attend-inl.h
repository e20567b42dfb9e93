// SPDX-License-Identifier: Apache-2.0
// Scores of a block of attention: its scratch, products of queries with a chunk of keys, and what is added to
// them.
#if defined(LOCANT_KERNELS_ATTEND_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_ATTEND_INL_H_
#undef LOCANT_KERNELS_ATTEND_INL_H_
#else
#define LOCANT_KERNELS_ATTEND_INL_H_
#endif

#include <limits>

#include "hwy/cache_control.h"
#include "kernels/attend.h"
#include "kernels/dots-inl.h"
#include "kernels/products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

inline constexpr std::int64_t kBlockFloats = 8192;   // rows x padded width
inline constexpr std::int64_t kChunkFloats = 16384;  // slots of a chunk x padded width
inline constexpr std::int64_t kFewRows = 11;
inline constexpr std::int64_t kFewChunk = 128;  // slots: 12 rows of scores fit
inline constexpr std::int64_t kAhead = 16;      // slots between a key in use and a key asked for
inline constexpr float kNever = -std::numeric_limits<float>::infinity();

// Rows of one tile of dot products.
inline constexpr int kDotRows = kColumnVectors;

HWY_INLINE std::int64_t padded(std::int64_t n) {
  return (n + 15) / 16 * 16;
}

struct Scratch {
  HWY_ALIGN float q[kBlockFloats];
  HWY_ALIGN float out[kBlockFloats];
  HWY_ALIGN float scores[kBlockFloats];
  HWY_ALIGN float keys[kChunkFloats];
  HWY_ALIGN float values[kChunkFloats];
  HWY_ALIGN float biases[kFewChunk];
  float maximum[128];
  float sum[128];
  std::int64_t first[128];  // slot that a row sees
  std::int64_t end[128];    // behind the last slot that it sees
};

// Slots of a chunk that a row sees, counted from the chunk's first.
struct Range {
  std::int64_t first;
  std::int64_t end;
  [[nodiscard]] HWY_INLINE bool empty() const { return end <= first; }
};

// One call's block and what follows from it.
struct Work {
  const AttendBlock& b;
  Scratch& s;
  std::int64_t rows;      // padded to 4 when there are more than one
  std::int64_t chunk;     // slots
  std::int64_t q_stride;  // floats
  std::int64_t o_stride;
  [[nodiscard]] HWY_INLINE std::int64_t token(std::int64_t r) const { return (b.first_row + r) / b.group; }
  [[nodiscard]] HWY_INLINE std::int64_t head(std::int64_t r) const { return (b.first_row + r) % b.group; }
  [[nodiscard]] HWY_INLINE Range seen(std::int64_t r, std::int64_t begin, std::int64_t end) const {
    return {HWY_MAX(s.first[r], begin) - begin, HWY_MIN(s.end[r], end) - begin};
  }
};

// ---- scores

// keys[k][j] = key j's element k in f32, for `count` keys of a chunk; the other columns are zero.
template <class T>
void transpose_keys(const Work& w, const T* keys, std::int64_t count) {
  const std::int64_t width = w.b.key_width;
  float* to = w.s.keys;
  if (count < w.chunk) std::memset(to, 0, index(width * w.chunk) * sizeof(float));
  std::int64_t j = 0;
#if HWY_TARGET != HWY_SCALAR
  const F d;
  const hn::CappedTag<float, 4> d4;
  const hn::Repartition<std::uint64_t, F> d64;
  constexpr auto kStep = static_cast<std::int64_t>(kLanes);
  for (; j + 4 <= count; j += 4) {
    const T* k0 = keys + j * width;
    for (std::int64_t i = 0; i < width; i += kStep) {
      const std::int64_t live = HWY_MIN(kStep, width - i);
      V v[4];
      for (int n = 0; n < 4; ++n) {
        const T* from = k0 + n * width + i;
        v[n] = live == kStep ? load(d, from) : load_n(d, from, index(live));
      }
      const auto a = hn::BitCast(d64, hn::InterleaveLower(d, v[0], v[1]));
      const auto b = hn::BitCast(d64, hn::InterleaveLower(d, v[2], v[3]));
      const auto c = hn::BitCast(d64, hn::InterleaveUpper(d, v[0], v[1]));
      const auto e = hn::BitCast(d64, hn::InterleaveUpper(d, v[2], v[3]));
      HWY_ALIGN float tile[4 * kLanes];
      hn::Store(hn::BitCast(d, hn::InterleaveLower(d64, a, b)), d, tile);
      hn::Store(hn::BitCast(d, hn::InterleaveUpper(d64, a, b)), d, tile + kLanes);
      hn::Store(hn::BitCast(d, hn::InterleaveLower(d64, c, e)), d, tile + 2 * kLanes);
      hn::Store(hn::BitCast(d, hn::InterleaveUpper(d64, c, e)), d, tile + 3 * kLanes);
      // Block q of vector n holds element i + 4 q + n of the four keys.
      for (std::int64_t k = 0; k < live; ++k) {
        const float* from = tile + (k % 4) * kStep + k / 4 * 4;
        hn::StoreU(hn::Load(d4, from), d4, to + (i + k) * w.chunk + j);
      }
    }
  }
#endif
  for (; j < count; ++j) {
    for (std::int64_t i = 0; i < width; ++i) {
      const hn::CappedTag<float, 1> d1;
      to[i * w.chunk + j] = hn::GetLane(load(d1, keys + j * width + i));
    }
  }
}

template <class T>
void many_scores(const Work& w, const T* keys, std::int64_t count) {
  transpose_keys(w, keys, count);
  std::memset(w.s.scores, 0, index(w.rows * w.chunk) * sizeof(float));
  add_product_rows(w.rows, w.s.q, w.q_stride, w.s.keys, w.chunk, w.b.key_width, w.chunk, w.s.scores, w.chunk);
}

// Asks for the bytes of `slots` rows of a cache from `slot` on, as far as the span goes.
HWY_INLINE void fetch_slots(const Work& w, const void* cache, std::int64_t row_bytes, std::int64_t slot,
                            std::int64_t slots) {
  const auto* bytes = static_cast<const std::uint8_t*>(cache);
  const std::int64_t end = HWY_MIN(slot + slots, w.b.slot_end) * row_bytes;
  for (std::int64_t at = slot * row_bytes; at < end; at += 64) hwy::Prefetch(bytes + at);
}

template <int Rows, class T>
HWY_INLINE void dot_rows(const Work& w, std::int64_t r, const T* keys, std::int64_t begin,
                         std::int64_t count) {
  const float* q[Rows];
  for (int i = 0; i < Rows; ++i) q[i] = w.s.q + (r + i) * w.q_stride;
  const std::int64_t value_bytes = w.b.value_width * (w.b.value_dtype == DType::f32 ? 4 : 2);
  const std::int64_t key_bytes = w.b.key_width * static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t j = 0; j < count; j += 4) {
    if (r == 0) {
      fetch_slots(w, w.b.values, value_bytes, begin + j, 4);
      fetch_slots(w, w.b.keys, key_bytes, begin + j + kAhead, 4);
    }
    const T* k[4];
    for (std::int64_t n = 0; n < 4; ++n) k[n] = keys + HWY_MIN(j + n, count - 1) * w.b.key_width;
    float sums[Rows * 4];
    dots<Rows, 4>(q, k, index(w.b.key_width), sums);
    for (int i = 0; i < Rows; ++i) std::memcpy(w.s.scores + (r + i) * w.chunk + j, sums + i * 4, 16);
  }
}

template <class T>
void few_scores(const Work& w, const T* keys, std::int64_t begin, std::int64_t count) {
  if (w.rows == 1) return dot_rows<1>(w, 0, keys, begin, count);
  for (std::int64_t r = 0; r < w.rows; r += kDotRows) dot_rows<kDotRows>(w, r, keys, begin, count);
}

template <class T>
HWY_INLINE void scores(const Work& w, const T* keys, std::int64_t begin, std::int64_t count) {
  keys += begin * w.b.key_width;
  if (w.b.rows > kFewRows) {
    many_scores(w, keys, count);
  } else {
    few_scores(w, keys, begin, count);
  }
}

// row[i] += slope * -|key position - query position|.
HWY_INLINE void add_slope(const Work& w, std::int64_t r, std::int64_t base, float* row) {
  const F d;
  const AttendBlock& b = w.b;
  const V slope = hn::Set(d, b.slopes[w.head(r) * b.slope_stride]);
  const V from =
      hn::Set(d, static_cast<float>(b.query_positions[w.token(r) * b.query_position_stride] - base));
  for (std::int64_t i = 0; i < w.chunk; i += static_cast<std::int64_t>(kLanes)) {
    const V distance = hn::Abs(hn::Sub(hn::LoadU(d, w.s.biases + i), from));
    hn::StoreU(hn::NegMulAdd(slope, distance, hn::LoadU(d, row + i)), d, row + i);
  }
}

HWY_INLINE void add_relative(const Work& w, std::int64_t r, Range seen, std::int64_t begin, float* row) {
  const AttendBlock& b = w.b;
  const float* table = b.relative + w.head(r) * b.relative_head;
  const std::int64_t from = b.relative_zero - b.query_positions[w.token(r) * b.query_position_stride];
  const std::int64_t* positions = b.key_positions + begin * b.key_position_stride;
  for (std::int64_t i = seen.first; i < seen.end; ++i) {
    const std::int64_t column = from + positions[i * b.key_position_stride];
    row[i] += table[HWY_MAX(std::int64_t{0}, HWY_MIN(column, b.relative_columns - 1))];
  }
}

// Scales and biases row r, which sees a slot of the chunk.
HWY_INLINE void bias_row(const Work& w, std::int64_t r, Range seen, std::int64_t begin, std::int64_t base) {
  const F d;
  const AttendBlock& b = w.b;
  float* row = w.s.scores + r * w.chunk;
  const auto step = static_cast<std::int64_t>(kLanes);
  const V scale = hn::Set(d, b.scale);
  for (std::int64_t i = 0; i < w.chunk; i += step) {
    hn::StoreU(hn::Mul(hn::LoadU(d, row + i), scale), d, row + i);
  }
  if (b.softcap > 0) {
    const float inverse = 1 / b.softcap;
    for (std::int64_t i = 0; i < w.chunk; i += step) {
      hn::StoreU(softcap(d, hn::LoadU(d, row + i), b.softcap, inverse), d, row + i);
    }
  }
  if (b.slopes != nullptr) add_slope(w, r, base, row);
  if (b.relative != nullptr) add_relative(w, r, seen, begin, row);
  if (b.bias != nullptr) {
    const float* bias = b.bias + w.head(r) * b.bias_head + w.token(r) * b.bias_token + begin;
    for (std::int64_t i = seen.first; i < seen.end; ++i) row[i] += bias[i];
  }
  for (std::int64_t i = 0; i < seen.first; ++i) row[i] = kNever;
  for (std::int64_t i = seen.end; i < w.chunk; ++i) row[i] = kNever;
}

// The scores of row r against slots begin .. end, when they are asked for; null = it sees none.
HWY_INLINE void write_scores(const Work& w, std::int64_t r, std::int64_t begin, std::int64_t end,
                             const float* row) {
  const AttendBlock& b = w.b;
  if (b.scores == nullptr) return;
  float* to = b.scores + w.head(r) * b.score_head + w.token(r) * b.score_token;
  for (std::int64_t i = begin; i < end; ++i) to[i * b.score_slot] = row == nullptr ? kNever : row[i - begin];
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

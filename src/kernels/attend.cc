// SPDX-License-Identifier: Apache-2.0
// softmax(scores) v in one pass over chunks of slots, with a running maximum and sum (Milakov and Gimelshein
// 2018; Dao et al. 2022). Rows are queries x heads of one key-value head, so keys are read once for the
// group. Many rows: a chunk of keys is transposed once. Few rows: dot products straight from the cache.
// Values of unseen slots are never multiplied, and chunks that no row sees are not looked at.
#include "kernels/attend.h"

#include <limits>

#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attend.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
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

HWY_INLINE float lane_exp(float x) {
  const hn::CappedTag<float, 1> d1;
  return hn::GetLane(exp(d1, hn::Set(d1, x)));
}

// Turns row r into weights and keeps its running maximum, sum and output.
HWY_INLINE void soften_row(const Work& w, std::int64_t r) {
  const F d;
  float* row = w.s.scores + r * w.chunk;
  const auto step = static_cast<std::int64_t>(kLanes);
  V top = hn::LoadU(d, row);
  for (std::int64_t i = step; i < w.chunk; i += step) top = hn::Max(top, hn::LoadU(d, row + i));
  const float found = max_of_lanes(top);
  const float old = w.s.maximum[r];
  const float now = found > old ? found : old;
  // With nothing seen yet, subtract 0: unseen slots get weight 0 and NaN scores stay NaN.
  const V subtract = hn::Set(d, now == kNever ? 0.0f : now);
  V sum = hn::Zero(d);
  for (std::int64_t i = 0; i < w.chunk; i += step) {
    const V p = exp(d, hn::Sub(hn::LoadU(d, row + i), subtract));
    hn::StoreU(p, d, row + i);
    sum = hn::Add(sum, p);
  }
  const float added = hn::GetLane(hn::SumOfLanes(d, sum));
  if (now != old) {
    const float shrink = lane_exp(old - now);
    w.s.sum[r] *= shrink;
    const V factor = hn::Set(d, shrink);
    float* out = w.s.out + r * w.o_stride;
    for (std::int64_t i = 0; i < w.o_stride; i += step) {
      hn::StoreU(hn::Mul(hn::LoadU(d, out + i), factor), d, out + i);
    }
    w.s.maximum[r] = now;
  }
  w.s.sum[r] += added;
}

// ---- weighted values

template <int Rows, class T>
HWY_INLINE void add_seen(const Work& w, std::int64_t r, Range seen, const T* values, std::int64_t stride) {
  if (seen.empty()) return;
  add_product<Rows>(w.s.scores + r * w.chunk + seen.first, w.chunk, values + seen.first * stride, stride,
                    seen.end - seen.first, w.b.value_width, w.s.out + r * w.o_stride, w.o_stride);
}

template <class T>
void values_from(const Work& w, const T* values, std::int64_t stride, std::int64_t begin, std::int64_t end) {
  std::int64_t r = 0;
  for (; r + 4 <= w.rows; r += 4) {
    const std::int64_t last = HWY_MIN(r + 4, w.b.rows);
    // Rows are in token order: what the first sees ends first, what the last sees begins last.
    Range shared{w.seen(last - 1, begin, end).first, w.seen(r, begin, end).end};
    add_seen<4>(w, r, shared, values, stride);
    if (shared.empty()) shared = {end - begin, end - begin};
    for (std::int64_t i = r; i < last; ++i) {
      const Range own = w.seen(i, begin, end);
      add_seen<1>(w, i, {own.first, HWY_MIN(own.end, shared.first)}, values, stride);
      add_seen<1>(w, i, {HWY_MAX(own.first, shared.end), own.end}, values, stride);
    }
  }
  for (; r < w.b.rows; ++r) add_seen<1>(w, r, w.seen(r, begin, end), values, stride);
}

template <class T>
HWY_INLINE void add_values(const Work& w, const T* values, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = w.b.value_width;
  values += begin * width;
  const bool direct =
      w.b.rows <= kFewRows || (std::is_same_v<T, float> && width % static_cast<std::int64_t>(kLanes) == 0);
  if (direct) return values_from(w, values, width, begin, end);
  const F d;
  const auto step = static_cast<std::int64_t>(kLanes);
  for (std::int64_t j = 0; j < end - begin; ++j) {
    const T* from = values + j * width;
    float* to = w.s.values + j * w.o_stride;
    std::int64_t i = 0;
    for (; i + step <= width; i += step) hn::StoreU(load(d, from + i), d, to + i);
    if (i < width) hn::StoreU(load_n(d, from + i, index(width - i)), d, to + i);
  }
  values_from(w, w.s.values, w.o_stride, begin, end);
}

template <class Call>
HWY_INLINE void by_dtype(DType dtype, const void* data, Call call) {
  if (dtype == DType::f16) {
    call(static_cast<const Half*>(data));
  } else if (dtype == DType::bf16) {
    call(static_cast<const BFloat16*>(data));
  } else {
    call(static_cast<const float*>(data));
  }
}

// ---- the block

HWY_INLINE void take_queries(const Work& w) {
  const AttendBlock& b = w.b;
  std::memset(w.s.q, 0, index(w.rows * w.q_stride) * sizeof(float));
  std::memset(w.s.out, 0, index(w.rows * w.o_stride) * sizeof(float));
  for (std::int64_t r = 0; r < b.rows; ++r) {
    std::memcpy(w.s.q + r * w.q_stride, b.q + w.token(r) * b.q_token + w.head(r) * b.q_head,
                index(b.key_width) * sizeof(float));
  }
  for (std::int64_t r = 0; r < w.rows; ++r) {
    // A sink is a slot seen first, without a value.
    const bool sunk = b.sinks != nullptr && r < b.rows;
    w.s.maximum[r] = sunk ? b.sinks[w.head(r) * b.sink_stride] : kNever;
    w.s.sum[r] = w.s.maximum[r] == kNever ? 0.0f : 1.0f;
    const std::int64_t slot = b.first_slot + w.token(HWY_MIN(r, b.rows - 1));
    w.s.first[r] = b.seen.first(slot);
    w.s.end[r] = b.seen.end(slot);
  }
}

HWY_INLINE void give_rows(const Work& w) {
  const AttendBlock& b = w.b;
  for (std::int64_t r = 0; r < b.rows; ++r) {
    const float* from = w.s.out + r * w.o_stride;
    if (b.partial != nullptr) {
      float* to = b.partial + r * attend_partial(b.value_width);
      to[0] = w.s.maximum[r];
      to[1] = w.s.sum[r];
      std::memcpy(to + 2, from, index(b.value_width) * sizeof(float));
      continue;
    }
    float* to = b.out + w.token(r) * b.out_token + w.head(r) * b.out_head;
    for (std::int64_t i = 0; i < b.value_width; ++i) to[i] = from[i] / w.s.sum[r];
  }
}

void Attend(const AttendBlock& b) {
  Scratch s;
  const std::int64_t widest = padded(HWY_MAX(b.key_width, b.value_width));
  const std::int64_t many = widest <= 256 ? 64 : widest <= 512 ? 32 : 16;
  const std::int64_t chunk = b.rows <= kFewRows ? kFewChunk : many;
  const Work w{
      b, s, b.rows == 1 ? 1 : (b.rows + 3) / 4 * 4, chunk, padded(b.key_width), padded(b.value_width)};
  take_queries(w);
  // What the block sees of the span: from its first row's first slot to its last row's last.
  const std::int64_t first = HWY_MIN(HWY_MAX(s.first[0], b.slot_begin), b.slot_end);
  const std::int64_t last = HWY_MAX(HWY_MIN(s.end[b.rows - 1], b.slot_end), first);
  for (std::int64_t begin = first; begin < last; begin += chunk) {
    const std::int64_t end = HWY_MIN(begin + chunk, last);
    by_dtype(b.key_dtype, b.keys, [&](const auto* keys) { scores(w, keys, begin, end - begin); });
    std::int64_t base = 0;
    if (b.slopes != nullptr) {
      // Both positions are counted from one query, so that f32 holds their difference exactly to 2^24.
      base = b.query_positions[w.token(0) * b.query_position_stride];
      for (std::int64_t i = 0; i < chunk; ++i) {
        const std::int64_t slot = HWY_MIN(begin + i, end - 1);
        s.biases[i] = static_cast<float>(b.key_positions[slot * b.key_position_stride] - base);
      }
    }
    for (std::int64_t r = 0; r < b.rows; ++r) {
      const Range seen = w.seen(r, begin, end);
      if (seen.empty()) {
        write_scores(w, r, begin, end, nullptr);
        continue;
      }
      bias_row(w, r, seen, begin, base);
      write_scores(w, r, begin, end, s.scores + r * chunk);
      soften_row(w, r);
    }
    by_dtype(b.value_dtype, b.values, [&](const auto* values) { add_values(w, values, begin, end); });
  }
  for (std::int64_t r = 0; r < b.rows; ++r) {
    write_scores(w, r, b.slot_begin, first, nullptr);
    write_scores(w, r, last, b.slot_end, nullptr);
  }
  give_rows(w);
}

void AttendMerge(const float* partial, std::int64_t spans, std::int64_t span_stride, std::int64_t value_width,
                 float* out) {
  float top = kNever;
  for (std::int64_t i = 0; i < spans; ++i) {
    const float maximum = partial[i * span_stride];
    top = maximum > top ? maximum : top;
  }
  float sum = 0;
  for (std::int64_t i = 0; i < spans; ++i) {
    const float* part = partial + i * span_stride;
    const float weight = part[0] == top ? 1.0f : lane_exp(part[0] - top);
    sum += weight * part[1];
    for (std::int64_t c = 0; c < value_width; ++c) {
      out[c] = i == 0 ? weight * part[2 + c] : out[c] + weight * part[2 + c];
    }
  }
  for (std::int64_t c = 0; c < value_width; ++c) out[c] /= sum;
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace locant::kernels {
HWY_EXPORT(Attend);
HWY_EXPORT(AttendMerge);
void attend(const AttendBlock& block) noexcept {
  HWY_DYNAMIC_DISPATCH(Attend)(block);
}
void attend_merge(const float* partial, std::int64_t spans, std::int64_t span_stride,
                  std::int64_t value_width, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(AttendMerge)(partial, spans, span_stride, value_width, out);
}
}  // namespace locant::kernels
#endif

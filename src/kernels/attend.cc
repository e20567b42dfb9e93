// SPDX-License-Identifier: Apache-2.0
// softmax(scores) v in one pass over chunks of slots, with a running maximum and sum (Milakov and Gimelshein
// 2018; Dao et al. 2022). Rows are queries x heads of one key-value head, so keys are read once for the
// group. Many rows: a chunk of keys is transposed once. Few rows: dot products straight from the cache.
// Values of unseen slots are never multiplied, and chunks that no row sees are not looked at.
#include "kernels/attend.h"

#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attend.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/attend-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

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

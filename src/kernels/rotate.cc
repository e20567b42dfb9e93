// SPDX-License-Identifier: Apache-2.0
// (a, b) -> (a cos - b sin, b cos + a sin) for pairs of channels (Su et al. 2021, eq. 34), f32 arithmetic.
// A slice of the tables is read once per token and serves all heads. Equal layouts work in place; with
// different layouts a head in place goes through a buffer.
#include "kernels/rotate.h"

#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rotate.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

template <class D, class T>
HWY_INLINE void read_pairs(D d, const T* p, std::int64_t i, const RotateBlock<T>& b, VecOf<D>& even,
                           VecOf<D>& odd) {
  if (b.read == Layout::half) {
    even = load(d, p + i);
    odd = load(d, p + b.pairs + i);
    return;
  }
  if constexpr (std::is_same_v<T, float>) {
    hn::LoadInterleaved2(d, p + 2 * i, even, odd);
  } else {
    constexpr std::size_t kN = hn::MaxLanes(D());
    T parts[2][kN];
    for (std::size_t j = 0; j < kN; ++j) {
      parts[0][j] = p[2 * index(i) + 2 * j];
      parts[1][j] = p[2 * index(i) + 2 * j + 1];
    }
    even = load(d, parts[0]);
    odd = load(d, parts[1]);
  }
}

template <class D, class T>
HWY_INLINE void write_pairs(D d, T* p, std::int64_t i, const RotateBlock<T>& b, VecOf<D> even, VecOf<D> odd) {
  if (b.write == Layout::half) {
    store(d, even, p + i);
    store(d, odd, p + b.pairs + i);
    return;
  }
  if constexpr (std::is_same_v<T, float>) {
    hn::StoreInterleaved2(even, odd, d, p + 2 * i);
  } else {
    constexpr std::size_t kN = hn::MaxLanes(D());
    T parts[2][kN];
    store(d, even, parts[0]);
    store(d, odd, parts[1]);
    for (std::size_t j = 0; j < kN; ++j) {
      p[2 * index(i) + 2 * j] = parts[0][j];
      p[2 * index(i) + 2 * j + 1] = parts[1][j];
    }
  }
}

// Pairs [i, i + lanes of d) of every head of token t.
template <class D, class T>
HWY_INLINE void slice(D d, const RotateBlock<T>& b, std::int64_t t, std::int64_t i) {
  const auto c = load(d, b.cos + t * b.cos_token + i);
  const auto s = hn::Mul(load(d, b.sin + t * b.sin_token + i), hn::Set(d, b.sign));
  const T* in = b.x + t * b.x_token + b.offset;
  T* out = b.out + t * b.out_token + b.offset;
  if (b.read == Layout::half && b.write == Layout::half) {
    const T* in_b = in + b.pairs;
    T* out_b = out + b.pairs;
    const std::int64_t x_head = b.x_head;
    const std::int64_t out_head = b.out_head;
    for (std::int64_t h = b.heads; h > 0;
         --h, in += x_head, in_b += x_head, out += out_head, out_b += out_head) {
      const auto x = load(d, in + i);
      const auto y = load(d, in_b + i);
      store(d, hn::NegMulAdd(y, s, hn::Mul(x, c)), out + i);
      store(d, hn::MulAdd(x, s, hn::Mul(y, c)), out_b + i);
    }
    return;
  }
  for (std::int64_t h = 0; h < b.heads; ++h, in += b.x_head, out += b.out_head) {
    VecOf<D> x;
    VecOf<D> y;
    read_pairs(d, in, i, b, x, y);
    const auto xr = hn::NegMulAdd(y, s, hn::Mul(x, c));
    const auto yr = hn::MulAdd(x, s, hn::Mul(y, c));
    write_pairs(d, out, i, b, xr, yr);
  }
}

#if HWY_TARGET != HWY_SCALAR
// Interleaved to interleaved: neighbours stay neighbours, x * [c,c] + swapped(x) * [-s,s].
template <class T>
HWY_INLINE void slice_neighbours(const RotateBlock<T>& b, std::int64_t t, std::int64_t i) {
  const F d;
  HWY_ALIGN float cc[2 * kLanes];
  HWY_ALIGN float ss[2 * kLanes];
  const V c = hn::LoadU(d, b.cos + t * b.cos_token + i);
  const V s = hn::Mul(hn::LoadU(d, b.sin + t * b.sin_token + i), hn::Set(d, b.sign));
  hn::StoreInterleaved2(c, c, d, cc);
  hn::StoreInterleaved2(hn::Neg(s), s, d, ss);
  const V c0 = hn::Load(d, cc);
  const V c1 = hn::Load(d, cc + kLanes);
  const V s0 = hn::Load(d, ss);
  const V s1 = hn::Load(d, ss + kLanes);
  const T* in = b.x + t * b.x_token + b.offset + 2 * i;
  T* out = b.out + t * b.out_token + b.offset + 2 * i;
  for (std::int64_t h = 0; h < b.heads; ++h, in += b.x_head, out += b.out_head) {
    const V x0 = load(d, in);
    const V x1 = load(d, in + kLanes);
    store(d, hn::MulAdd(hn::Shuffle2301(x0), s0, hn::Mul(x0, c0)), out);
    store(d, hn::MulAdd(hn::Shuffle2301(x1), s1, hn::Mul(x1, c1)), out + kLanes);
  }
}
#endif

template <class T>
void rotated_channels(const RotateBlock<T>& b, std::int64_t t) {
  const F d;
  const auto lanes = static_cast<std::int64_t>(kLanes);
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  if (b.read == Layout::interleaved && b.write == Layout::interleaved) {
    for (; i + lanes <= b.pairs; i += lanes) slice_neighbours(b, t, i);
  }
#endif
  for (; i + lanes <= b.pairs; i += lanes) slice(d, b, t, i);
  const hn::CappedTag<float, 4> d4;
  if constexpr (kLanes > 4) {
    for (; i + 4 <= b.pairs; i += 4) slice(d4, b, t, i);
  }
  const hn::CappedTag<float, 1> d1;
  for (; i < b.pairs; ++i) slice(d1, b, t, i);
}

// Layouts differ and out is x: a write would land on channels not read yet, so a head is copied first.
template <class T>
void through_buffer(const RotateBlock<T>& b, std::int64_t t) {
  T buffer[kRotateInPlaceWidth];
  RotateBlock<T> one_head = b;
  one_head.tokens = 1;
  one_head.heads = 1;
  one_head.cos = b.cos + t * b.cos_token;
  one_head.sin = b.sin + t * b.sin_token;
  one_head.x = buffer;
  one_head.offset = 0;
  for (std::int64_t h = 0; h < b.heads; ++h) {
    one_head.out = b.out + t * b.out_token + h * b.out_head + b.offset;
    std::memcpy(buffer, one_head.out, index(2 * b.pairs) * sizeof(T));
    rotated_channels(one_head, 0);
  }
}

template <class T>
void passed_channels(const RotateBlock<T>& b, std::int64_t t) {
  const std::int64_t end = b.offset + 2 * b.pairs;
  for (std::int64_t h = 0; h < b.heads; ++h) {
    const T* in = b.x + t * b.x_token + h * b.x_head;
    T* out = b.out + t * b.out_token + h * b.out_head;
    if (b.offset > 0) std::memcpy(out, in, index(b.offset) * sizeof(T));
    if (end < b.head_dim) std::memcpy(out + end, in + end, index(b.head_dim - end) * sizeof(T));
  }
}

template <class T>
HWY_INLINE void rotate_tokens(const RotateBlock<T>& b) {
  const bool in_place = b.x == b.out;
  for (std::int64_t t = 0; t < b.tokens; ++t) {
    if (in_place && b.read != b.write) {
      through_buffer(b, t);
    } else {
      rotated_channels(b, t);
    }
    if (!in_place && 2 * b.pairs != b.head_dim) passed_channels(b, t);
  }
}

void RotateF32(const RotateBlock<float>& b) {
  rotate_tokens(b);
}
void RotateF16(const RotateBlock<Half>& b) {
  rotate_tokens(b);
}
void RotateBf16(const RotateBlock<BFloat16>& b) {
  rotate_tokens(b);
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace locant::kernels {
HWY_EXPORT(RotateF32);
HWY_EXPORT(RotateF16);
HWY_EXPORT(RotateBf16);
void rotate(const RotateBlock<float>& block) noexcept {
  HWY_DYNAMIC_DISPATCH(RotateF32)(block);
}
void rotate(const RotateBlock<Half>& block) noexcept {
  HWY_DYNAMIC_DISPATCH(RotateF16)(block);
}
void rotate(const RotateBlock<BFloat16>& block) noexcept {
  HWY_DYNAMIC_DISPATCH(RotateBf16)(block);
}
}  // namespace locant::kernels
#endif

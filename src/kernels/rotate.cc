// SPDX-License-Identifier: Apache-2.0
// (a, b) -> (a cos - b sin, b cos + a sin) for pairs of channels (Su et al. 2021, eq. 34), f32 arithmetic.
// Equal layouts go by tiles and work in place; different ones, and what is left of the pairs behind the
// tiles, go by slices of one vector, a head in place through a buffer.
#include "kernels/rotate.h"

#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rotate.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/rotate-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

template <class D, class T>
HWY_INLINE void read_pairs(D d, const T* p, std::int64_t i, Layout layout, std::int64_t pairs, VecOf<D>& even,
                           VecOf<D>& odd) {
  if (layout == Layout::half) {
    even = load(d, p + i);
    odd = load(d, p + pairs + i);
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
HWY_INLINE void write_pairs(D d, T* p, std::int64_t i, Layout layout, std::int64_t pairs, VecOf<D> even,
                            VecOf<D> odd) {
  if (layout == Layout::half) {
    store(d, even, p + i);
    store(d, odd, p + pairs + i);
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

// Pairs [i, i + lanes of d) of every head.
template <class D, class T, class U>
HWY_INLINE void slice(D d, const RotateToken<T, U>& t, Layout read, Layout write, std::int64_t i) {
  const auto c = load(d, t.cos + i);
  const auto s = hn::Mul(load(d, t.sin + i), hn::Set(d, t.sign));
  const T* in = t.x;
  U* out = t.out;
  for (std::int64_t h = 0; h < t.heads; ++h, in += t.x_head, out += t.out_head) {
    VecOf<D> x;
    VecOf<D> y;
    read_pairs(d, in, i, read, t.pairs, x, y);
    const auto to_x = first_turned<D>(x, y, c, s);
    const auto to_y = second_turned<D>(x, y, c, s);
    write_pairs(d, out, i, write, t.pairs, to_x, to_y);
  }
}

// tile(i, n) for as many whole tiles of n vectors as there are, widest first; returns the pairs done.
template <int N, class Tile>
HWY_INLINE std::int64_t each_tile(std::int64_t pairs, std::int64_t pairs_of_vector, Tile tile) {
  std::int64_t i = 0;
  for (; i + N * pairs_of_vector <= pairs; i += N * pairs_of_vector)
    tile(i, std::integral_constant<int, N>());
  if constexpr (N > 1) {
    for (; i + pairs_of_vector <= pairs; i += pairs_of_vector) tile(i, std::integral_constant<int, 1>());
  }
  return i;
}

// Pairs of both layouts the same, tile by tile; returns how many were done.
template <Stores kStores, class T, class U>
HWY_INLINE std::int64_t tiles(const RotateToken<T, U>& t, [[maybe_unused]] Layout layout) {
  constexpr auto kVector = static_cast<std::int64_t>(kLanes);
#if HWY_TARGET != HWY_SCALAR
  constexpr bool kWords = std::is_same_v<T, BFloat16> && std::is_same_v<U, BFloat16>;
  if (layout == Layout::interleaved) {
    return each_tile<kRotateVectors>(t.pairs, kVector, [&](std::int64_t i, auto n) HWY_ATTR {
      if constexpr (kWords) {
        neighbours_tile_words<n(), kStores>(t, i);
      } else {
        neighbours_tile<n(), kStores>(t, i);
      }
    });
  }
  if constexpr (kWords) {
    return each_tile<kRotateVectors / 2>(
        t.pairs, 2 * kVector, [&](std::int64_t i, auto n) HWY_ATTR { half_tile_words<n(), kStores>(t, i); });
  } else {
    return each_tile<kRotateVectors>(t.pairs, kVector,
                                     [&](std::int64_t i, auto n) HWY_ATTR { half_tile<n(), kStores>(t, i); });
  }
#else
  if (layout == Layout::interleaved) return 0;
  return each_tile<1>(t.pairs, kVector, [&](std::int64_t i, auto n) { half_tile<n(), kStores>(t, i); });
#endif
}

template <class T, class U>
HWY_INLINE void rotated_channels(const RotateToken<T, U>& t, Layout read, Layout write, Stores stores) {
  std::int64_t i = 0;
  if (read == write)
    i = stores == Stores::around ? tiles<Stores::around>(t, read) : tiles<Stores::cached>(t, read);
  const F d;
  for (; i + static_cast<std::int64_t>(kLanes) <= t.pairs; i += kLanes) slice(d, t, read, write, i);
  if constexpr (kLanes > 4) {
    const hn::CappedTag<float, 4> d4;
    for (; i + 4 <= t.pairs; i += 4) slice(d4, t, read, write, i);
  }
  const hn::CappedTag<float, 1> d1;
  for (; i < t.pairs; ++i) slice(d1, t, read, write, i);
}

template <class T, class U>
HWY_INLINE RotateToken<T, U> token_of(const RotateBlock<T, U>& b, std::int64_t t) {
  return {.x = b.x + t * b.x_token + b.offset,
          .out = b.out + t * b.out_token + b.offset,
          .cos = b.cos + t * b.cos_token,
          .sin = b.sin + t * b.sin_token,
          .x_head = b.x_head,
          .out_head = b.out_head,
          .heads = b.heads,
          .pairs = b.pairs,
          .sign = b.sign};
}

// Layouts differ and out is x: a write would land on channels not read yet, so a head is copied first.
template <class T>
void through_buffer(const RotateBlock<T>& b, std::int64_t t) {
  T buffer[kRotateInPlaceWidth];
  RotateToken<T, T> head = token_of(b, t);
  head.x = buffer;
  head.heads = 1;
  for (std::int64_t h = 0; h < b.heads; ++h, head.out += b.out_head) {
    std::memcpy(buffer, head.out, index(2 * b.pairs) * sizeof(T));
    rotated_channels(head, b.read, b.write, Stores::cached);
  }
}

template <class T, class U>
HWY_INLINE void pass(const T* from, std::int64_t count, U* to) {
  if constexpr (std::is_same_v<T, U>) {
    if (count > 0) std::memcpy(to, from, index(count) * sizeof(T));
  } else {
    const F d;
    const auto lanes = static_cast<std::int64_t>(kLanes);
    std::int64_t i = 0;
    for (; i + lanes <= count; i += lanes) store(d, load(d, from + i), to + i);
    if (i < count) store_n(d, load_n(d, from + i, index(count - i)), to + i, index(count - i));
  }
}

template <class T, class U>
HWY_INLINE void passed_channels(const RotateBlock<T, U>& b, std::int64_t t) {
  const std::int64_t end = b.offset + 2 * b.pairs;
  for (std::int64_t h = 0; h < b.heads; ++h) {
    const T* in = b.x + t * b.x_token + h * b.x_head;
    U* out = b.out + t * b.out_token + h * b.out_head;
    pass(in, b.offset, out);
    pass(in + end, b.head_dim - end, out + end);
  }
}

// Whether every store of a vector falls on a multiple of its size.
template <class T, class U>
HWY_INLINE bool is_aligned(const RotateBlock<T, U>& b) {
  const auto unit = static_cast<std::int64_t>(hn::MaxLanes(F()) * sizeof(float));
  const auto item = static_cast<std::int64_t>(sizeof(U));
  const auto first = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(b.out + b.offset) %
                                               static_cast<std::uintptr_t>(unit));
  const std::int64_t sides = b.read == Layout::half ? b.pairs * item : 0;
  return first == 0 && (b.out_token * item | b.out_head * item | sides) % unit == 0;
}

template <class T, class U>
HWY_INLINE void rotate_tokens(const RotateBlock<T, U>& b) {
  const bool in_place = static_cast<const void*>(b.x) == static_cast<const void*>(b.out);
  const Stores stores = is_aligned(b) ? b.stores : Stores::cached;
  for (std::int64_t t = 0; t < b.tokens; ++t) {
    if constexpr (std::is_same_v<T, U>) {
      if (in_place && b.read != b.write) {
        through_buffer(b, t);
        continue;
      }
    }
    rotated_channels(token_of(b, t), b.read, b.write, stores);
    if (!in_place && 2 * b.pairs != b.head_dim) passed_channels(b, t);
  }
  if (stores == Stores::around) hwy::FlushStream();
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
void RotateToF16(const RotateBlock<float, Half>& b) {
  rotate_tokens(b);
}
void RotateToBf16(const RotateBlock<float, BFloat16>& b) {
  rotate_tokens(b);
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace locant::kernels {
HWY_EXPORT(RotateF32);
HWY_EXPORT(RotateF16);
HWY_EXPORT(RotateBf16);
HWY_EXPORT(RotateToF16);
HWY_EXPORT(RotateToBf16);
void rotate(const RotateBlock<float>& block) noexcept {
  HWY_DYNAMIC_DISPATCH(RotateF32)(block);
}
void rotate(const RotateBlock<Half>& block) noexcept {
  HWY_DYNAMIC_DISPATCH(RotateF16)(block);
}
void rotate(const RotateBlock<BFloat16>& block) noexcept {
  HWY_DYNAMIC_DISPATCH(RotateBf16)(block);
}
void rotate(const RotateBlock<float, Half>& block) noexcept {
  HWY_DYNAMIC_DISPATCH(RotateToF16)(block);
}
void rotate(const RotateBlock<float, BFloat16>& block) noexcept {
  HWY_DYNAMIC_DISPATCH(RotateToBf16)(block);
}
}  // namespace locant::kernels
#endif

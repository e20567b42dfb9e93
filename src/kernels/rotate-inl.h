// SPDX-License-Identifier: Apache-2.0
// Tiles of a rotation: N vectors of cos and sin of one token stay in registers for all of its heads.
//   half          head h   x x x x ......  y y y y ......      x' = x c - y s
//                            c c c c s s s s                   y' = y c + x s
//   interleaved   head h   (x y x y) (x y x y) ......          v' = v (c c) + swapped v (-s s)
// bf16 needs no shuffles: a 32-bit word holds two neighbours, one << 16, the other without its low half.
// Products and sums are the same in every tile, so a pair's bits do not depend on where it stands.
#if defined(LOCANT_KERNELS_ROTATE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_ROTATE_INL_H_
#undef LOCANT_KERNELS_ROTATE_INL_H_
#else
#define LOCANT_KERNELS_ROTATE_INL_H_
#endif

#include "hwy/cache_control.h"
#include "kernels/lanes-inl.h"
#include "kernels/rotate.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

// Vectors of cos of a tile: heads of 128 are walked in one go, which is how the machine sees memory coming.
// Thirty-two registers hold a tile; sixteen do not, and the first cache stands in.
#if HWY_TARGET == HWY_AVX3
inline constexpr int kRotateVectors = 4;
#else
inline constexpr int kRotateVectors = 8;
#endif

inline constexpr std::int64_t kStep = kLanes;

// One token of a block: where its first rotated channel is in head 0, and its tables.
template <class T, class U>
struct RotateToken {
  const T* x;
  U* out;
  const float* cos;
  const float* sin;
  std::int64_t x_head;
  std::int64_t out_head;
  std::int64_t heads;
  std::int64_t pairs;
  float sign;
};

template <class D>
HWY_INLINE VecOf<D> first_turned(VecOf<D> x, VecOf<D> y, VecOf<D> c, VecOf<D> s) {
  return hn::NegMulAdd(y, s, hn::Mul(x, c));
}
template <class D>
HWY_INLINE VecOf<D> second_turned(VecOf<D> x, VecOf<D> y, VecOf<D> c, VecOf<D> s) {
  return hn::MulAdd(x, s, hn::Mul(y, c));
}

// Stores past the caches need an aligned address and at least 16 bytes.
template <Stores kStores, class D, class T>
HWY_INLINE void put(D d, VecOf<D> v, T* p) {
  if constexpr (kStores == Stores::cached || (sizeof(T) == 2 && hn::MaxLanes(D()) < 8)) {
    store(d, v, p);
  } else if constexpr (std::is_same_v<T, float>) {
    hn::Stream(v, d, p);
  } else {
    const hn::Rebind<std::uint16_t, D> d16;
    HWY_ALIGN T part[hn::MaxLanes(D())];
    store(d, v, part);
    hn::Stream(hn::Load(d16, reinterpret_cast<const std::uint16_t*>(part)), d16,
               reinterpret_cast<std::uint16_t*>(p));
  }
}

// cos, and sin with its sign, of pairs [i, i + N lanes).
template <int N, class T, class U>
HWY_INLINE void take_turns(const RotateToken<T, U>& t, std::int64_t i, V (&c)[N], V (&s)[N]) {
  const F d;
  const V sign = hn::Set(d, t.sign);
  for (int j = 0; j < N; ++j) {
    c[j] = hn::LoadU(d, t.cos + i + j * kStep);
    s[j] = hn::Mul(hn::LoadU(d, t.sin + i + j * kStep), sign);
  }
}

// Pairs [i, i + N lanes) of every head.
template <int N, Stores kStores, class T, class U>
HWY_INLINE void half_tile(const RotateToken<T, U>& t, std::int64_t i) {
  const F d;
  V c[N];
  V s[N];
  take_turns(t, i, c, s);
  const T* x = t.x + i;
  const T* y = t.x + t.pairs + i;
  U* to_x = t.out + i;
  U* to_y = t.out + t.pairs + i;
  for (std::int64_t h = t.heads; h > 0; --h) {
    for (int j = 0; j < N; ++j) {
      const V a = load(d, x + j * kStep);
      const V b = load(d, y + j * kStep);
      put<kStores>(d, first_turned<F>(a, b, c[j], s[j]), to_x + j * kStep);
      put<kStores>(d, second_turned<F>(a, b, c[j], s[j]), to_y + j * kStep);
    }
    x += t.x_head;
    y += t.x_head;
    to_x += t.out_head;
    to_y += t.out_head;
  }
}

#if HWY_TARGET != HWY_SCALAR
// Channels [2i, 2i + 2N lanes) of every head: neighbours stay neighbours.
template <int N, Stores kStores, class T, class U>
HWY_INLINE void neighbours_tile(const RotateToken<T, U>& t, std::int64_t i) {
  const F d;
  V c[2 * N];
  V s[2 * N];
  const V sign = hn::Set(d, t.sign);
  for (int j = 0; j < N; ++j) {
    HWY_ALIGN float both[2 * kLanes];
    const V cos = hn::LoadU(d, t.cos + i + j * kStep);
    const V sin = hn::Mul(hn::LoadU(d, t.sin + i + j * kStep), sign);
    hn::StoreInterleaved2(cos, cos, d, both);
    c[2 * j] = hn::Load(d, both);
    c[2 * j + 1] = hn::Load(d, both + kLanes);
    hn::StoreInterleaved2(hn::Neg(sin), sin, d, both);
    s[2 * j] = hn::Load(d, both);
    s[2 * j + 1] = hn::Load(d, both + kLanes);
  }
  const T* x = t.x + 2 * i;
  U* out = t.out + 2 * i;
  for (std::int64_t h = t.heads; h > 0; --h, x += t.x_head, out += t.out_head) {
    for (int j = 0; j < 2 * N; ++j) {
      const V v = load(d, x + j * kStep);
      put<kStores>(d, hn::MulAdd(hn::Shuffle2301(v), s[j], hn::Mul(v, c[j])), out + j * kStep);
    }
  }
}

// ---- bf16, two neighbours in a word

using Words16 = hn::RebindToUnsigned<F>;
using VWords16 = hn::Vec<Words16>;

HWY_INLINE V even_of(VWords16 words) {
  return hn::BitCast(F(), hn::ShiftLeft<16>(words));
}
HWY_INLINE V odd_of(VWords16 words) {
  return hn::BitCast(F(), hn::And(words, hn::Set(Words16(), 0xFFFF0000u)));
}
// The bf16 of two vectors without a NaN, neighbours in a word: upper halves joined, and one more where the
// lower halves, joined as well, are above the middle, or in the middle beside an odd upper half.
HWY_INLINE VWords16 joined_numbers(V even, V odd) {
  const Words16 du;
  const hn::Repartition<std::uint16_t, F> d16;
  const auto e = hn::BitCast(du, even);
  const auto o = hn::BitCast(du, odd);
  const auto one = hn::Set(d16, std::uint16_t{1});
  const auto upper = hn::OddEven(hn::BitCast(d16, o), hn::BitCast(d16, hn::ShiftRight<16>(e)));
  const auto lower = hn::OddEven(hn::BitCast(d16, hn::ShiftLeft<16>(o)), hn::BitCast(d16, e));
  const auto middle = hn::Sub(hn::Set(d16, std::uint16_t{0x8000}), hn::And(upper, one));
  return hn::BitCast(du, hn::Add(upper, hn::Min(hn::SaturatedSub(lower, middle), one)));
}
HWY_INLINE VWords16 joined(V even, V odd) {
  const F d;
  const Words16 du;
  return hn::Or(hn::BitCast(du, to_bfloat_bits(d, even)),
                hn::ShiftLeft<16>(hn::BitCast(du, to_bfloat_bits(d, odd))));
}
// put(j, words) for N vectors of words. A sum that is NaN tells of one (or of two infinities).
template <int N, class Put>
HWY_INLINE void put_joined(const V* even, const V* odd, Put put) {
  V sum = hn::Add(even[0], odd[0]);
  for (int j = 1; j < N; ++j) sum = hn::Add(sum, hn::Add(even[j], odd[j]));
  if (HWY_LIKELY(hn::AllFalse(F(), hn::IsNaN(sum)))) {
    for (int j = 0; j < N; ++j) put(j, joined_numbers(even[j], odd[j]));
  } else {
    for (int j = 0; j < N; ++j) put(j, joined(even[j], odd[j]));
  }
}
HWY_INLINE VWords16 words_at(const BFloat16* p) {
  return hn::LoadU(Words16(), reinterpret_cast<const std::uint32_t*>(p));
}
template <Stores kStores>
HWY_INLINE void put_words(VWords16 words, BFloat16* p) {
  if constexpr (kStores == Stores::cached) {
    hn::StoreU(words, Words16(), reinterpret_cast<std::uint32_t*>(p));
  } else {
    hn::Stream(words, Words16(), reinterpret_cast<std::uint32_t*>(p));
  }
}

// Pairs [i, i + N lanes): a word is a pair.
template <int N, Stores kStores>
HWY_INLINE void neighbours_tile_words(const RotateToken<BFloat16, BFloat16>& t, std::int64_t i) {
  V c[N];
  V s[N];
  take_turns(t, i, c, s);
  const BFloat16* x = t.x + 2 * i;
  BFloat16* out = t.out + 2 * i;
  for (std::int64_t h = t.heads; h > 0; --h, x += t.x_head, out += t.out_head) {
    V even[N];
    V odd[N];
    for (int j = 0; j < N; ++j) {
      const VWords16 words = words_at(x + j * (2 * kStep));
      const V a = even_of(words);
      const V b = odd_of(words);
      even[j] = first_turned<F>(a, b, c[j], s[j]);
      odd[j] = second_turned<F>(a, b, c[j], s[j]);
    }
    put_joined<N>(even, odd,
                  [&](int j, VWords16 words) HWY_ATTR { put_words<kStores>(words, out + j * (2 * kStep)); });
  }
}

// Pairs [i, i + 2N lanes): a word holds the same side of two pairs.
template <int N, Stores kStores>
HWY_INLINE void half_tile_words(const RotateToken<BFloat16, BFloat16>& t, std::int64_t i) {
  const F d;
  V c[N][2];
  V s[N][2];
  const V sign = hn::Set(d, t.sign);
  for (int j = 0; j < N; ++j) {
    hn::LoadInterleaved2(d, t.cos + i + j * (2 * kStep), c[j][0], c[j][1]);
    hn::LoadInterleaved2(d, t.sin + i + j * (2 * kStep), s[j][0], s[j][1]);
    s[j][0] = hn::Mul(s[j][0], sign);
    s[j][1] = hn::Mul(s[j][1], sign);
  }
  const BFloat16* x = t.x + i;
  const BFloat16* y = t.x + t.pairs + i;
  BFloat16* to_x = t.out + i;
  BFloat16* to_y = t.out + t.pairs + i;
  for (std::int64_t h = t.heads; h > 0; --h) {
    V even[2 * N];
    V odd[2 * N];
    for (int j = 0; j < N; ++j) {
      const VWords16 first = words_at(x + j * (2 * kStep));
      const VWords16 second = words_at(y + j * (2 * kStep));
      const V a[2] = {even_of(first), odd_of(first)};
      const V b[2] = {even_of(second), odd_of(second)};
      even[2 * j] = first_turned<F>(a[0], b[0], c[j][0], s[j][0]);
      odd[2 * j] = first_turned<F>(a[1], b[1], c[j][1], s[j][1]);
      even[2 * j + 1] = second_turned<F>(a[0], b[0], c[j][0], s[j][0]);
      odd[2 * j + 1] = second_turned<F>(a[1], b[1], c[j][1], s[j][1]);
    }
    put_joined<2 * N>(even, odd, [&](int j, VWords16 words) HWY_ATTR {
      put_words<kStores>(words, (j % 2 == 0 ? to_x : to_y) + j / 2 * (2 * kStep));
    });
    x += t.x_head;
    y += t.x_head;
    to_x += t.out_head;
    to_y += t.out_head;
  }
}
#endif

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

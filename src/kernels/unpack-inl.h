// SPDX-License-Identifier: Apache-2.0
// Bytes of GGUF blocks to 8-bit whole numbers, scales and minuses, a function for each type. Bytes are
// handled 16 at a time on every instruction set (one at a time on the scalar one).
#if defined(LOCANT_KERNELS_UNPACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCANT_KERNELS_UNPACK_INL_H_
#undef LOCANT_KERNELS_UNPACK_INL_H_
#else
#define LOCANT_KERNELS_UNPACK_INL_H_
#endif

#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

// Elements unpacked at a time: a whole number of blocks of every type.
inline constexpr std::size_t kSpan = 1024;

struct Span {
  HWY_ALIGN std::int8_t q[kSpan];
  HWY_ALIGN float scale[kSpan / 16];  // of groups of 16 or 32
  HWY_ALIGN float minus[kSpan / 16];
};

using U8 = hn::CappedTag<std::uint8_t, 16>;
using I8 = hn::RebindToSigned<U8>;
using VU8 = hn::Vec<U8>;
inline constexpr std::size_t kByteLanes = hn::MaxLanes(U8());

HWY_INLINE VU8 low_nibbles(VU8 bytes) {
  return hn::And(bytes, hn::Set(U8(), std::uint8_t{15}));
}
HWY_INLINE VU8 high_nibbles(VU8 bytes) {
  return hn::ShiftRight<4>(bytes);
}
template <int Shift>
HWY_INLINE VU8 pairs(VU8 bytes) {
  const VU8 two = hn::Set(U8(), std::uint8_t{3});
  if constexpr (Shift == 0) {
    return hn::And(bytes, two);
  } else {
    return hn::And(hn::ShiftRight<Shift>(bytes), two);
  }
}
// `value` where the bit of `mask` is set, 0 elsewhere.
HWY_INLINE VU8 where_bit(VU8 bytes, std::uint8_t mask, std::uint8_t value) {
  const U8 d;
  const VU8 bit = hn::Set(d, mask);
  return hn::IfThenElseZero(hn::Eq(hn::And(bytes, bit), bit), hn::Set(d, value));
}
HWY_INLINE void store_less(VU8 q, std::int8_t less, std::int8_t* to) {
  const I8 di;
  hn::StoreU(hn::Sub(hn::BitCast(di, q), hn::Set(di, less)), di, to);
}

struct Uneven {  // IQ4
  static constexpr std::int8_t kTable[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                             1,    13,   25,  38,  53,  69,  89,  113};
};
struct E2m1Twice {  // MXFP4
  static constexpr std::int8_t kTable[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
};
template <class Book>
HWY_INLINE void look_up(VU8 nibbles, std::int8_t* to) {
#if HWY_TARGET == HWY_SCALAR
  *to = Book::kTable[hn::GetLane(nibbles)];
#else
  const I8 d;
  hn::StoreU(hn::TableLookupBytes(hn::LoadU(d, Book::kTable), hn::BitCast(d, nibbles)), d, to);
#endif
}

// d times `n` small whole numbers; n is a multiple of 8.
template <class T>
HWY_INLINE void scale_all(float d, const T* whole, std::size_t n, float* to) {
  const hn::CappedTag<float, 8> df;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::Rebind<T, decltype(df)> dt;
  for (std::size_t i = 0; i < n; i += hn::Lanes(df)) {
    const auto value = hn::ConvertTo(df, hn::PromoteTo(di, hn::LoadU(dt, whole + i)));
    hn::StoreU(hn::Mul(hn::Set(df, d), value), df, to + i);
  }
}
HWY_INLINE float half_at(const std::uint8_t* bytes) {
  const hn::CappedTag<float, 1> d;
  Half half;
  std::memcpy(&half.bits, bytes, sizeof(half.bits));
  return hn::GetLane(load(d, &half));
}

// ---- blocks of 32: f16 scale, f16 least value or none, then `unpack`

struct SmallQ40 {
  static constexpr std::size_t kBytes = 18;
  static constexpr bool kLeast = false;
  static HWY_INLINE void values(const std::uint8_t* bytes, std::int8_t* q) {
    for (std::size_t i = 0; i < 16; i += kByteLanes) {
      const VU8 both = hn::LoadU(U8(), bytes + i);
      store_less(low_nibbles(both), 8, q + i);
      store_less(high_nibbles(both), 8, q + 16 + i);
    }
  }
};
struct SmallQ41 {
  static constexpr std::size_t kBytes = 20;
  static constexpr bool kLeast = true;
  static HWY_INLINE void values(const std::uint8_t* bytes, std::int8_t* q) {
    for (std::size_t i = 0; i < 16; i += kByteLanes) {
      const VU8 both = hn::LoadU(U8(), bytes + i);
      store_less(low_nibbles(both), 0, q + i);
      store_less(high_nibbles(both), 0, q + 16 + i);
    }
  }
};
// Bit i of 32 as 16 in byte i: eight copies of a byte, a bit left in each, carried to the top.
HWY_INLINE void fifth_bits(const std::uint8_t* bits, std::uint8_t* fifth) {
  for (std::size_t i = 0; i < 4; ++i) {
    std::uint64_t eight = bits[i] * std::uint64_t{0x0101010101010101};
    eight = (eight & 0x8040201008040201u) + 0x7F7F7F7F7F7F7F7Fu;
    eight = (eight & 0x8080808080808080u) >> 3;
    std::memcpy(fifth + 8 * i, &eight, sizeof(eight));
  }
}
HWY_INLINE void nibbles_and_fifth(const std::uint8_t* bytes, std::int8_t less, std::int8_t* q) {
  const U8 d;
  std::uint8_t fifth[32];
  fifth_bits(bytes, fifth);
  for (std::size_t i = 0; i < 16; i += kByteLanes) {
    const VU8 both = hn::LoadU(d, bytes + 4 + i);
    store_less(hn::Or(low_nibbles(both), hn::LoadU(d, fifth + i)), less, q + i);
    store_less(hn::Or(high_nibbles(both), hn::LoadU(d, fifth + 16 + i)), less, q + 16 + i);
  }
}
struct SmallQ50 {
  static constexpr std::size_t kBytes = 22;
  static constexpr bool kLeast = false;
  static HWY_INLINE void values(const std::uint8_t* bytes, std::int8_t* q) {
    nibbles_and_fifth(bytes, 16, q);
  }
};
struct SmallQ51 {
  static constexpr std::size_t kBytes = 24;
  static constexpr bool kLeast = true;
  static HWY_INLINE void values(const std::uint8_t* bytes, std::int8_t* q) { nibbles_and_fifth(bytes, 0, q); }
};
struct SmallQ80 {
  static constexpr std::size_t kBytes = 34;
  static constexpr bool kLeast = false;
  static HWY_INLINE void values(const std::uint8_t* bytes, std::int8_t* q) { std::memcpy(q, bytes, 32); }
};
template <class Book>
HWY_INLINE void book_nibbles(const std::uint8_t* bytes, std::int8_t* q) {
  for (std::size_t i = 0; i < 16; i += kByteLanes) {
    const VU8 both = hn::LoadU(U8(), bytes + i);
    look_up<Book>(low_nibbles(both), q + i);
    look_up<Book>(high_nibbles(both), q + 16 + i);
  }
}
struct SmallIq4Nl {
  static constexpr std::size_t kBytes = 18;
  static constexpr bool kLeast = false;
  static HWY_INLINE void values(const std::uint8_t* bytes, std::int8_t* q) { book_nibbles<Uneven>(bytes, q); }
};

template <class Small>
HWY_INLINE void small_scales(const std::uint8_t* bytes, std::size_t count, Span& to) {
  const F d;
  HWY_ALIGN Half scale[kSpan / 32 + 16];
  HWY_ALIGN Half least[Small::kLeast ? kSpan / 32 + 16 : 1];
  const std::size_t blocks = count / 32;
  for (std::size_t b = 0; b < blocks; ++b, bytes += Small::kBytes) {
    if constexpr (Small::kLeast) {
      std::uint32_t both;
      std::memcpy(&both, bytes, sizeof(both));
      scale[b].bits = static_cast<std::uint16_t>(both);
      least[b].bits = static_cast<std::uint16_t>(both >> 16);
    } else {
      std::memcpy(&scale[b].bits, bytes, 2);
    }
  }
  for (std::size_t b = 0; b < blocks; b += kLanes) {  // what is converted behind the end is never read
    hn::StoreU(load(d, scale + b), d, to.scale + b);
    if constexpr (Small::kLeast) hn::StoreU(hn::Neg(load(d, least + b)), d, to.minus + b);
  }
}
template <class Small>
HWY_INLINE void unpack_small(const std::uint8_t* bytes, std::size_t count, Span& to) {
  constexpr std::size_t kFront = Small::kLeast ? 4 : 2;
  for (std::size_t b = 0; b < count / 32; ++b)
    Small::values(bytes + Small::kBytes * b + kFront, to.q + 32 * b);
  small_scales<Small>(bytes, count, to);
}

// E8M0 exponent; the table holds twice the values, so the scale is 2^(e - 128).
HWY_INLINE void unpack_mxfp4(const std::uint8_t* bytes, std::size_t count, Span& to) {
  for (std::size_t b = 0; b < count / 32; ++b, bytes += 17) {
    const std::uint32_t e = bytes[0];
    const std::uint32_t bits = e < 2 ? 0x00200000u << e : (e - 1) << 23;
    std::memcpy(&to.scale[b], &bits, sizeof(bits));
    book_nibbles<E2m1Twice>(bytes + 1, to.q + 32 * b);
  }
}

// ---- blocks of 256

HWY_INLINE void unpack_iq4_xs(const std::uint8_t* bytes, std::size_t count, Span& to) {
  for (std::size_t b = 0; b < count / 256; ++b, bytes += 136) {
    std::int8_t scales[8];
    const int high = bytes[2] | bytes[3] << 8;
    for (int g = 0; g < 8; ++g) {
      const int low = bytes[4 + g / 2] >> (g % 2 * 4) & 15;
      scales[g] = static_cast<std::int8_t>((low | (high >> (2 * g) & 3) << 4) - 32);
    }
    scale_all(half_at(bytes), scales, 8, to.scale + 8 * b);
    for (std::size_t g = 0; g < 8; ++g) book_nibbles<Uneven>(bytes + 8 + 16 * g, to.q + 256 * b + 32 * g);
  }
}

HWY_INLINE void unpack_q2_k(const std::uint8_t* bytes, std::size_t count, Span& to) {
  for (std::size_t b = 0; b < count / 256; ++b, bytes += 84) {
    std::uint8_t scales[16];
    std::uint8_t minuses[16];
    for (std::size_t i = 0; i < 16; i += kByteLanes) {
      const VU8 both = hn::LoadU(U8(), bytes + i);
      hn::StoreU(low_nibbles(both), U8(), scales + i);
      hn::StoreU(high_nibbles(both), U8(), minuses + i);
    }
    scale_all(half_at(bytes + 80), scales, 16, to.scale + 16 * b);
    scale_all(half_at(bytes + 82), minuses, 16, to.minus + 16 * b);
    for (std::size_t i = 0; i < 64; i += kByteLanes) {
      const VU8 four = hn::LoadU(U8(), bytes + 16 + i);
      std::int8_t* q = to.q + 256 * b + i / 32 * 128 + i % 32;
      store_less(pairs<0>(four), 0, q);
      store_less(pairs<2>(four), 0, q + 32);
      store_less(pairs<4>(four), 0, q + 64);
      store_less(pairs<6>(four), 0, q + 96);
    }
  }
}

HWY_INLINE void unpack_q3_k(const std::uint8_t* bytes, std::size_t count, Span& to) {
  for (std::size_t b = 0; b < count / 256; ++b, bytes += 110) {
    std::uint32_t packed[3];
    std::memcpy(packed, bytes + 96, sizeof(packed));
    const auto six_bit = [&](std::uint32_t low, int group) {
      return (low & 0x0F0F0F0Fu) | (packed[2] >> (2 * group) & 0x03030303u) << 4;
    };
    const std::uint32_t words[4] = {six_bit(packed[0], 0), six_bit(packed[1], 1), six_bit(packed[0] >> 4, 2),
                                    six_bit(packed[1] >> 4, 3)};
    std::uint8_t unsigned_scales[16];
    std::int8_t scales[16];
    std::memcpy(unsigned_scales, words, sizeof(words));
    for (std::size_t i = 0; i < 16; i += kByteLanes)
      store_less(hn::LoadU(U8(), unsigned_scales + i), 32, scales + i);
    scale_all(half_at(bytes + 108), scales, 16, to.scale + 16 * b);
    for (std::size_t i = 0; i < 64; i += kByteLanes) {
      const VU8 four = hn::LoadU(U8(), bytes + 32 + i);
      const VU8 high = hn::LoadU(U8(), bytes + i % 32);
      std::int8_t* q = to.q + 256 * b + i / 32 * 128 + i % 32;
      const int first = static_cast<int>(i / 32) * 4;
      const auto bit = [&](int n) { return where_bit(high, static_cast<std::uint8_t>(1 << (first + n)), 4); };
      // A set bit means that 4 is not taken off.
      store_less(hn::Or(pairs<0>(four), bit(0)), 4, q);
      store_less(hn::Or(pairs<2>(four), bit(1)), 4, q + 32);
      store_less(hn::Or(pairs<4>(four), bit(2)), 4, q + 64);
      store_less(hn::Or(pairs<6>(four), bit(3)), 4, q + 96);
    }
  }
}

// Scales and minuses of 6 bits, four bytes at a time.
HWY_INLINE void six_bits(const std::uint8_t* packed, std::uint8_t* scales, std::uint8_t* minuses) {
  std::uint32_t word[3];
  std::memcpy(word, packed, sizeof(word));
  const std::uint32_t scale[2] = {word[0] & 0x3F3F3F3Fu,
                                  (word[2] & 0x0F0F0F0Fu) | (word[0] >> 2 & 0x30303030u)};
  const std::uint32_t minus[2] = {word[1] & 0x3F3F3F3Fu,
                                  (word[2] >> 4 & 0x0F0F0F0Fu) | (word[1] >> 2 & 0x30303030u)};
  std::memcpy(scales, scale, sizeof(scale));
  std::memcpy(minuses, minus, sizeof(minus));
}
HWY_INLINE void scales_of_k(const std::uint8_t* bytes, std::size_t b, Span& to) {
  std::uint8_t scales[8];
  std::uint8_t minuses[8];
  six_bits(bytes + 4, scales, minuses);
  scale_all(half_at(bytes), scales, 8, to.scale + 8 * b);
  scale_all(half_at(bytes + 2), minuses, 8, to.minus + 8 * b);
}

HWY_INLINE void unpack_q4_k(const std::uint8_t* bytes, std::size_t count, Span& to) {
  for (std::size_t b = 0; b < count / 256; ++b, bytes += 144) {
    scales_of_k(bytes, b, to);
    for (std::size_t i = 0; i < 128; i += kByteLanes) {
      const VU8 both = hn::LoadU(U8(), bytes + 16 + i);
      std::int8_t* q = to.q + 256 * b + i / 32 * 64 + i % 32;
      store_less(low_nibbles(both), 0, q);
      store_less(high_nibbles(both), 0, q + 32);
    }
  }
}

HWY_INLINE void unpack_q5_k(const std::uint8_t* bytes, std::size_t count, Span& to) {
  for (std::size_t b = 0; b < count / 256; ++b, bytes += 176) {
    scales_of_k(bytes, b, to);
    for (std::size_t i = 0; i < 128; i += kByteLanes) {
      const VU8 both = hn::LoadU(U8(), bytes + 48 + i);
      const VU8 fifth = hn::LoadU(U8(), bytes + 16 + i % 32);
      std::int8_t* q = to.q + 256 * b + i / 32 * 64 + i % 32;
      const int first = static_cast<int>(i / 32) * 2;
      const auto bit = [&](int n) {
        return where_bit(fifth, static_cast<std::uint8_t>(1 << (first + n)), 16);
      };
      store_less(hn::Or(low_nibbles(both), bit(0)), 0, q);
      store_less(hn::Or(high_nibbles(both), bit(1)), 0, q + 32);
    }
  }
}

HWY_INLINE void scales_of_q6_k(const std::uint8_t* bytes, std::size_t block, Span& to) {
  scale_all(half_at(bytes + 208), reinterpret_cast<const std::int8_t*>(bytes + 192), 16,
            to.scale + 16 * block);
}
HWY_INLINE void unpack_q6_k(const std::uint8_t* bytes, std::size_t count, Span& to) {
  for (std::size_t b = 0; b < count / 256; ++b, bytes += 210) {
    scales_of_q6_k(bytes, b, to);
    for (std::size_t half = 0; half < 2; ++half) {
      const std::uint8_t* low = bytes + 64 * half;
      std::int8_t* q = to.q + 256 * b + 128 * half;
      for (std::size_t i = 0; i < 32; i += kByteLanes) {
        const VU8 first = hn::LoadU(U8(), low + i);
        const VU8 second = hn::LoadU(U8(), low + 32 + i);
        const VU8 high = hn::LoadU(U8(), bytes + 128 + 32 * half + i);
        const auto upper = [](VU8 two) { return hn::ShiftLeft<4>(two); };
        store_less(hn::Or(low_nibbles(first), upper(pairs<0>(high))), 32, q + i);
        store_less(hn::Or(low_nibbles(second), upper(pairs<2>(high))), 32, q + 32 + i);
        store_less(hn::Or(high_nibbles(first), upper(pairs<4>(high))), 32, q + 64 + i);
        store_less(hn::Or(high_nibbles(second), upper(pairs<6>(high))), 32, q + 96 + i);
      }
    }
  }
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

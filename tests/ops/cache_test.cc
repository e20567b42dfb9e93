// SPDX-License-Identifier: Apache-2.0
// Rows in a cache: 8 bits with a scale, norms that bound what is stored, and rotation into the cache with the
// bits of rotate() and store().
#include <algorithm>
#include <limits>

#include "budgets.h"
#include "kernels/targets_and_memory.h"
#include "locant/ops.h"

namespace locant {
namespace {

constexpr DType kDTypes[] = {DType::f32, DType::f16, DType::bf16, DType::i8};

std::vector<float> numbers(std::int64_t n, std::uint64_t seed) {
  testing::Random random(seed);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& v : values) v = random.next();
  return values;
}

// A cache with the memory it needs.
struct Kept {
  CacheTensor tensor;
  std::vector<std::uint8_t> bytes;
  std::vector<float> scales, norms;

  Kept(DType dtype, std::int64_t heads, std::int64_t capacity, std::int64_t width)
      : bytes(static_cast<std::size_t>(heads * capacity * width) * size_of(dtype), 0x33),
        scales(static_cast<std::size_t>(heads * capacity), -1.0f),
        norms(static_cast<std::size_t>(heads * ((capacity + kNormSlots - 1) / kNormSlots)), -1.0f) {
    tensor = {.data = bytes.data(),
              .dtype = dtype,
              .heads = heads,
              .capacity = capacity,
              .width = width,
              .scales = dtype == DType::i8 ? scales.data() : nullptr,
              .norms = norms.data()};
  }
  [[nodiscard]] double at(std::int64_t head, std::int64_t slot, std::int64_t i) const {
    const auto row = static_cast<std::size_t>(head * tensor.capacity + slot);
    const std::size_t k = row * static_cast<std::size_t>(tensor.width) + static_cast<std::size_t>(i);
    switch (tensor.dtype) {
      case DType::f32:
        return testing::wide(reinterpret_cast<const float*>(bytes.data())[k]);
      case DType::f16:
        return testing::wide(reinterpret_cast<const Half*>(bytes.data())[k]);
      case DType::bf16:
        return testing::wide(reinterpret_cast<const BFloat16*>(bytes.data())[k]);
      default:
        return testing::wide(scales[row]) * static_cast<double>(static_cast<std::int8_t>(bytes[k]));
    }
  }
  [[nodiscard]] double norm(std::int64_t head, std::int64_t slot) const {
    double sum = 0;
    for (std::int64_t i = 0; i < tensor.width; ++i) sum += at(head, slot, i) * at(head, slot, i);
    return std::sqrt(sum);
  }
  [[nodiscard]] double entry(std::int64_t head, std::int64_t block) const {
    return testing::wide(
        norms[static_cast<std::size_t>(head * ((tensor.capacity + kNormSlots - 1) / kNormSlots) + block)]);
  }
};

bool operator==(const Kept& a, const Kept& b) {
  const auto same = [](const std::vector<float>& x, const std::vector<float>& y) {
    return std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
  };
  return a.bytes == b.bytes && same(a.scales, b.scales) && same(a.norms, b.norms);
}

class KeptRows : public ::testing::Test {
 protected:
  ThreadPool pool{1};
};

TEST_F(KeptRows, EightBitsWithAScale) {
  for (const std::int64_t width : {1, 7, 31, 64, 100, 128, 257}) {
    std::vector<float> x = numbers(6 * 2 * width, 3);
    for (std::int64_t i = 0; i < width; ++i) {
      x[static_cast<std::size_t>(2 * width + i)] *= 0x1p100F;
      x[static_cast<std::size_t>(3 * width + i)] *= 0x1p-110F;
      x[static_cast<std::size_t>(4 * width + i)] = 0;
      x[static_cast<std::size_t>(5 * width + i)] = 0x1p-120F;  // counts as zero
    }
    testing::on_every_target([&] {
      Kept kept(DType::i8, 2, 9, width);
      store({.x = {x.data(), {6, 2, width}}, .cache = kept.tensor, .first_slot = 3}, pool);
      for (std::int64_t t = 0; t < 6; ++t) {
        for (std::int64_t head = 0; head < 2; ++head) {
          const float* const row = x.data() + (t * 2 + head) * width;
          float most = 0;
          for (std::int64_t i = 0; i < width; ++i) most = std::max(most, std::abs(row[i]));
          const float scale = kept.scales[static_cast<std::size_t>(head * 9 + 3 + t)];
          if (most < 0x1p-119F) {
            ASSERT_EQ(scale, 0);
            continue;
          }
          ASSERT_EQ(scale, most / 127);
          for (std::int64_t i = 0; i < width; ++i) {
            const auto q = static_cast<std::int8_t>(
                kept.bytes[static_cast<std::size_t>((head * 9 + 3 + t) * width + i)]);
            ASSERT_EQ(static_cast<float>(q), std::nearbyint(row[i] * (127 / most))) << i;
            ASSERT_LE(std::abs(kept.at(head, 3 + t, i) - testing::wide(row[i])),
                      budgets::kStoreInt8 * testing::wide(most));
          }
        }
      }
      ASSERT_EQ(kept.scales[2], -1.0f);  // slots that were not written
      ASSERT_EQ(kept.bytes[static_cast<std::size_t>(3 * width - 1)], 0x33);
    });
  }
}

TEST_F(KeptRows, WhatIsNoNumberMakesItsRowNaN) {
  std::vector<float> x = numbers(3 * 40, 5);
  x[41] = std::numeric_limits<float>::infinity();
  x[119] = std::numeric_limits<float>::quiet_NaN();
  testing::on_every_target([&] {
    Kept kept(DType::i8, 1, 3, 40);
    store({.x = {x.data(), {3, 1, 40}}, .cache = kept.tensor}, pool);
    EXPECT_FALSE(std::isnan(kept.at(0, 0, 0)));
    for (const std::int64_t slot : {1, 2}) {
      for (std::int64_t i = 0; i < 40; ++i) ASSERT_TRUE(std::isnan(kept.at(0, slot, i)));
    }
    EXPECT_EQ(kept.norms[0], std::numeric_limits<float>::infinity());
  });
}

// Rows come one by one and in runs; an entry bounds every row of its slots and is near the largest.
TEST_F(KeptRows, NormsBoundWhatIsStored) {
  constexpr std::int64_t kHeads = 3;
  constexpr std::int64_t kCapacity = 210;
  for (const std::int64_t width : {1, 20, 128}) {
    std::vector<float> x = numbers(kCapacity * kHeads * width, 7);
    for (std::int64_t slot = 0; slot < kCapacity; ++slot) {
      for (std::int64_t i = 0; i < kHeads * width; ++i)
        x[static_cast<std::size_t>(slot * kHeads * width + i)] *= static_cast<float>(1 + slot * 29 % 17);
    }
    for (const DType dtype : kDTypes) {
      testing::on_every_target([&] {
        Kept kept(dtype, kHeads, kCapacity, width);
        for (std::int64_t slot = 0; slot < kCapacity;) {
          const std::int64_t count = std::min<std::int64_t>(slot < 5 ? 1 : 45, kCapacity - slot);
          store({.x = {x.data() + slot * kHeads * width, {count, kHeads, width}},
                 .cache = kept.tensor,
                 .first_slot = slot},
                pool);
          slot += count;
        }
        for (std::int64_t head = 0; head < kHeads; ++head) {
          for (std::int64_t block = 0; block * kNormSlots < kCapacity; ++block) {
            double most = 0;
            for (std::int64_t s = block * kNormSlots; s < std::min(kCapacity, (block + 1) * kNormSlots); ++s)
              most = std::max(most, kept.norm(head, s));
            ASSERT_GE(kept.entry(head, block), most);
            ASSERT_LE(kept.entry(head, block), most * (1 + budgets::kNormBound));
          }
        }
      });
    }
  }
}

TEST_F(KeptRows, TheFirstSlotOfABlockForgetsTheOld) {
  const std::vector<float> large(2 * 8, 100.0f);
  const std::vector<float> small(2 * 8, 1.0f);
  Kept kept(DType::f32, 1, 130, 8);
  const auto put = [&](const std::vector<float>& x, std::int64_t slot) {
    store({.x = {x.data(), {2, 1, 8}}, .cache = kept.tensor, .first_slot = slot}, pool);
  };
  put(large, 64);
  put(small, 66);
  EXPECT_GT(kept.entry(0, 1), 100);
  put(small, 64);
  EXPECT_LT(kept.entry(0, 1), 100);
  put(large, 127);  // the last of a block and the first of the next
  EXPECT_GT(kept.entry(0, 1), 100);
  EXPECT_GT(kept.entry(0, 2), 100);
  EXPECT_EQ(kept.norms[0], -1.0f);
}

TEST_F(KeptRows, TinyRowsHaveNormsAboveThem) {
  const std::vector<float> tiny(16, 1e-30f);  // squares vanish in f32
  testing::on_every_target([&] {
    Kept kept(DType::f32, 1, 4, 16);
    store({.x = {tiny.data(), {1, 1, 16}}, .cache = kept.tensor}, pool);
    ASSERT_GE(kept.entry(0, 0), kept.norm(0, 0));
    ASSERT_LT(kept.entry(0, 0), 1000 * kept.norm(0, 0) + 0x1p-60);
  });
}

// ---- rotation into the cache

struct Problem {
  std::int64_t tokens, heads, kv_heads, width, value_width, pairs, first;
  RotateShape shape;
};

struct Inputs {
  std::vector<float> q, k, v, cos, sin;
  explicit Inputs(const Problem& p)
      : q(numbers(p.tokens * p.heads * p.width, 1)),
        k(numbers(p.tokens * p.kv_heads * p.width, 2)),
        v(numbers(p.tokens * p.kv_heads * p.value_width, 3)),
        cos(numbers(p.tokens * p.pairs, 4)),
        sin(numbers(p.tokens * p.pairs, 5)) {}
};

struct Results {
  std::vector<float> q;
  Kept keys, values;
  Results(const Problem& p, DType dtype)
      : keys(dtype, p.kv_heads, p.first + p.tokens + 3, p.width),
        values(dtype, p.kv_heads, p.first + p.tokens + 1, p.value_width) {}
};

Results at_once(const Problem& p, const Inputs& in, DType dtype, ThreadPool& pool) {
  Results r(p, dtype);
  r.q = in.q;
  rotate_store({.q = {r.q.data(), {p.tokens, p.heads, p.width}},
                .k = {in.k.data(), {p.tokens, p.kv_heads, p.width}},
                .v = {in.v.data(), {p.tokens, p.kv_heads, p.value_width}},
                .cos = {in.cos.data(), {p.tokens, p.pairs}},
                .sin = {in.sin.data(), {p.tokens, p.pairs}},
                .shape = p.shape,
                .keys = r.keys.tensor,
                .values = r.values.tensor,
                .first_slot = p.first},
               pool);
  return r;
}

Results one_by_one(const Problem& p, const Inputs& in, DType dtype, ThreadPool& pool) {
  Results r(p, dtype);
  r.q = in.q;
  std::vector<float> k = in.k;
  const auto turn = [&](std::vector<float>& x, std::int64_t heads) {
    const View<float, 3> view(x.data(), {p.tokens, heads, p.width});
    rotate(RotateCall<float>{.x = view,
                             .cos = {in.cos.data(), {p.tokens, p.pairs}},
                             .sin = {in.sin.data(), {p.tokens, p.pairs}},
                             .shape = p.shape,
                             .out = view},
           pool);
  };
  turn(r.q, p.heads);
  turn(k, p.kv_heads);
  store({.x = {k.data(), {p.tokens, p.kv_heads, p.width}}, .cache = r.keys.tensor, .first_slot = p.first},
        pool);
  store({.x = {in.v.data(), {p.tokens, p.kv_heads, p.value_width}},
         .cache = r.values.tensor,
         .first_slot = p.first},
        pool);
  return r;
}

TEST_F(KeptRows, RotationIntoTheCacheHasTheBitsOfRotateAndStore) {
  ThreadPool two(2);
  ThreadPool three(3);
  constexpr auto kHalf = Pairing::half;
  constexpr auto kNeighbours = Pairing::interleaved;
  const Problem problems[] = {
      {1, 32, 8, 128, 128, 64, 0, {.read = kHalf, .write = kHalf}},
      {1, 32, 8, 128, 128, 64, 300, {.read = kNeighbours, .write = kNeighbours}},
      {3, 6, 2, 80, 96, 20, 61, {.read = kHalf, .write = kHalf, .offset = 13}},
      {5, 3, 3, 33, 7, 16, 2, {.read = kNeighbours, .write = kHalf, .offset = 1}},
      {4, 9, 3, 72, 64, 36, 63, {.read = kHalf, .write = kNeighbours, .direction = Direction::inverse}},
      {150, 15, 5, 64, 64, 32, 70, {.read = kHalf, .write = kHalf}},
      {140, 8, 4, 48, 40, 20, 9, {.read = kNeighbours, .write = kNeighbours, .offset = 4}},
      {2, 2, 1, 16, 16, 0, 1, {}},
  };
  for (const Problem& p : problems) {
    const Inputs in(p);
    for (const DType dtype : kDTypes) {
      SCOPED_TRACE(::testing::Message()
                   << p.tokens << " tokens, width " << p.width << ", " << name_of(dtype));
      testing::on_every_target([&] {
        const Results expected = one_by_one(p, in, dtype, pool);
        for (ThreadPool* threads : {&pool, &two, &three}) {
          const Results got = at_once(p, in, dtype, *threads);
          ASSERT_EQ(got.q, expected.q);
          ASSERT_TRUE(got.keys == expected.keys);
          ASSERT_TRUE(got.values == expected.values);
        }
      });
    }
  }
}

// q, k and v are slices of one row-major matrix.
TEST_F(KeptRows, RotationOutOfAFusedMatrix) {
  constexpr std::int64_t kRow = 4 * 16 + 2 * 16 + 2 * 16;
  const Problem p{3, 4, 2, 16, 16, 8, 0, {}};
  Inputs in(p);
  std::vector<float> qkv(3 * kRow);
  for (std::int64_t t = 0; t < 3; ++t) {
    const auto row = qkv.begin() + t * kRow;
    std::copy_n(in.q.begin() + t * 64, 64, row);
    std::copy_n(in.k.begin() + t * 32, 32, row + 64);
    std::copy_n(in.v.begin() + t * 32, 32, row + 96);
  }
  const Results expected = one_by_one(p, in, DType::f16, pool);
  Results got(p, DType::f16);
  rotate_store({.q = {qkv.data(), {3, 4, 16}, {kRow, 16, 1}},
                .k = {qkv.data() + 64, {3, 2, 16}, {kRow, 16, 1}},
                .v = {qkv.data() + 96, {3, 2, 16}, {kRow, 16, 1}},
                .cos = {in.cos.data(), {3, 8}},
                .sin = {in.sin.data(), {3, 8}},
                .keys = got.keys.tensor,
                .values = got.values.tensor},
               pool);
  EXPECT_TRUE(got.keys == expected.keys);
  EXPECT_TRUE(got.values == expected.values);
  for (std::int64_t t = 0; t < 3; ++t) {
    EXPECT_TRUE(std::equal(qkv.begin() + t * kRow, qkv.begin() + t * kRow + 64, expected.q.begin() + t * 64));
    EXPECT_TRUE(std::equal(qkv.begin() + t * kRow + 64, qkv.begin() + t * kRow + 96, in.k.begin() + t * 32));
  }
}

}  // namespace
}  // namespace locant

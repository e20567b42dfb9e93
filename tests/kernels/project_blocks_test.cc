// SPDX-License-Identifier: Apache-2.0
// Products with blocks on every instruction set: f32 has the bits of project() on the dequantized weight;
// int8 stays within its bound of the exact product, and next to whole numbers summed in double.
#include <bit>

#include "budgets.h"
#include "kernels/block_rows.h"
#include "kernels/project.h"

namespace locant {
namespace {

using testing::block_types;
using testing::Guarded;

struct Case {
  std::int64_t tokens, rows, blocks;
};
constexpr Case kCases[] = {{1, 1, 1},  {1, 7, 5},  {2, 4, 2},  {3, 9, 3},
                           {5, 64, 1}, {16, 3, 4}, {17, 6, 2}, {64, 5, 1}};

// A weight of random blocks with a gap of one block between rows, its values, and x.
struct Operands {
  std::int64_t tokens, rows, columns, x_stride, weight_stride;
  GgmlType type;
  testing::Exact<float> x;
  testing::Exact<std::uint8_t> weight;
  std::vector<float> values;  // [rows, weight_stride]
  std::vector<float> bias;

  Operands(GgmlType type_, const Case& c, std::int64_t columns_, std::uint64_t seed)
      : tokens(c.tokens),
        rows(c.rows),
        columns(columns_),
        x_stride(columns_ + 3),
        weight_stride(columns_ + block_elements(type_)),
        type(type_),
        x(static_cast<std::size_t>((tokens - 1) * x_stride + columns)),
        weight(static_cast<std::size_t>(testing::bytes_of(type_, (rows - 1) * weight_stride + columns)), 1),
        values(static_cast<std::size_t>((rows - 1) * weight_stride + columns)),
        bias(static_cast<std::size_t>(rows)) {
    testing::Random random(seed);
    random.fill(x, static_cast<std::size_t>((tokens - 1) * x_stride + columns), testing::kSpreads[seed % 3]);
    testing::fill_blocks(random, type, (rows - 1) * weight_stride + columns, weight.data());
    dequantize(type, weight.data(), (rows - 1) * weight_stride + columns, values.data());
    for (float& b : bias) b = random.next();
  }
  [[nodiscard]] kernels::ProjectBlock block(float* out, std::int64_t out_stride) {
    return {.x = x.data(),
            .x_stride = x_stride,
            .weight = weight.data(),
            .type = type,
            .weight_stride = weight_stride,
            .tokens = tokens,
            .rows = rows,
            .columns = columns,
            .bias = bias.data(),
            .scale = 0.75F,
            .out = out,
            .out_stride = out_stride};
  }
  [[nodiscard]] float x_at(std::int64_t t, std::int64_t k) const {
    return x.get(static_cast<std::size_t>(t * x_stride + k));
  }
  [[nodiscard]] float w_at(std::int64_t n, std::int64_t k) const {
    return values[static_cast<std::size_t>(n * weight_stride + k)];
  }
};

template <class Body>
void each_case(Body body) {
  for (const GgmlType type : block_types()) {
    SCOPED_TRACE(std::string(name_of(type)));
    std::uint64_t seed = 0;
    for (const Case& c : kCases) {
      SCOPED_TRACE(::testing::Message()
                   << c.tokens << " tokens, " << c.rows << " rows, " << c.blocks << " blocks");
      body(Operands(type, c, c.blocks * block_elements(type), ++seed));
    }
    // past a span of columns
    body(Operands(type, {3, 6, 0}, 1024 + block_elements(type), 40));
    body(Operands(type, {1, 5, 0}, 4096, 41));
  }
}

TEST(ProjectBlocks, HaveTheBitsOfTheDequantizedWeight) {
  each_case([](Operands a) {
    const std::int64_t stride = a.rows + 2;
    const auto size = static_cast<std::size_t>((a.tokens - 1) * stride + a.rows);
    testing::on_every_target([&] {
      Guarded<float> expected(size);
      Guarded<float> got(size);
      for (std::size_t i = 0; i < size; ++i) expected.set(i, 0.5F);
      for (std::size_t i = 0; i < size; ++i) got.set(i, 0.5F);
      kernels::ProjectBlock plain = a.block(expected.data(), stride);
      plain.weight = a.values.data();
      plain.dtype = DType::f32;
      plain.added = expected.data();
      kernels::project(plain);
      kernels::ProjectBlock block = a.block(got.data(), stride);
      block.added = got.data();
      kernels::project_blocks(block);
      got.check();
      for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(got.get(i), expected.get(i)) << i;
    });
  });
}

// x as the kernels round it, in double, and the same sums over whole groups.
struct Rounding {
  double sum = 0;    // of the rounded x
  double exact = 0;  // of x itself
  double bound = 0;  // sum over groups of max |x| sum |w|
  double size = 0;   // what f32 sums round, 32 times a group's largest |w| for the sum of |scale q| + |minus|
};
Rounding rounding_of(const Operands& a, std::int64_t t, std::int64_t n) {
  Rounding r;
  for (std::int64_t g = 0; g < a.columns; g += 32) {
    float most = 0;
    for (std::int64_t k = g; k < g + 32; ++k) most = std::max(most, std::abs(a.x_at(t, k)));
    double weights = 0;
    double largest = 0;
    for (std::int64_t k = g; k < g + 32; ++k) {
      const float inverse = 127 / most;
      const double q = std::nearbyint(testing::wide(a.x_at(t, k) * inverse));
      const double w = testing::wide(a.w_at(n, k));
      r.sum += testing::wide(most / 127) * q * w;
      r.exact += testing::wide(a.x_at(t, k)) * w;
      weights += std::abs(w);
      largest = std::max(largest, std::abs(w));
    }
    r.bound += testing::wide(most) * weights;
    // range
    r.size += testing::wide(most) * 32 * largest;
  }
  return r;
}

TEST(ProjectInt8, StaysWithinItsBound) {
  double worst = 0;
  each_case([&](Operands a) {
    const std::int64_t stride = a.rows + 2;
    const auto size = static_cast<std::size_t>((a.tokens - 1) * stride + a.rows);
    testing::on_every_target([&] {
      Guarded<float> out(size);
      kernels::project_int8(a.block(out.data(), stride));
      out.check();
      for (std::int64_t t = 0; t < a.tokens; ++t) {
        for (std::int64_t n = 0; n < a.rows; ++n) {
          const double bias = testing::wide(a.bias[static_cast<std::size_t>(n)]);
          const double got = (testing::wide(out.get(static_cast<std::size_t>(t * stride + n))) - bias) / 0.75;
          const Rounding r = rounding_of(a, t, n);
          const double rest = budgets::kProject * (r.size + std::abs(bias));
          ASSERT_LE(std::abs(got - r.sum), rest) << "token " << t << " row " << n;
          ASSERT_LE(std::abs(got - r.exact), budgets::kProjectInt8 * r.bound + rest) << t << "," << n;
          worst = std::max(worst, std::abs(got - r.exact) / r.bound);
        }
      }
    });
  });
  RecordProperty("worst_share_of_bound", std::to_string(worst / budgets::kProjectInt8));
  EXPECT_GT(worst, 0);
}

// Whole x up to 127 with the factor 1, and groups of zeros: the product is exact where f32 can hold it.
TEST(ProjectInt8, IsExactOnWholeNumbersAndZeros) {
  for (const GgmlType type : block_types()) {
    SCOPED_TRACE(std::string(name_of(type)));
    Operands a(type, {5, 6, 0}, 512, 7);
    testing::Random random(8);
    for (std::int64_t block = 0;
         block < static_cast<std::int64_t>(a.weight_stride * a.rows) / block_elements(type); ++block) {
      std::uint8_t* bytes = a.weight.data() + block * block_bytes(type);
      if ((block + 1) * block_elements(type) > (a.rows - 1) * a.weight_stride + a.columns) break;
      for (const std::int64_t at : testing::halves_of(type)) {
        const Half one = half_from_f32(at == 0 ? 1.0F : 2.0F);
        std::memcpy(bytes + at, &one.bits, sizeof(one.bits));
      }
      if (type == GgmlType::mxfp4) bytes[0] = 128;
    }
    dequantize(type, a.weight.data(), (a.rows - 1) * a.weight_stride + a.columns, a.values.data());
    for (std::int64_t t = 0; t < a.tokens; ++t) {
      for (std::int64_t k = 0; k < a.columns; ++k) {
        float value = k % 32 == 5 ? -127.0F : static_cast<float>(random.below(255) - 127);
        if (t == 1 || (t == 2 && k / 32 % 2 == 0)) value = 0;
        if (t == 4) value = 127;  // with weights of one sign: the largest sums of 8-bit products
        a.x.set(static_cast<std::size_t>(t * a.x_stride + k), value);
      }
    }
    int exact = 0;
    testing::on_every_target([&] {
      std::vector<float> out(static_cast<std::size_t>(a.tokens * a.rows));
      kernels::ProjectBlock block = a.block(out.data(), a.rows);
      block.bias = nullptr;
      block.scale = 1;
      kernels::project_int8(block);
      for (std::int64_t t = 0; t < a.tokens; ++t) {
        for (std::int64_t n = 0; n < a.rows; ++n) {
          double sum = 0;
          for (std::int64_t k = 0; k < a.columns; ++k)
            sum += testing::wide(a.x_at(t, k)) * testing::wide(a.w_at(n, k));
          const auto got = out[static_cast<std::size_t>(t * a.rows + n)];
          if (t == 1) {
            ASSERT_EQ(got, 0.0F);
          }
          if (std::abs(sum) < 0x1p20) {
            ASSERT_EQ(testing::wide(got), sum) << t << "," << n;
            ++exact;
          }
        }
      }
    });
    EXPECT_GT(exact, 12);
  }
}

// Q8_0 at its ends: 127 * -128 in every place, which 16-bit sums could not hold.
TEST(ProjectInt8, DoesNotSaturate) {
  Operands a(GgmlType::q8_0, {2, 4, 0}, 64, 3);
  const Half one = half_from_f32(1);
  for (std::int64_t block = 0; block < 4 * 3 - 1; ++block) {
    std::memcpy(a.weight.data() + block * 34, &one.bits, 2);
    std::memset(a.weight.data() + block * 34 + 2, 0x80, 32);
  }
  for (std::int64_t k = 0; k < 64; ++k) {
    a.x.set(static_cast<std::size_t>(k), 127);
    a.x.set(static_cast<std::size_t>(a.x_stride + k), -127);
  }
  testing::on_every_target([&] {
    std::vector<float> out(8);
    kernels::ProjectBlock block = a.block(out.data(), 4);
    block.bias = nullptr;
    block.scale = 1;
    kernels::project_int8(block);
    for (std::size_t i = 0; i < 8; ++i) ASSERT_EQ(out[i], (i < 4 ? -1.0F : 1.0F) * 64 * 127 * 128);
  });
}

// Every type at its ends, where sums of 16-bit pairs would leave their range first.
TEST(ProjectInt8, HoldsTheLargestSumsOfEveryType) {
  for (const GgmlType type : block_types()) {
    SCOPED_TRACE(std::string(name_of(type)));
    for (const int fill : {0x00, 0xFF, 0x7F, 0x80, 0x88, 0x0F, 0xF0}) {
      Operands a(type, {6, 5, 0}, 512, 11);
      const std::int64_t elements = (a.rows - 1) * a.weight_stride + a.columns;
      std::memset(a.weight.data(), fill, static_cast<std::size_t>(testing::bytes_of(type, elements)));
      for (std::int64_t block = 0; block < elements / block_elements(type); ++block) {
        std::uint8_t* bytes = a.weight.data() + block * block_bytes(type);
        const Half one = half_from_f32(1);
        for (const std::int64_t at : testing::halves_of(type))
          std::memcpy(bytes + at, &one.bits, sizeof(one.bits));
        if (type == GgmlType::mxfp4) bytes[0] = 128;
      }
      dequantize(type, a.weight.data(), elements, a.values.data());
      for (std::int64_t t = 0; t < a.tokens; ++t) {
        for (std::int64_t k = 0; k < a.columns; ++k) {
          const bool negative = t % 2 == 1 || (t == 4 && k % 2 == 1);
          a.x.set(static_cast<std::size_t>(t * a.x_stride + k), negative ? -127.0F : 127.0F);
        }
      }
      testing::on_every_target([&] {
        std::vector<float> out(static_cast<std::size_t>(a.tokens * a.rows));
        kernels::ProjectBlock block = a.block(out.data(), a.rows);
        block.bias = nullptr;
        block.scale = 1;
        kernels::project_int8(block);
        for (std::int64_t t = 0; t < a.tokens; ++t) {
          for (std::int64_t n = 0; n < a.rows; ++n) {
            const Rounding r = rounding_of(a, t, n);
            ASSERT_LE(std::abs(testing::wide(out[static_cast<std::size_t>(t * a.rows + n)]) - r.sum),
                      budgets::kProject * (r.size + 127.0 * static_cast<double>(a.columns)))
                << fill << ": token " << t << " row " << n;
          }
        }
      });
    }
  }
}

// More rows than a panel and more columns than are rounded at once, for few and for many tokens.
TEST(ProjectInt8, ManyRowsAndColumnsHaveTheBitsOfTheirParts) {
  for (const GgmlType type : {GgmlType::q4_0, GgmlType::q8_0, GgmlType::q6_k, GgmlType::q5_0}) {
    SCOPED_TRACE(std::string(name_of(type)));
    Operands a(type, {33, 201, 0}, 2048, 5);
    testing::on_every_target([&] {
      std::vector<float> whole(static_cast<std::size_t>(a.tokens * a.rows));
      kernels::project_int8(a.block(whole.data(), a.rows));
      for (std::int64_t n = 0; n < a.rows; n += 40) {
        const std::int64_t rows = std::min(std::int64_t{3}, a.rows - n);
        for (std::int64_t t = 0; t < a.tokens; t += 8) {
          std::vector<float> part(static_cast<std::size_t>(rows));
          kernels::ProjectBlock block = a.block(part.data(), rows);
          block.x += t * a.x_stride;
          block.weight = a.weight.data() + testing::bytes_of(type, n * a.weight_stride);
          block.bias += n;
          block.tokens = 1;
          block.rows = rows;
          kernels::project_int8(block);
          for (std::int64_t i = 0; i < rows; ++i)
            ASSERT_EQ(part[static_cast<std::size_t>(i)], whole[static_cast<std::size_t>(t * a.rows + n + i)])
                << t;
        }
      }
    });
  }
}

TEST(ProjectInt8, WhatIsNotFiniteMakesItsTokenNan) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Operands a(GgmlType::q4_1, {3, 5, 0}, 96, 9);
    a.x.set(static_cast<std::size_t>(a.x_stride + 40), bad);
    // A group of the least numbers there are counts as zero.
    for (std::int64_t k = 0; k < 32; ++k) a.x.set(static_cast<std::size_t>(k), 1e-40F);
    testing::on_every_target([&] {
      std::vector<float> out(15);
      kernels::project_int8(a.block(out.data(), 5));
      for (std::size_t i = 0; i < 15; ++i) ASSERT_EQ(std::isnan(out[i]), i / 5 == 1) << i;
    });
  }
}

// Any cut into tokens and rows gives an element the same bits.
TEST(ProjectBlocks, PromptAndTokenByTokenHaveTheSameBits) {
  for (const GgmlType type : block_types()) {
    SCOPED_TRACE(std::string(name_of(type)));
    Operands a(type, {23, 11, 0}, 1536, 3);
    for (const auto kernel : {kernels::project_blocks, kernels::project_int8}) {
      testing::on_every_target([&] {
        const auto product = [&](std::int64_t t, std::int64_t tokens, std::int64_t n, std::int64_t rows) {
          std::vector<float> out(static_cast<std::size_t>(tokens * rows));
          kernels::ProjectBlock block = a.block(out.data(), rows);
          block.x += t * a.x_stride;
          block.weight = a.weight.data() + testing::bytes_of(type, n * a.weight_stride);
          block.tokens = tokens;
          block.rows = rows;
          block.bias = nullptr;
          kernel(block);
          return out;
        };
        const std::vector<float> whole = product(0, a.tokens, 0, a.rows);
        for (std::int64_t t = 0; t < a.tokens; ++t) {
          const std::vector<float> token = product(t, 1, 0, a.rows);
          for (std::int64_t n = 0; n < a.rows; ++n)
            ASSERT_EQ(token[static_cast<std::size_t>(n)], whole[static_cast<std::size_t>(t * a.rows + n)]);
          ASSERT_EQ(product(t, 1, 6, 2)[1], whole[static_cast<std::size_t>(t * a.rows + 7)]);
        }
      });
    }
  }
}

}  // namespace
}  // namespace locant

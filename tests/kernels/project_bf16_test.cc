// SPDX-License-Identifier: Apache-2.0
// Products of x rounded to bf16 with a weight of bf16, on every instruction set: the exact sum of the rounded
// x, the bound against x itself, bits that follow from a row alone, and the ends of the range.
#include <limits>

#include "budgets.h"
#include "kernels/project.h"
#include "kernels/targets_and_memory.h"

namespace locant {
namespace {

using testing::Exact;
using testing::Guarded;
using testing::Spread;
using testing::wide;

struct Operands {
  std::int64_t tokens, rows, columns, x_stride, w_stride;
  Exact<float> x;
  Exact<BFloat16> w;

  Operands(std::int64_t tokens_, std::int64_t rows_, std::int64_t columns_, Spread spread)
      : tokens(tokens_),
        rows(rows_),
        columns(columns_),
        x_stride(columns + 3),
        w_stride(columns + 1),
        x(static_cast<std::size_t>((tokens - 1) * x_stride + columns)),
        w(static_cast<std::size_t>((rows - 1) * w_stride + columns), 1) {
    testing::Random random(static_cast<std::uint64_t>(columns * 3 + rows));
    random.fill(x, static_cast<std::size_t>((tokens - 1) * x_stride + columns), spread);
    random.fill(w, static_cast<std::size_t>((rows - 1) * w_stride + columns));
  }
  [[nodiscard]] float x_at(std::int64_t t, std::int64_t k) const {
    return x.get(static_cast<std::size_t>(t * x_stride + k));
  }
  [[nodiscard]] double w_at(std::int64_t n, std::int64_t k) const {
    return wide(w.get(static_cast<std::size_t>(n * w_stride + k)));
  }
  [[nodiscard]] std::vector<float> product(std::int64_t t, std::int64_t some, std::int64_t n,
                                           std::int64_t live) {
    Guarded<float> out(static_cast<std::size_t>(some * live));
    kernels::project_bf16({.x = x.data() + t * x_stride,
                           .x_stride = x_stride,
                           .weight = w.data() + n * w_stride,
                           .dtype = DType::bf16,
                           .weight_stride = w_stride,
                           .tokens = some,
                           .rows = live,
                           .columns = columns,
                           .out = out.data(),
                           .out_stride = live});
    out.check();
    std::vector<float> values(static_cast<std::size_t>(some * live));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = out.get(i);
    return values;
  }
};

void run(Operands a) {
  SCOPED_TRACE(::testing::Message() << a.tokens << " tokens, " << a.rows << " rows, " << a.columns);
  testing::on_every_target([&] {
    const std::vector<float> out = a.product(0, a.tokens, 0, a.rows);
    for (std::int64_t t = 0; t < a.tokens; ++t) {
      for (std::int64_t n = 0; n < a.rows; ++n) {
        double exact = 0, rounded = 0, size = 0;
        for (std::int64_t k = 0; k < a.columns; ++k) {
          const double w = a.w_at(n, k);
          exact += wide(a.x_at(t, k)) * w;
          rounded += wide(bfloat16_from_f32(a.x_at(t, k))) * w;
          size += std::abs(wide(a.x_at(t, k)) * w);
        }
        const double got = wide(out[static_cast<std::size_t>(t * a.rows + n)]);
        ASSERT_LE(std::abs(got - rounded), budgets::kProject * (1 + budgets::kProjectBf16) * size)
            << t << "," << n;
        ASSERT_LE(std::abs(got - exact), budgets::kProjectBf16 * size) << t << "," << n;
      }
    }
  });
}

TEST(ProjectBf16, IsTheSumOfRoundedX) {
  for (std::int64_t columns = 1; columns <= 4 * testing::kMaxLanes + 1; ++columns) {
    run({1 + columns % 7, 1 + columns % 9, columns, testing::kSpreads[columns % 3]});
  }
  for (const std::int64_t tokens : {1, 2, 3, 4, 5, 6, 7, 12, 13, 64}) run({tokens, 13, 96, Spread::normal});
  run({2, 5, 12001, Spread::normal});
  run({1, 20, 576, Spread::uneven});
  run({14, 70, 2051, Spread::normal});
}

TEST(ProjectBf16, PromptAndTokenByTokenHaveTheSameBits) {
  Operands a(29, 41, 4389, Spread::normal);
  testing::on_every_target([&] {
    const std::vector<float> whole = a.product(0, a.tokens, 0, a.rows);
    for (std::int64_t t = 0; t < a.tokens; ++t) {
      const std::vector<float> token = a.product(t, 1, 0, a.rows);
      for (std::int64_t n = 0; n < a.rows; ++n)
        ASSERT_EQ(token[static_cast<std::size_t>(n)], whole[static_cast<std::size_t>(t * a.rows + n)]);
    }
    ASSERT_EQ(a.product(3, 14, 2, 38)[2 * 38 + 5], whole[static_cast<std::size_t>(5 * a.rows + 7)]);
  });
}

TEST(ProjectBf16, WhatIsNotFiniteStaysVisible) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Operands a(3, 5, 70, Spread::normal);
    a.x.set(static_cast<std::size_t>(a.x_stride + 40), bad);
    testing::on_every_target([&] {
      const std::vector<float> out = a.product(0, 3, 0, 5);
      for (std::size_t i = 0; i < 15; ++i) ASSERT_EQ(std::isfinite(out[i]), i / 5 != 1) << i;
    });
  }
}

// What is too small for a normal number may count as zero: the least x times 1 is lost or kept, never wrong
// by more.
TEST(ProjectBf16, TheLeastNumbersAreLostAtMost) {
  Operands a(2, 3, 64, Spread::normal);
  constexpr float kLeast = 0x1p-127F;
  for (std::int64_t t = 0; t < 2; ++t) {
    for (std::int64_t k = 0; k < 64; ++k) a.x.set(static_cast<std::size_t>(t * a.x_stride + k), kLeast);
  }
  for (std::int64_t n = 0; n < 3; ++n) {
    for (std::int64_t k = 0; k < 64; ++k)
      a.w.set(static_cast<std::size_t>(n * a.w_stride + k), bfloat16_from_f32(1));
  }
  testing::on_every_target([&] {
    for (const float y : a.product(0, 2, 0, 3)) ASSERT_TRUE(y == 0 || y == 64 * kLeast) << y;
  });
}

}  // namespace
}  // namespace locant

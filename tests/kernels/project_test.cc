// SPDX-License-Identifier: Apache-2.0
// Every instruction set x weight dtype x shape against the double reference, and bits that follow from a row
// alone.
#include "kernels/project.h"

#include "budgets.h"
#include "kernels/targets_and_memory.h"

namespace locant {
namespace {

using testing::Exact;
using testing::Guarded;
using testing::Spread;

struct Case {
  std::int64_t tokens, rows, columns;
  Spread spread;
  bool bias, add;
};

template <class T>
void run(const Case& c) {
  SCOPED_TRACE(::testing::Message() << c.tokens << " tokens, " << c.rows << " rows, " << c.columns
                                    << " columns");
  testing::Random random(static_cast<std::uint64_t>(c.columns * 7 + c.rows));
  const std::int64_t x_stride = c.columns + 3;
  const std::int64_t w_stride = c.columns + 1;
  const std::int64_t out_stride = c.rows + 2;
  const auto x_size = static_cast<std::size_t>((c.tokens - 1) * x_stride + c.columns);
  const auto w_size = static_cast<std::size_t>((c.rows - 1) * w_stride + c.columns);
  const auto out_size = static_cast<std::size_t>((c.tokens - 1) * out_stride + c.rows);
  Exact<float> x(x_size);
  Exact<T> w(w_size, 1);  // a weight in a file begins at any byte
  Exact<float> bias(static_cast<std::size_t>(c.rows));
  random.fill(x, x_size, c.spread);
  random.fill(w, w_size, c.spread == Spread::uneven ? Spread::uneven : Spread::normal);
  random.fill(bias, static_cast<std::size_t>(c.rows));
  const float scale = c.bias ? 0.75f : 1.0f;
  testing::on_every_target([&] {
    Guarded<float> out(out_size);
    for (std::size_t i = 0; i < out_size; ++i) out.set(i, 0.5f);
    kernels::project({.x = x.data(),
                      .x_stride = x_stride,
                      .weight = w.data(),
                      .dtype = DTypeOf<T>::value,
                      .weight_stride = w_stride,
                      .tokens = c.tokens,
                      .rows = c.rows,
                      .columns = c.columns,
                      .bias = c.bias ? bias.data() : nullptr,
                      .scale = scale,
                      .added = c.add ? out.data() : nullptr,
                      .out = out.data(),
                      .out_stride = out_stride});
    out.check();
    for (std::int64_t t = 0; t < c.tokens; ++t) {
      for (std::int64_t n = 0; n < out_stride; ++n) {
        const auto at = static_cast<std::size_t>(t * out_stride + n);
        if (at >= out_size) continue;
        const double got = testing::wide(out.get(at));
        if (n >= c.rows) {
          ASSERT_EQ(got, 0.5);  // between rows nothing is written
          continue;
        }
        double sum = 0;
        double size = 0;
        for (std::int64_t k = 0; k < c.columns; ++k) {
          const double product = testing::wide(x.get(static_cast<std::size_t>(t * x_stride + k))) *
                                 testing::wide(w.get(static_cast<std::size_t>(n * w_stride + k)));
          sum += product;
          size += std::abs(product);
        }
        double expected = testing::wide(scale) * sum;
        if (c.bias) expected += testing::wide(bias.get(static_cast<std::size_t>(n)));
        if (c.bias) size += std::abs(testing::wide(bias.get(static_cast<std::size_t>(n))));
        if (c.add) expected += 0.5;
        if (c.add) size += 0.5;
        ASSERT_LE(std::abs(got - expected), budgets::kProject * size) << "token " << t << " row " << n;
      }
    }
  });
}

template <class T>
void run_all() {
  for (std::int64_t columns = 1; columns <= 2 * testing::kMaxLanes + 1; ++columns) {
    run<T>({1 + columns % 7, 1 + columns % 9, columns, testing::kSpreads[columns % 3], columns % 2 == 0,
            columns % 5 == 0});
  }
  for (const std::int64_t tokens : {1, 2, 3, 4, 5, 9, 64}) {
    for (const std::int64_t rows : {1, 4, 8, 13}) run<T>({tokens, rows, 80, Spread::normal, true, false});
  }
  for (const std::int64_t tokens : {6, 7, 12, 13, 17, 31})
    run<T>({tokens, 37, 100, Spread::normal, false, true});
  run<T>({1, 20, 576, Spread::uneven, false, false});
  run<T>({2, 5, 12001, Spread::normal, false, false});
  run<T>({14, 70, 2050, Spread::normal, true, false});
  run<T>({3, 256, 33, Spread::normal, true, false});
  run<T>({6, 9, 1025, Spread::normal, true, true});
  run<T>({5, 6, 4103, Spread::large, false, false});
  run<T>({1, 3, 8192, Spread::normal, false, false});
}

TEST(ProjectKernel, F32) {
  run_all<float>();
}
TEST(ProjectKernel, F16) {
  run_all<Half>();
}
TEST(ProjectKernel, Bf16) {
  run_all<BFloat16>();
}

template <class T>
void same_bits() {
  constexpr std::int64_t kTokens = 29;
  constexpr std::int64_t kRows = 41;
  constexpr std::int64_t kColumns = 2381;
  testing::Random random(3);
  Exact<float> x(kTokens * kColumns);
  Exact<T> w(kRows * kColumns);
  random.fill(x, kTokens * kColumns);
  random.fill(w, kRows * kColumns);
  testing::on_every_target([&] {
    const auto product = [&](std::int64_t t, std::int64_t tokens, std::int64_t n, std::int64_t rows) {
      std::vector<float> out(static_cast<std::size_t>(tokens * rows));
      kernels::project({.x = x.data() + t * kColumns,
                        .x_stride = kColumns,
                        .weight = w.data() + n * kColumns,
                        .dtype = DTypeOf<T>::value,
                        .weight_stride = kColumns,
                        .tokens = tokens,
                        .rows = rows,
                        .columns = kColumns,
                        .out = out.data(),
                        .out_stride = rows});
      return out;
    };
    const std::vector<float> whole = product(0, kTokens, 0, kRows);
    for (std::int64_t t = 0; t < kTokens; ++t) {
      const std::vector<float> token = product(t, 1, 0, kRows);
      for (std::int64_t n = 0; n < kRows; ++n) {
        const float expected = whole[static_cast<std::size_t>(t * kRows + n)];
        ASSERT_EQ(token[static_cast<std::size_t>(n)], expected) << t << "," << n;
        if ((t + n) % 7 != 0) continue;
        ASSERT_EQ(product(t, 1, n, 1)[0], expected) << t << "," << n;
      }
    }
    ASSERT_EQ(product(4, 2, 3, 5)[6], whole[5 * kRows + 4]);
    ASSERT_EQ(product(3, 14, 2, 38)[2 * 38 + 5], whole[5 * kRows + 7]);
  });
}

TEST(ProjectKernel, PromptAndTokenByTokenHaveTheSameBits) {
  same_bits<float>();
  same_bits<Half>();
  same_bits<BFloat16>();
}

}  // namespace
}  // namespace locant

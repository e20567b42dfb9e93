// SPDX-License-Identifier: Apache-2.0
// Passes over logits on every instruction set: sizes, NaN and infinities at every place.
#include "kernels/scan.h"

#include <limits>

#include "budgets.h"
#include "kernels/targets_and_memory.h"

namespace locant {
namespace {

using testing::Exact;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(ScanKernel, EverySize) {
  testing::Random random(6);
  for (std::size_t n = 0; n <= 2 * static_cast<std::size_t>(testing::kMaxLanes) + 1; ++n) {
    Exact<float> x(n);
    random.fill(x, n);
    const auto count = static_cast<std::int64_t>(n);
    float top = -kInf;
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) {
      top = std::max(top, x.get(i));
      sum += std::exp(testing::wide(x.get(i)) - 0.5);
    }
    testing::on_every_target([&] {
      ASSERT_EQ(kernels::maximum(x.data(), count), top);
      ASSERT_NEAR(kernels::sum_exp(x.data(), count, 0.5f), sum, budgets::kLogSumExp * sum);
      for (std::size_t from = 0; from <= n; ++from) {
        std::size_t expected = from;
        while (expected < n && !(x.get(expected) > 0.7f)) ++expected;
        ASSERT_EQ(kernels::first_above(x.data(), count, static_cast<std::int64_t>(from), 0.7f),
                  static_cast<std::int64_t>(expected));
      }
    });
  }
}

TEST(ScanKernel, NanIsNoMaximumAndSpoilsTheSum) {
  for (std::size_t at = 0; at < 37; ++at) {
    std::vector<float> x(37, 1.0f);
    x[(at + 5) % 37] = 2.0f;
    x[at] = kNan;
    testing::on_every_target([&] {
      ASSERT_EQ(kernels::maximum(x.data(), 37), 2.0f);
      ASSERT_TRUE(std::isnan(kernels::sum_exp(x.data(), 37, 2.0f)));
      ASSERT_EQ(kernels::first_above(x.data(), 37, 0, 1.5f), static_cast<std::int64_t>((at + 5) % 37));
    });
  }
}

template <class T>
void finds(T finite, const std::vector<T>& others) {
  for (std::size_t n = 1; n <= 70; ++n) {
    Exact<T> x(n, 1);
    for (std::size_t i = 0; i < n; ++i) x.set(i, finite);
    const auto count = static_cast<std::int64_t>(n);
    testing::on_every_target(
        [&] { ASSERT_EQ(kernels::first_non_finite(x.data(), DTypeOf<T>::value, count), count); });
    for (std::size_t at = 0; at < n; at += 1 + n / 9) {
      for (const T& other : others) {
        x.set(at, other);
        if (at + 1 < n) x.set(n - 1, other);
        testing::on_every_target([&] {
          ASSERT_EQ(kernels::first_non_finite(x.data(), DTypeOf<T>::value, count),
                    static_cast<std::int64_t>(at));
        });
      }
      x.set(at, finite);
      x.set(n - 1, finite);
    }
  }
}
TEST(ScanKernel, FirstNonFinite) {
  finds<double>(-1e308, {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
                         std::numeric_limits<double>::quiet_NaN()});
  finds<float>(3e38f, {kInf, -kInf, kNan});
  finds<Half>({0x7BFF}, {{0x7C00}, {0xFC00}, {0x7E01}});
  finds<BFloat16>({0x7F7F}, {{0x7F80}, {0xFF80}, {0xFFC0}});
}

}  // namespace
}  // namespace locant

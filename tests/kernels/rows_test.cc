// SPDX-License-Identifier: Apache-2.0
// Rows of every dtype on every instruction set: all 65,536 patterns, rounding to nearest even, tails,
// unaligned rows.
#include "kernels/rows.h"

#include <array>
#include <bit>
#include <limits>

#include "budgets.h"
#include "kernels/targets_and_memory.h"

namespace locant {
namespace {

using testing::Exact;
using testing::Guarded;

// One row, read as a lookup of id 0.
void read_row(const void* row, DType dtype, std::int64_t count, float scale, float* out) {
  const std::int64_t id = 0;
  kernels::read_rows({.table = static_cast<const std::byte*>(row),
                      .ids = &id,
                      .tokens = 1,
                      .ids_left = 1,
                      .width = count,
                      .scale = scale,
                      .out = out},
                     dtype);
}

template <class T>
void every_pattern_reads_exactly() {
  std::vector<T> row(65536);
  for (std::uint32_t i = 0; i < 65536; ++i) row[i].bits = static_cast<std::uint16_t>(i);
  testing::on_every_target([&] {
    std::vector<float> out(row.size());
    read_row(row.data(), DTypeOf<T>::value, 65536, 1, out.data());
    for (std::size_t i = 0; i < row.size(); ++i) {
      const float expected = f32_from(row[i]);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(out[i])) << i;
      } else {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(out[i]), std::bit_cast<std::uint32_t>(expected)) << i;
      }
    }
  });
}
TEST(RowsKernel, EveryPatternReadsExactly) {
  every_pattern_reads_exactly<Half>();
  every_pattern_reads_exactly<BFloat16>();
}

template <class T>
T rounded(float x) {
  T value;
  testing::assign(x, value);
  return value;
}

// Every 16-bit value, the midpoints between neighbours and the floats beside these.
template <class T>
void writes_round_to_nearest_even() {
  std::vector<float> x;
  for (std::uint32_t i = 0; i < 65536; ++i) {
    T low;
    low.bits = static_cast<std::uint16_t>(i);
    const float value = f32_from(low);
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (const std::uint32_t more :
         {0x0u, 0x1u, 0x7FFFu, 0x8000u, 0x8001u, 0x0FFFu, 0x1000u, 0x1001u, 0x1800u, 0xFFFu}) {
      x.push_back(std::bit_cast<float>(bits + more));
    }
  }
  testing::Random random(9);
  for (int i = 0; i < 100000; ++i) {
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random.below(std::int64_t{1} << 32))));
  }
  for (const float v :
       {65519.99f, 65520.0f, 65536.0f, 1e9f, 5.9e-8f, 2.98e-8f, 2.9802322e-8f, 6e-8f, 1e-30f}) {
    x.push_back(v);
    x.push_back(-v);
  }
  testing::on_every_target([&] {
    std::vector<T> out(x.size());
    kernels::write_row(x.data(), static_cast<std::int64_t>(x.size()), out.data(), DTypeOf<T>::value);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const T expected = rounded<T>(x[i]);
      if (std::isnan(x[i])) {
        ASSERT_TRUE(std::isnan(f32_from(out[i]))) << x[i];
      } else {
        ASSERT_EQ(out[i].bits, expected.bits) << x[i] << " element " << i;
      }
    }
  });
}
TEST(RowsKernel, WritesRoundToNearestEven) {
  writes_round_to_nearest_even<Half>();
  writes_round_to_nearest_even<BFloat16>();
}

template <class T>
void every_size() {
  testing::Random random(4);
  for (std::size_t n = 0; n <= 2 * static_cast<std::size_t>(testing::kMaxLanes) + 1; ++n) {
    Exact<T> row(n, 1);
    Exact<float> x(n);
    random.fill(row, n);
    random.fill(x, n);
    const auto count = static_cast<std::int64_t>(n);
    testing::on_every_target([&] {
      Guarded<float> read(n);
      Guarded<float> added(n);
      Guarded<T> written(n, 1);
      for (std::size_t i = 0; i < n; ++i) added.set(i, x.get(i));
      read_row(row.data(), DTypeOf<T>::value, count, 11.313708f, read.data());
      kernels::add_row(row.data(), DTypeOf<T>::value, count, added.data());
      kernels::write_row(x.data(), count, written.data(), DTypeOf<T>::value);
      read.check();
      added.check();
      written.check();
      for (std::size_t i = 0; i < n; ++i) {
        const double value = testing::wide(row.get(i));
        const double scaled = value * testing::wide(11.313708f);
        ASSERT_LE(std::abs(testing::wide(read.get(i)) - scaled), budgets::kEmbedScaled * std::abs(scaled));
        const auto sum = static_cast<float>(value + testing::wide(x.get(i)));
        ASSERT_EQ(added.get(i), sum);
        ASSERT_EQ(testing::wide(written.get(i)), testing::wide(rounded<T>(x.get(i))));
      }
    });
  }
}
TEST(RowsKernel, EverySizeUnaligned) {
  every_size<float>();
  every_size<Half>();
  every_size<BFloat16>();
}

}  // namespace
}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// Rows of every dtype on every instruction set: all 65,536 patterns, rounding to nearest even, tails,
// unaligned rows.
#include "kernels/rows.h"

#include <algorithm>
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

// A lookup of many ids, short rows and long ones, into aligned rows around the caches and beside them.
template <class T>
void rows_by_id(std::int64_t width, float scale) {
  constexpr std::int64_t kRows = 40;
  constexpr std::int64_t kTokens = 50;
  testing::Random random(6);
  Exact<T> table(static_cast<std::size_t>(kRows * width), 1);
  random.fill(table, static_cast<std::size_t>(kRows * width));
  Exact<std::int64_t> ids(2 * kTokens - 1);
  for (std::size_t i = 0; i < 2 * kTokens - 1; ++i) ids.set(i, i % 2 == 0 ? random.below(kRows) : -1);
  const std::int64_t step = (width + 15) / 16 * 16;
  std::vector<float> memory(static_cast<std::size_t>(kTokens * step) + 16);
  const auto past = reinterpret_cast<std::uintptr_t>(memory.data()) % 64 / sizeof(float);
  testing::on_every_target([&] {
    for (const std::size_t shift : {(16 - past) % 16, (16 - past) % 16 + 1}) {
      if (shift + static_cast<std::size_t>(kTokens * step) > memory.size()) continue;
      for (const kernels::RowStores stores : {kernels::RowStores::around, kernels::RowStores::cached}) {
        std::fill(memory.begin(), memory.end(), -9.0f);
        float* const out = memory.data() + shift;
        kernels::read_rows({.table = reinterpret_cast<const std::byte*>(table.data()),
                            .row_bytes = width * static_cast<std::int64_t>(sizeof(T)),
                            .ids = ids.data(),
                            .ids_step = 2,
                            .tokens = kTokens,
                            .ids_left = kTokens,
                            .width = width,
                            .scale = scale,
                            .out = out,
                            .out_token = step,
                            .stores = stores},
                           DTypeOf<T>::value);
        for (std::int64_t t = 0; t < kTokens; ++t) {
          const std::int64_t id = ids.get(static_cast<std::size_t>(2 * t));
          for (std::int64_t i = 0; i < step; ++i) {
            const float got = out[t * step + i];
            const double value =
                i < width ? testing::wide(table.get(static_cast<std::size_t>(id * width + i))) : 0;
            ASSERT_EQ(got, i < width ? static_cast<float>(value) * scale : -9.0f) << t << " " << i;
          }
        }
      }
    }
  });
}
TEST(RowsKernel, RowsByIdAroundTheCachesAndBeside) {
  for (const std::int64_t width : {1, 16, 100, 128, 700, 1040}) {
    rows_by_id<float>(width, 1);
    rows_by_id<float>(width, 0.3f);
    rows_by_id<Half>(width, 1);
    rows_by_id<BFloat16>(width, 2.5f);
  }
}

TEST(RowsKernel, FirstIdOutside) {
  constexpr std::int64_t kMost = 75;
  for (const std::int64_t step : {1, 3}) {
    for (std::int64_t count = 0; count <= kMost; ++count) {
      std::vector<std::int64_t> ids(static_cast<std::size_t>(kMost * step), 6);
      const auto first = [&] { return kernels::first_outside(ids.data(), step, count, 7); };
      testing::on_every_target([&] {
        ASSERT_EQ(first(), count);
        for (std::int64_t at = 0; at < count; ++at) {
          for (const std::int64_t bad :
               {std::int64_t{7}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::min(),
                std::numeric_limits<std::int64_t>::max()}) {
            ids[static_cast<std::size_t>(at * step)] = bad;
            ASSERT_EQ(first(), at);
            ids[static_cast<std::size_t>(at * step)] = 0;
          }
        }
      });
    }
  }
}

}  // namespace
}  // namespace locant

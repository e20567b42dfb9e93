// SPDX-License-Identifier: Apache-2.0
// Rows of every type of blocks on every instruction set: the bits of dequantize(), for any bytes.
#include "kernels/blocks.h"

#include <bit>

#include "kernels/block_rows.h"

namespace locant {
namespace {

using testing::Exact;
using testing::Guarded;

bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

TEST(BlocksKernel, KnowsTheTypesOfDequantize) {
  for (std::uint32_t number = 0; number < 64; ++number) {
    const auto type = ggml_type_of(number);
    if (!type) continue;
    EXPECT_EQ(kernels::is_unpacked(*type), can_dequantize(*type) && block_elements(*type) > 1)
        << name_of(*type);
  }
  EXPECT_EQ(testing::block_types().size(), 13U);
}

// One row, read as a lookup of id 0.
void read_row(const std::uint8_t* row, GgmlType type, std::int64_t count, float scale, float* out) {
  const std::int64_t id = 0;
  kernels::read_blocks({.table = reinterpret_cast<const std::byte*>(row),
                        .ids = &id,
                        .tokens = 1,
                        .ids_left = 1,
                        .width = count,
                        .scale = scale,
                        .out = out},
                       type);
}

// Any bytes: scales that are infinite, NaN, zero, subnormal or negative, and every whole number.
TEST(BlocksKernel, ReadsTheBitsOfDequantize) {
  for (const GgmlType type : testing::block_types()) {
    SCOPED_TRACE(std::string(name_of(type)));
    testing::Random random(static_cast<std::uint64_t>(type));
    for (const std::int64_t blocks : {1, 2, 3, 4, 5, 31, 33, 65, 300}) {
      const std::int64_t count = blocks * block_elements(type);
      const auto size = static_cast<std::size_t>(testing::bytes_of(type, count));
      Exact<std::uint8_t> row(size, 1);
      for (std::size_t i = 0; i < size; ++i) row.set(i, static_cast<std::uint8_t>(random.below(256)));
      std::vector<float> expected(static_cast<std::size_t>(count));
      dequantize(type, row.data(), count, expected.data());
      testing::on_every_target([&] {
        Guarded<float> plain(expected.size());
        Guarded<float> scaled(expected.size());
        Guarded<float> added(expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i) added.set(i, 0.3F);
        read_row(row.data(), type, count, 1, plain.data());
        read_row(row.data(), type, count, 11.313708F, scaled.data());
        kernels::add_blocks(row.data(), type, count, added.data());
        plain.check();
        scaled.check();
        added.check();
        for (std::size_t i = 0; i < expected.size(); ++i) {
          ASSERT_TRUE(same(plain.get(i), expected[i])) << i << ": " << plain.get(i) << ", " << expected[i];
          ASSERT_TRUE(same(scaled.get(i), 11.313708F * expected[i])) << i;
          ASSERT_TRUE(same(added.get(i), 0.3F + expected[i])) << i;
        }
      });
    }
  }
}

}  // namespace
}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// Products in whole numbers in byte tiles of plain C++: the bits of project_int8(); on a CPU with AMX the
// unit gives them too, which the other tests then run on.
#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/project_int8_tiles_test.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/project_int8-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

// Whether there are tiles on this target.
bool EmulatedInt8(const ProjectBlock& b) {
#if HWY_TARGET == HWY_AVX3
  multiply_with<DotTiles<EmulatedTiles>>(b);
  return true;
#else
  (void)b;
  return false;
#endif
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/block_rows.h"

namespace locant::kernels {
HWY_EXPORT(EmulatedInt8);
}  // namespace locant::kernels

namespace locant {
namespace {

bool emulated(const kernels::ProjectBlock& b) {
  using namespace kernels;
  return HWY_DYNAMIC_DISPATCH(EmulatedInt8)(b);
}

struct Shape {
  std::int64_t tokens, rows, columns;
};

TEST(ProjectInt8Tiles, HaveTheBitsOfVectors) {
  bool ran = false;
  for (const GgmlType type : testing::block_types()) {
    for (const Shape& shape :
         {Shape{8, 16, 256}, Shape{17, 37, 768}, Shape{64, 70, 1280}, Shape{20, 33, 512}}) {
      SCOPED_TRACE(::testing::Message() << name_of(type) << ": " << shape.tokens << " tokens, " << shape.rows
                                        << " rows, " << shape.columns << " columns");
      testing::Random random(static_cast<std::uint64_t>(shape.tokens + shape.rows));
      const std::int64_t row_bytes = testing::bytes_of(type, shape.columns);
      testing::Exact<std::uint8_t> weight(static_cast<std::size_t>(shape.rows * row_bytes));
      testing::fill_blocks(random, type, shape.rows * shape.columns, weight.data());
      testing::Exact<float> x(static_cast<std::size_t>(shape.tokens * shape.columns));
      random.fill(x, static_cast<std::size_t>(shape.tokens * shape.columns));
      const auto size = static_cast<std::size_t>(shape.tokens * shape.rows);
      testing::on_every_target([&] {
        std::vector<float> tiles(size), vectors(size);
        const auto block = [&](std::vector<float>& out) {
          return kernels::ProjectBlock{.x = x.data(),
                                       .x_stride = shape.columns,
                                       .weight = weight.data(),
                                       .type = type,
                                       .weight_stride = shape.columns,
                                       .tokens = shape.tokens,
                                       .rows = shape.rows,
                                       .columns = shape.columns,
                                       .out = out.data(),
                                       .out_stride = shape.rows};
        };
        if (!emulated(block(tiles))) return;
        ran = true;
        kernels::project_int8(block(vectors));
        ASSERT_EQ(tiles, vectors);
      });
    }
  }
  if (!ran) GTEST_SKIP() << "tiles need AVX-512 beside them";
}

}  // namespace
}  // namespace locant
#endif

// SPDX-License-Identifier: Apache-2.0
// Attention in tiles against attention of vectors, with tiles of plain C++; on a CPU with AMX the unit gives
// their bits.
#include "kernels/amx.h"
#include "kernels/attend.h"
#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attend_amx_test.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/attend-amx-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

// Whether there are tiles on this target, and the call fits them.
bool EmulatedAttend(const AttendBlock& b) {
#if HWY_TARGET == HWY_AVX3
  if (!fits_tiles(b)) return false;
  EmulatedTiles tiles;
  attend_in_tiles(b, tiles);
  return true;
#else
  (void)b;
  return false;
#endif
}
void VectorAttend(const AttendBlock& b) {
  attend_panels(b);
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <limits>

#include "budgets.h"
#include "kernels/targets_and_memory.h"

namespace locant::kernels {
HWY_EXPORT(EmulatedAttend);
HWY_EXPORT(VectorAttend);
}  // namespace locant::kernels

namespace locant {
namespace {

bool emulated(const kernels::AttendBlock& b) {
  using namespace kernels;
  return HWY_DYNAMIC_DISPATCH(EmulatedAttend)(b);
}
void by_vectors(const kernels::AttendBlock& b) {
  using namespace kernels;
  HWY_DYNAMIC_DISPATCH(VectorAttend)(b);
}

struct Shape {
  std::int64_t tokens, group, slots, key_width, value_width;
  bool sloped = false;
  bool sunk = false;
  std::int64_t back = kernels::kAllSlots;
  float softcap = 0;
  bool normed = false;  // with slopes: far tiles may be passed over
};

// The last `tokens` of `slots` slots as queries of one key-value head.
struct Problem {
  explicit Problem(const Shape& of) : shape(of) {
    testing::Random random(static_cast<std::uint64_t>(of.tokens * 100 + of.slots));
    q.resize(static_cast<std::size_t>(of.tokens * of.group * of.key_width));
    for (float& x : q) x = random.next();
    // Keys and values end with the last slot, so that a byte read behind them is seen.
    keys.resize(static_cast<std::size_t>(of.slots * of.key_width));
    values.resize(static_cast<std::size_t>(of.slots * of.value_width));
    for (BFloat16& x : keys) x = bfloat16_from_f32(random.next());
    for (BFloat16& x : values) {
      const float value = random.next();
      x = bfloat16_from_f32(value);
      largest = std::max(largest, std::fabs(value));
    }
    for (std::int64_t h = 0; h < of.group; ++h) {
      slopes.push_back(std::exp2(-static_cast<float>(h + 1)));
      sinks.push_back(random.next());
    }
    for (std::int64_t s = 0; s < of.slots; ++s) {
      positions.push_back(s);
      double squares = 0;
      for (std::int64_t i = 0; i < of.key_width; ++i)
        squares += std::pow(testing::wide(keys[static_cast<std::size_t>(s * of.key_width + i)]), 2);
      if (s % kernels::kAttendTile == 0) norms.push_back(0);
      norms.back() = std::max(norms.back(), std::nextafter(static_cast<float>(std::sqrt(squares)), 1e30F));
    }
  }
  [[nodiscard]] kernels::AttendBlock block(std::vector<float>& out) {
    out.assign(static_cast<std::size_t>(shape.tokens * shape.group * shape.value_width), -1.0F);
    const std::int64_t first = shape.slots - shape.tokens;
    return {.q = q.data(),
            .q_token = shape.group * shape.key_width,
            .q_head = shape.key_width,
            .keys = keys.data(),
            .key_dtype = DType::bf16,
            .key_width = shape.key_width,
            .values = values.data(),
            .value_dtype = DType::bf16,
            .value_width = shape.value_width,
            .group = shape.group,
            .rows = shape.tokens * shape.group,
            .first_slot = first,
            .seen = {.back = shape.back, .slots = shape.slots},
            .slot_end = shape.slots,
            .scale = 1 / std::sqrt(static_cast<float>(shape.key_width)),
            .softcap = shape.softcap,
            .sinks = shape.sunk ? sinks.data() : nullptr,
            .sink_stride = 1,
            .slopes = shape.sloped ? slopes.data() : nullptr,
            .slope_stride = 1,
            .norms = shape.normed ? norms.data() : nullptr,
            .query_positions = positions.data() + first,
            .query_position_stride = 1,
            .key_positions = positions.data(),
            .key_position_stride = 1,
            .out = out.data(),
            .out_token = shape.group * shape.value_width,
            .out_head = shape.value_width};
  }

  Shape shape;
  std::vector<float> q;
  std::vector<BFloat16> keys, values;
  std::vector<float> slopes, sinks, norms;
  std::vector<std::int64_t> positions;
  float largest = 0;
};

const Shape kShapes[] = {
    {12, 1, 12, 64, 64},
    {13, 3, 300, 32, 48, true},
    {16, 4, 16, 128, 128},
    {37, 4, 37, 128, 128},
    {40, 4, 260, 128, 128, false, true},
    {20, 2, 200, 96, 80, true, true, 50},
    {17, 1, 145, 256, 256, false, false, kernels::kAllSlots, 30.0F},
    {12, 4, 95, 512, 512},
    {24, 2, 900, 64, 64, true, false, kernels::kAllSlots, 0, true},
};

TEST(AttendAmx, TilesGiveWhatVectorsGive) {
  bool ran = false;
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(::testing::Message()
                 << shape.tokens << " tokens x " << shape.group << " over " << shape.slots << " slots of "
                 << shape.key_width << ", " << shape.value_width);
    Problem p(shape);
    testing::on_every_target([&] {
      std::vector<float> tiles, vectors;
      if (!emulated(p.block(tiles))) return;
      ran = true;
      by_vectors(p.block(vectors));
      for (std::size_t i = 0; i < tiles.size(); ++i)
        ASSERT_LE(std::fabs(tiles[i] - vectors[i]), static_cast<float>(budgets::kAttend) * p.largest) << i;
    });
  }
  if (!ran) GTEST_SKIP() << "tiles need AVX-512 beside them";
}

TEST(AttendAmx, UnseenValuesAreNotMultiplied) {
  // The first slots are out of every window; one in the middle is seen by the first queries alone.
  Problem p({24, 2, 200, 64, 64, false, false, 40});
  const BFloat16 nan{0x7FC0};
  for (std::int64_t s = 0; s < 100; ++s) {
    for (std::int64_t c = 0; c < 64; ++c) p.values[static_cast<std::size_t>(s * 64 + c)] = nan;
  }
  bool ran = false;
  for (std::int64_t c = 0; c < 64; ++c) p.values[static_cast<std::size_t>(140 * 64 + c)] = nan;
  testing::on_every_target([&] {
    std::vector<float> out;
    if (!emulated(p.block(out))) return;
    ran = true;
    for (std::int64_t t = 0; t < 24; ++t) {
      const std::int64_t slot = 176 + t;
      for (std::int64_t i = 0; i < 2 * 64; ++i) {
        const float x = out[static_cast<std::size_t>(t * 128 + i)];
        ASSERT_EQ(std::isnan(x), slot - 40 <= 140) << "query in slot " << slot;
      }
    }
  });
  if (!ran) GTEST_SKIP() << "tiles need AVX-512 beside them";
}

TEST(AttendAmx, TheUnitGivesTheBitsOfTheEmulation) {
  if (!kernels::amx_units().bf16) GTEST_SKIP() << "this CPU has no AMX, or the system does not lend it";
  for (const Shape& shape : kShapes) {
    Problem p(shape);
    std::vector<float> tiles, unit;
    ASSERT_TRUE(emulated(p.block(tiles)));
    kernels::attend(p.block(unit));
    EXPECT_EQ(tiles, unit);
  }
}

}  // namespace
}  // namespace locant
#endif

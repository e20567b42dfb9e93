// SPDX-License-Identifier: Apache-2.0
// Half a step where the range is covered; a whole step where the largest value of one sign may be cut off
// (Q4_0, Q5_0) or where a search for the least squared error may cut off values (K-quants). Small whole
// scales are off by half of d, which moves the largest q most, minuses by half of dmin; f16 rounds d and
// dmin.
#include "check/block_error.h"

#include <cmath>

#include "formats/gguf_blocks.h"

namespace locant::check_room {
namespace {

using namespace gguf_blocks;

constexpr double kHalf = 0x1p-11;  // relative rounding of an f16

struct Group {
  double step = 0;      // of the group's values
  double d = 0;         // step of the scales
  double dmin = 0;      // step of the minuses
  double minus = 0;     // of the group
  double steps = 0.5;   // largest error in steps
  double largest = 15;  // |q|
};

double magnitude(const std::byte* half) noexcept {
  return std::abs(static_cast<double>(half_at(half)));
}

Group small_group(GgmlType type, const std::byte* block) noexcept {
  const double d = magnitude(block);
  switch (type) {
    case GgmlType::q4_0:
      return {.step = d, .steps = 1, .largest = 8};
    case GgmlType::q4_1:
      return {.step = d, .minus = magnitude(block + 2)};
    case GgmlType::q5_0:
      return {.step = d, .steps = 1, .largest = 16};
    case GgmlType::q5_1:
      return {.step = d, .minus = magnitude(block + 2), .largest = 31};
    case GgmlType::iq4_nl:  // the widest gap is 24; beyond the positive end 14 are cut off
      return {.step = d, .steps = 14, .largest = 127};
    case GgmlType::mxfp4:  // the scale is a power of two: 12 stands for what is below 16
      return {.step = static_cast<double>(mxfp4_scale(block[0])), .steps = 4, .largest = 0};
    default:  // q8_0
      return {.step = d, .largest = 127};
  }
}

Group group_of(GgmlType type, const std::byte* block, int element) noexcept {
  const int sixteen = element / 16;
  const int thirty_two = element / 32;
  switch (type) {
    case GgmlType::q2_k: {
      const int both = byte_at(block, sixteen);
      const double d = magnitude(block + 80);
      const double dmin = magnitude(block + 82);
      return {.step = d * (both & 15),
              .d = d,
              .dmin = dmin,
              .minus = dmin * (both >> 4),
              .steps = 1,
              .largest = 3};
    }
    case GgmlType::q3_k: {
      const double d = magnitude(block + 108);
      return {.step = d * std::abs(q3_k_scale_at(block + 96, sixteen)), .d = d, .steps = 1, .largest = 4};
    }
    case GgmlType::q4_k:
    case GgmlType::q5_k: {
      const ScaleMinus both = six_bits_at(block + 4, thirty_two);
      const double d = magnitude(block);
      const double dmin = magnitude(block + 2);
      return {.step = d * both.scale,
              .d = d,
              .dmin = dmin,
              .minus = dmin * both.minus,
              .steps = 1,
              .largest = type == GgmlType::q4_k ? 15.0 : 31.0};
    }
    case GgmlType::q6_k: {
      const double d = magnitude(block + 208);
      const double scale = static_cast<std::int8_t>(block[192 + sixteen]);
      return {.step = d * std::abs(scale), .d = d, .steps = 1, .largest = 32};
    }
    case GgmlType::iq4_xs: {
      const double d = magnitude(block);
      return {.step = d * std::abs(iq4_xs_scale_at(block, thirty_two)), .d = d, .steps = 14, .largest = 127};
    }
    default:
      return small_group(type, block);
  }
}

}  // namespace

double block_error(GgmlType type, const std::byte* block, int element) noexcept {
  const Group g = group_of(type, block, element);
  return g.steps * g.step + (0.5 * g.d + kHalf * g.step) * g.largest + 0.5 * g.dmin + kHalf * g.minus;
}

}  // namespace locant::check_room

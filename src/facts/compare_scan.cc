// SPDX-License-Identifier: Apache-2.0
// Positions at which two tables are further apart than half a step of a dtype: of 2^-8 for bf16 (8 bits) and
// 2^-24 for f32 (24 bits) at a magnitude in [1, 2).
#include <algorithm>
#include <array>
#include <cmath>

#include "facts/compare_parts.h"

namespace locant {
namespace {

int kept_bits(DType dtype) {
  if (dtype == DType::bf16) return 8;
  return dtype == DType::f16 ? 11 : 24;
}

class First {
 public:
  explicit First(DType dtype) : dtype_(dtype) {}
  void see(const Gap& gap, std::optional<std::int64_t>& first) const {
    if (!first && gap.difference > half_step(dtype_, gap.magnitude)) first = gap.position;
  }

 private:
  DType dtype_;
};

}  // namespace

double half_step(DType dtype, double magnitude) {
  if (!(magnitude > 0)) return 0;
  return std::ldexp(1.0, std::ilogb(magnitude) - kept_bits(dtype));
}

void scan(const GapsAt& gaps, std::int64_t distance, Difference& difference) {
  constexpr std::size_t kBlock = 256;
  const First bf16(DType::bf16);
  const First f32(DType::f32);
  std::array<Gap, kBlock> block;
  std::size_t size = 8;
  for (std::int64_t first = 0; first < distance && !(difference.first_bf16 && difference.first_f32);) {
    const std::int64_t step = first < Difference::kDense ? 1 : Difference::kStride;
    const std::int64_t left = (distance - first + step - 1) / step;
    const auto count = static_cast<std::size_t>(std::min(left, static_cast<std::int64_t>(size)));
    const std::span<Gap> part = std::span(block).first(count);
    gaps(first, step, part);
    for (std::size_t i = 0; i < count; ++i) {
      part[i].position = first + static_cast<std::int64_t>(i) * step;
      bf16.see(part[i], difference.first_bf16);
      f32.see(part[i], difference.first_f32);
    }
    first += static_cast<std::int64_t>(count) * step;
    size = std::min(2 * size, kBlock);
  }
  Gap last;
  gaps(distance - 1, 1, std::span(&last, 1));
  last.position = distance - 1;
  difference.at_distance = last;
}

}  // namespace locant

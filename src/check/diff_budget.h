// SPDX-License-Identifier: Apache-2.0
// What rounding alone explains of a difference between two correct runs, relative to what stands around an
// element. Errors of single operations are taken as independent: they add up as a random walk.
#pragma once

#include <cstdint>

#include "check/diff_flow.h"
#include "check/evidence.h"
#include "locant/core.h"

namespace locant::check_room {

struct Rounding {
  DType dtype = DType::f32;  ///< the coarser of all that is involved
  std::int64_t width = 1;    ///< terms of the sums that made the element
  std::int64_t layers = 0;   ///< of the stack
};
/// Of the largest difference of many elements of one tensor; positions are not in it.
[[nodiscard]] double rounding_budget(const FlowName& name, const Rounding& rounding);
/// Added where a rotation of f32 angles took part.
[[nodiscard]] double angle_budget(const FlowName& name, std::int64_t position);
/// Of the least-squares factor between two tensors of `count` independent elements.
[[nodiscard]] double factor_budget(DType dtype, double count);

}  // namespace locant::check_room

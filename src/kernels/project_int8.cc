// SPDX-License-Identifier: Apache-2.0
// Products with a weight of blocks, in whole numbers (project_int8-inl.h), by the unit that this CPU has.
#include "kernels/project.h"

#include "kernels/amx.h"
#include "kernels/targets-inl.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/project_int8.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/project_int8-inl.h"

HWY_BEFORE_NAMESPACE();
namespace locant::kernels::HWY_NAMESPACE {

void ProjectInt8(const ProjectBlock& b) {
#if HWY_TARGET == HWY_AVX3
  // Fewer tokens leave more than half of a tile empty.
  if (b.tokens >= 8 && amx_units().bytes) return multiply_with<DotTiles<HardwareTiles>>(b);
  if (has_byte_dots()) return multiply_with<DotUnit>(b);
#endif
  multiply_with<Portable>(b);
}

}  // namespace locant::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace locant::kernels {
HWY_EXPORT(ProjectInt8);
void project_int8(const ProjectBlock& block) noexcept {
  HWY_DYNAMIC_DISPATCH(ProjectInt8)(block);
}
}  // namespace locant::kernels
#endif

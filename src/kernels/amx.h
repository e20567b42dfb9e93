// SPDX-License-Identifier: Apache-2.0
// Products on the tile registers of AMX.
#pragma once

#include <cstdint>

#include "kernels/project.h"

namespace locant::kernels {

/// Rows of one block at most: the more, the rarer is x laid out.
inline constexpr std::int64_t kAmxRows = 256;

/// What this CPU's tile registers multiply, with the operating system's permission to use them, for which the
/// first call asks. Nothing unless the kernels run on the best target.
struct AmxUnits {
  bool bf16 = false;
  bool bytes = false;
};
[[nodiscard]] AmxUnits amx_units() noexcept;

/// As project() with a weight of bf16, kAmxRows rows at most: x exactly, as a sum of three bf16. Products in
/// which a bf16 is subnormal are lost.
void project_amx(const ProjectBlock& block) noexcept;
/// The same with x rounded to bf16.
void project_amx_rounded(const ProjectBlock& block) noexcept;

}  // namespace locant::kernels

// SPDX-License-Identifier: Apache-2.0
// Names of the compiled instruction sets.
#include "kernels/targets.h"

#include "kernels/targets-inl.h"

#include "hwy/highway.h"

namespace locant::kernels {

std::vector<Target> targets() {
  std::vector<Target> all;
  // Lower bits are better targets.
  for (const std::int64_t bit : hwy::SupportedAndGeneratedTargets())
    all.push_back({bit, hwy::TargetName(bit)});
  return all;
}

void use_only_target(const Target& target) {
  hwy::SetSupportedTargetsForTest(target.bit);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

void use_best_target() {
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace locant::kernels

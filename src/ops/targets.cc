// SPDX-License-Identifier: Apache-2.0
// The instruction sets of this machine, and the one in use.
#include <fmt/ranges.h>

#include <algorithm>

#include "kernels/targets.h"
#include "locant/ops.h"
#include "ops/check.h"

namespace locant {

std::vector<std::string> cpu_targets() {
  std::vector<std::string> names;
  for (const kernels::Target& target : kernels::targets()) names.emplace_back(target.name);
  return names;
}

void use_cpu_target(std::string_view name) {
  kernels::use_best_target();
  if (name.empty()) return;
  const std::vector<kernels::Target> all = kernels::targets();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& target) { return target.name == name; });
  if (found == all.end())
    check_ops::fail("cpu target: expected one of {}, got {}", fmt::join(cpu_targets(), ", "), name);
  kernels::use_only_target(*found);
}

}  // namespace locant

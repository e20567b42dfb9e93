// SPDX-License-Identifier: Apache-2.0
// The instruction sets that the kernels are compiled for, and the switch that tests force one with.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace locant::kernels {

struct Target {
  std::int64_t bit;
  std::string_view name;  ///< "AVX3", "AVX2", ...
};

/// Compiled in and offered by this CPU, best first.
[[nodiscard]] std::vector<Target> targets();

/// For tests: every kernel runs on this target until use_best_target(). Not while kernels run.
void use_only_target(const Target& target);
void use_best_target();

}  // namespace locant::kernels

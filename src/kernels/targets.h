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

/// For kernels, which know it after their dispatch: the AVX3 in use also has vpdpbusd on 512 bits
/// ("AVX3_DL").
[[nodiscard]] bool has_byte_dots() noexcept;
/// The same, and vdpbf16ps.
[[nodiscard]] bool has_pair_dots() noexcept;

}  // namespace locant::kernels

// SPDX-License-Identifier: Apache-2.0
// What position ids ask of their arguments. Every refusal is a SpecError "who: rule, what we got".
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "locant/core.h"

namespace locant {

/// start .. start + tokens - 1 exist.
void require_run(std::string_view who, std::int64_t start, std::int64_t tokens);
/// Every value is 0 or 1.
void require_mask(std::string_view who, View<const std::int64_t, 2> mask);
/// 0 first, never falling, at least the 0.
void require_boundaries(std::string_view who, std::span<const std::int64_t> boundaries);

}  // namespace locant

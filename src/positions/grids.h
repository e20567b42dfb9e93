// SPDX-License-Identifier: Apache-2.0
// Sizes of images and videos in patches and in merged tokens.
#pragma once

#include <string_view>

#include "locant/positions.h"

namespace locant {

/// Patches of one grid. Throws SpecError unless time, height and width are at least 1, height and width are
/// multiples of merge >= 1, and the product is at most 2^31 - 1.
[[nodiscard]] std::int64_t patches_of(std::string_view who, const VisionGrid& grid, std::int64_t merge);

}  // namespace locant

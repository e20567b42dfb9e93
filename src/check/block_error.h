// SPDX-License-Identifier: Apache-2.0
// The largest error that a type of blocks makes in one element, read off the block's scales.
#pragma once

#include <cstddef>
#include <cstdint>

#include "locant/core.h"

namespace locant::check_room {

/// Neighbours from a multiple of this on have the same error.
inline constexpr std::int64_t kErrorGroup = 16;

/// Of element 0 .. block_elements() - 1, apart from the value's own rounding; a type that dequantize() knows.
[[nodiscard]] double block_error(GgmlType type, const std::byte* block, int element) noexcept;

}  // namespace locant::check_room

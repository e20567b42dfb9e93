// SPDX-License-Identifier: Apache-2.0
// The elements of a strided tensor as bytes in row-major order, in blocks of bounded size.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

#include "locant/core.h"

namespace locant {

/// Throws SpecError "who: ..." for a rank above kMaxRank, a negative extent, more bytes than 2^63 - 1, or
/// missing data. The bytes of the whole tensor.
[[nodiscard]] std::int64_t checked_bytes(std::string_view who, const TensorRef& tensor);

/// Calls sink(block) for successive bytes; a contiguous tensor comes as one block without a copy. The tensor
/// has passed checked_bytes().
void for_each_block(const TensorRef& tensor, const std::function<void(std::span<const std::byte>)>& sink);

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// What this program asked of operator new.
#pragma once

#include <cstddef>

namespace locant::tests {

/// Bytes of the largest request since forget_allocations().
[[nodiscard]] std::size_t largest_allocation() noexcept;
void forget_allocations() noexcept;

}  // namespace locant::tests

// SPDX-License-Identifier: Apache-2.0
// What the cache and attention over it share: rules, and where things lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "locant/ops.h"
#include "ops/check.h"

namespace locant::attend_ops {

void check_cache(std::string_view who, std::string_view name, const CacheTensor& cache);
/// std::out_of_range when slots first .. first + count do not fit.
void check_slots(std::string_view who, std::int64_t first, std::int64_t count, std::int64_t capacity);
void check_attend(const AttendCall& call);

[[nodiscard]] std::byte* head_of(const CacheTensor& cache, std::int64_t head) noexcept;
[[nodiscard]] check_ops::Extent extent_of_cache(const CacheTensor& cache) noexcept;
/// Of an i8 cache, and of what keeps norms; empty otherwise.
[[nodiscard]] check_ops::Extent extent_of_scales(const CacheTensor& cache) noexcept;
[[nodiscard]] check_ops::Extent extent_of_norms(const CacheTensor& cache) noexcept;
/// Slots that hold keys.
[[nodiscard]] std::int64_t slots_of(const AttendCall& call) noexcept;

}  // namespace locant::attend_ops

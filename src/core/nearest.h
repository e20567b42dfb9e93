// SPDX-License-Identifier: Apache-2.0
// "Did you mean": the nearest of a few names by edit distance (insert, delete, replace, swap neighbours),
// ASCII case aside.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace locant {

/// Edits between two texts, each counted once; the cost is the product of their lengths.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// The nearest name, the first among equals; empty when none lies within a third of the name's length.
[[nodiscard]] std::string nearest_name(std::string_view name, std::span<const std::string_view> names);
[[nodiscard]] std::string nearest_name(std::string_view name, std::span<const std::string> names);

}  // namespace locant

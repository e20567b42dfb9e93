// SPDX-License-Identifier: Apache-2.0
// Keys that are a typing error away from one that was looked for and not found.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace locant {

/// The name that `key` misspells: the same letters without their underscores, or as many words of which at
/// most two letters differ, none in a word below four. Empty when none is that near.
[[nodiscard]] std::string near_key(std::string_view key, std::span<const std::string> names);

}  // namespace locant

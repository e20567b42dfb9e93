// SPDX-License-Identifier: Apache-2.0
// "Did you mean" for words of the command line.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace locant::cli {

/// "; did you mean x?" for the nearest candidate by edit distance, "" when none is near.
[[nodiscard]] std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

}  // namespace locant::cli

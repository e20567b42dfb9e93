// SPDX-License-Identifier: Apache-2.0
// Numbers in words of people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "locant/check.h"

namespace locant::html {

/// "131,072"
[[nodiscard]] std::string whole_text(std::int64_t value);
[[nodiscard]] std::string whole_text(const std::optional<std::int64_t>& value, std::string_view missing);
/// Up to `digits` significant ones: "0.00391", "1.2e-07", "infinite", "not a number".
[[nodiscard]] std::string number_text(double value, int digits = 4);
/// Short, for the ends of lines: "128", "4k", "1.5M", "1e-5".
[[nodiscard]] std::string tick_text(double value);
/// "7.2 GiB"
[[nodiscard]] std::string bytes_text(double bytes);
/// "0-4, 6": runs as ranges, at most a dozen of them.
[[nodiscard]] std::string layers_text(const std::vector<std::int64_t>& layers);
/// A number, a word or "".
[[nodiscard]] std::string fact_text(const Fact& fact);
/// "1 error", "2 errors"
[[nodiscard]] std::string count_text(std::size_t count, std::string_view word);

}  // namespace locant::html

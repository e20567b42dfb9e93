// SPDX-License-Identifier: Apache-2.0
// UTF-8 (RFC 3629): where it breaks, and text made valid.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace locant {

/// Bytes of the character at `at`, 0 when none stands there whole (RFC 3629, section 4).
[[nodiscard]] std::size_t length_of_character(std::string_view text, std::size_t at) noexcept;
/// First byte that is not part of valid UTF-8, or npos.
[[nodiscard]] std::size_t find_invalid_utf8(std::string_view text) noexcept;
/// Each byte that is not part of valid UTF-8 becomes U+FFFD.
[[nodiscard]] std::string valid_utf8(std::string_view text);
[[nodiscard]] std::string utf8_of(char32_t code_point);

}  // namespace locant

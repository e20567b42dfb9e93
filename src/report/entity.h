// SPDX-License-Identifier: Apache-2.0
// What XML and HTML share of escaping.
#pragma once

#include <string_view>

namespace locant {

/// The entity that stands for a character in text and in double quotes; "" = the character itself.
[[nodiscard]] constexpr std::string_view entity_of(char c) noexcept {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    default:
      return "";
  }
}

}  // namespace locant

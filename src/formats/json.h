// SPDX-License-Identifier: Apache-2.0
// JSON from outside: one strict parse (RFC 8259), with the byte and the cause in the error. The library's own
// recovery is too kind for what a checker reads: keys that come twice are refused, nesting ends at 100.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace locant {

using Json = nlohmann::json;  // objects are sorted by key

inline constexpr std::size_t kDeepestJson = 100;

/// Throws FileError: what is no JSON, a key twice in one object, nesting deeper than kDeepestJson. Offsets in
/// the error count from `first_byte`, where `text` begins in `path`.
[[nodiscard]] Json parse_json(std::string_view text, const std::string& path, std::int64_t first_byte = 0);

/// read_file() and parse_json().
[[nodiscard]] Json read_json(const std::string& path);

/// The member, or null when `object` is no object or lacks the key.
[[nodiscard]] const Json* find_member(const Json& object, std::string_view key) noexcept;

/// A value as an error shows it: compact, at most 80 bytes.
[[nodiscard]] std::string json_text(const Json& value);

}  // namespace locant

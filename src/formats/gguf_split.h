// SPDX-License-Identifier: Apache-2.0
// The names of a split file's parts: NAME-00001-of-00003.gguf, counted from 1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace locant {

struct GgufPartName {
  std::string prefix;  // with the directory
  std::int64_t number = 0;
  std::int64_t count = 0;
};

/// None when the path is not that of a part.
[[nodiscard]] std::optional<GgufPartName> parse_gguf_part_name(const std::string& path);

[[nodiscard]] std::string gguf_part_path(const std::string& prefix, std::int64_t number, std::int64_t count);

}  // namespace locant

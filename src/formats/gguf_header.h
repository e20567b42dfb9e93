// SPDX-License-Identifier: Apache-2.0
// What stands before the data of a GGUF file: magic, version, counts, metadata, tensor infos. Parsed in
// memory, every byte distrusted. Tensors may have gaps between them, never a common byte.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "locant/formats.h"

namespace locant {

struct GgufEntry {
  std::string name;
  GgmlType type = GgmlType::f32;
  std::vector<std::int64_t> shape;  // as numpy counts
  std::int64_t begin = 0;           // from the first byte of the data
  std::int64_t bytes = 0;
  std::int64_t at = 0;  // of its info in the file
};

struct GgufHeader {
  std::int64_t version = 0;
  std::int64_t alignment = 0;
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::vector<GgufEntry> entries;  // sorted by name
  std::int64_t data_begin = 0;     // byte in the file; beyond its end only when no tensor has data
};

inline constexpr std::int64_t kDeepestGgufArray = 8;    // arrays in arrays
inline constexpr std::int64_t kMostGgufAxes = 4;        // as ggml
inline constexpr std::int64_t kLongestGgufKey = 65535;  // as the format's document
inline constexpr std::int64_t kDefaultGgufAlignment = 32;

/// `file` holds the whole file. Throws FileError.
[[nodiscard]] GgufHeader parse_gguf_header(std::string_view file, const std::string& path);

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// The header of a safetensors file: 8 bytes of length N, N bytes of JSON, data. Parsed in memory, every byte
// distrusted. The data is covered by the tensors without holes or overlaps.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "locant/core.h"

namespace locant {

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::f32;
  std::size_t rank = 0;
  std::array<std::int64_t, TensorRef::kMaxRank> shape{};
  std::int64_t begin = 0;  // from the first byte of the data
  std::int64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // sorted by name
  std::map<std::string, std::string, std::less<>> metadata;
  std::int64_t data_begin = 0;  // byte in the file
};

inline constexpr std::string_view kSafetensorsMetadata = "__metadata__";
inline constexpr std::int64_t kLargestSafetensorsHeader = 100'000'000;  // as the reference implementation

/// `file` holds the whole file. Throws FileError.
[[nodiscard]] SafetensorsHeader parse_safetensors_header(std::string_view file, const std::string& path);

/// "BF16" for bf16.
[[nodiscard]] std::string_view safetensors_name_of(DType dtype) noexcept;

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// Any bytes as a safetensors file: tensors that tile the data exactly, or a FileError.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "formats/safetensors_header.h"
#include "locant/core.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  try {
    const locant::SafetensorsHeader header = locant::parse_safetensors_header(file, "fuzz");
    std::int64_t bytes = 0;
    for (const locant::SafetensorsEntry& entry : header.entries) {
      auto length = static_cast<std::int64_t>(locant::size_of(entry.dtype));
      for (std::size_t axis = 0; axis < entry.rank; ++axis) length *= entry.shape[axis];
      if (entry.begin < 0 || entry.end - entry.begin != length) std::abort();
      if (header.data_begin + entry.end > static_cast<std::int64_t>(size)) std::abort();
      bytes += length;
    }
    if (header.data_begin + bytes != static_cast<std::int64_t>(size)) std::abort();
  } catch (const locant::FileError& error) {
    if (error.offset > static_cast<std::int64_t>(size) + 1) std::abort();
  }
  return 0;
}

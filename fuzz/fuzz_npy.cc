// SPDX-License-Identifier: Apache-2.0
// Any bytes as a .npy file: an array whose data fits its shape, or a FileError inside the input.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "formats/npy_header.h"
#include "locant/core.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  try {
    const locant::NpyArray array = locant::parse_npy(file, "fuzz");
    std::size_t bytes = locant::size_of(array.dtype);
    for (const std::int64_t extent : array.shape) bytes *= static_cast<std::size_t>(extent);
    if (array.data.size() != bytes) std::abort();
    if (!locant::is_float(array.dtype)) (void)array.as_int64("fuzz");
  } catch (const locant::FileError& error) {
    if (error.offset < 0 || error.offset > static_cast<std::int64_t>(size)) std::abort();
  }
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Any bytes as blocks of any type (the first byte's choice): floats for each element, the same wherever the
// bytes stand, or a SpecError before anything is written.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "locant/core.h"
#include "locant/formats.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto type = locant::ggml_type_of(data[0] & 63U);
  if (!type) return 0;
  const auto blocks = static_cast<std::int64_t>(size - 1) / locant::block_bytes(*type);
  const std::int64_t count = blocks * locant::block_elements(*type);
  const std::vector<std::uint8_t> aligned(data + 1, data + 1 + blocks * locant::block_bytes(*type));
  std::vector<float> first(static_cast<std::size_t>(count), 7.0F);
  std::vector<float> second = first;
  try {
    locant::dequantize(*type, data + 1, count, first.data());
    locant::dequantize(*type, aligned.data(), count, second.data());
    if (!locant::can_dequantize(*type)) std::abort();
  } catch (const locant::SpecError&) {
    if (locant::can_dequantize(*type)) std::abort();
  }
  if (count > 0 && std::memcmp(first.data(), second.data(), first.size() * sizeof(float)) != 0) std::abort();
  return 0;
}

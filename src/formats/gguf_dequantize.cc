// SPDX-License-Identifier: Apache-2.0
// Stored elements to f32, block by block.
#include <fmt/core.h>

#include <cstring>

#include "core/convert.h"
#include "formats/gguf_blocks.h"
#include "locant/formats.h"

namespace locant {
namespace {

bool is_plain(GgmlType type) noexcept {
  return type == GgmlType::f32 || type == GgmlType::f16 || type == GgmlType::bf16;
}

}  // namespace

bool can_dequantize(GgmlType type) noexcept {
  return is_plain(type) || gguf_blocks::unpack_of(type) != nullptr;
}

void dequantize(GgmlType type, const void* blocks, std::int64_t count, float* out) {
  if (!can_dequantize(type)) {
    throw SpecError(fmt::format(
        "dequantize: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K to Q6_K, IQ4_NL, IQ4_XS and "
        "MXFP4 are known, got {}",
        name_of(type)));
  }
  if (count < 0 || count % block_elements(type) != 0) {
    throw SpecError(fmt::format("dequantize: {} stands in blocks of {} elements, got {} elements",
                                name_of(type), block_elements(type), count));
  }
  if (count == 0) return;
  if (const gguf_blocks::Unpack unpack = gguf_blocks::unpack_of(type)) {
    const auto* block = static_cast<const std::byte*>(blocks);
    for (std::int64_t done = 0; done < count; done += block_elements(type), block += block_bytes(type)) {
      unpack(block, out + done);
    }
  } else if (type == GgmlType::f32) {
    std::memcpy(out, blocks, static_cast<std::size_t>(count) * sizeof(float));
  } else {
    convert_row(blocks, dtype_of(type).value_or(DType::f32), out, DType::f32, count);
  }
}

}  // namespace locant

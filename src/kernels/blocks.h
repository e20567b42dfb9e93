// SPDX-License-Identifier: Apache-2.0
// Rows that are stored in blocks (GGUF types), unpacked to f32.
#pragma once

#include <cstdint>

#include "kernels/rows.h"
#include "locant/core.h"

namespace locant::kernels {

/// The types that the kernels unpack: value = scale * q - minus with 8-bit whole q, and one scale and minus
/// for 16 or 32 elements.
[[nodiscard]] bool is_unpacked(GgmlType type) noexcept;

/// out[t] = scale * table[ids[t]]; rows are whole blocks at any address.
void read_blocks(const RowsBlock& block, GgmlType type) noexcept;

/// out[i] += row[i].
void add_blocks(const void* row, GgmlType type, std::int64_t count, float* out) noexcept;

}  // namespace locant::kernels

// SPDX-License-Identifier: Apache-2.0
// Rows of storage dtypes read into, added to and written from f32 rows.
#pragma once

#include <cstdint>

#include "locant/core.h"

namespace locant::kernels {

/// out[i] = scale * row[i]; row is f32, f16 or bf16 and may be unaligned.
void read_row(const void* row, DType dtype, std::int64_t count, float scale, float* out) noexcept;

/// out[i] += row[i].
void add_row(const void* row, DType dtype, std::int64_t count, float* out) noexcept;

/// out[i] = x[i] rounded to nearest even; out is f32, f16 or bf16 and may be unaligned.
void write_row(const float* x, std::int64_t count, void* out, DType dtype) noexcept;

}  // namespace locant::kernels

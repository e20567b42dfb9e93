// SPDX-License-Identifier: Apache-2.0
// Elements between f32, f16 and bf16, at any alignment: how weights are copied when a model is loaded.
// Widening is exact, narrowing rounds to nearest even.
#pragma once

#include <cstddef>
#include <cstdint>

#include "locant/core.h"

namespace locant {

/// f32, f16 or bf16 at any alignment, as f32.
[[nodiscard]] float load_f32(const void* from, DType dtype) noexcept;
void store_f32(float value, void* to, DType dtype) noexcept;

/// to[i] = from[i] for contiguous elements of f32, f16 or bf16.
void convert_row(const void* from, DType from_dtype, void* to, DType to_dtype, std::int64_t count) noexcept;

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// Rows of storage dtypes read by id into f32 rows, added to and written from these.
#pragma once

#include <cstddef>
#include <cstdint>

#include "locant/core.h"

namespace locant::kernels {

/// `around` stores past the caches, for an out that these do not hold.
enum class RowStores : std::uint8_t { cached, around };

/// Rows of a table by id: out[t] = scale * table[ids[t]].
struct RowsBlock {
  const std::byte* table = nullptr;
  std::int64_t row_bytes = 0;  ///< from one row to the next
  const std::int64_t* ids = nullptr;
  std::int64_t ids_step = 1;
  std::int64_t tokens = 0;
  std::int64_t ids_left = 0;  ///< ids that may be looked at, `tokens` or more: later ones are asked for early
  std::int64_t width = 0;
  float scale = 1;
  float* out = nullptr;
  std::int64_t out_token = 0;
  RowStores stores = RowStores::cached;
};

/// Rows are f32, f16 or bf16 and may be unaligned.
void read_rows(const RowsBlock& block, DType dtype) noexcept;

/// The first id that is not one of 0 ... rows - 1, or `count`.
[[nodiscard]] std::int64_t first_outside(const std::int64_t* ids, std::int64_t step, std::int64_t count,
                                         std::int64_t rows) noexcept;

/// out[i] += row[i].
void add_row(const void* row, DType dtype, std::int64_t count, float* out) noexcept;

/// out[i] = x[i] rounded to nearest even; out is f32, f16 or bf16 and may be unaligned.
void write_row(const float* x, std::int64_t count, void* out, DType dtype) noexcept;

}  // namespace locant::kernels

// SPDX-License-Identifier: Apache-2.0
// How rows come into a cache: one row with its scale and norm, and the cut of slots into pieces.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "locant/ops.h"
#include "ops/attend.h"
#include "ops/check.h"

namespace locant::keep_ops {

/// Where a cache lies in memory: its rows, and its scales and norms if it has them.
struct KeptMemory {
  std::array<check_ops::Extent, 3> parts{};
  std::size_t count = 0;
};
[[nodiscard]] KeptMemory memory_of(const CacheTensor& cache) noexcept;
[[nodiscard]] bool overlap(const KeptMemory& kept, const check_ops::Extent& other) noexcept;

/// Rows of a head stand width elements apart.
[[nodiscard]] std::byte* row_at(const CacheTensor& cache, std::int64_t head, std::int64_t slot) noexcept;
/// Writes a row, its scale and its share in the norms.
void keep_row(const CacheTensor& cache, std::int64_t head, std::int64_t slot, const float* x) noexcept;
/// The share of a row that is written already.
void keep_norm(const CacheTensor& cache, std::int64_t head, std::int64_t slot) noexcept;

/// Tokens that go to slots from `first` on, cut at slots that are multiples of a whole number of kNormSlots:
/// an entry of the norms belongs to one piece.
struct SlotCuts {
  std::int64_t first = 0;
  std::int64_t tokens = 0;
  std::int64_t slots = kNormSlots;  ///< of a piece

  [[nodiscard]] std::int64_t count() const noexcept {
    return tokens == 0 ? 0 : (first + tokens - 1) / slots - first / slots + 1;
  }
  /// First token of a piece, and the one behind its last.
  [[nodiscard]] std::int64_t begin(std::int64_t piece) const noexcept;
  [[nodiscard]] std::int64_t end(std::int64_t piece) const noexcept { return begin(piece + 1); }
};
/// Pieces of some 16384 elements.
[[nodiscard]] SlotCuts cuts_of(std::int64_t first, std::int64_t tokens,
                               std::int64_t elements_of_token) noexcept;

}  // namespace locant::keep_ops

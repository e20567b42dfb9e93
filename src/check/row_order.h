// SPDX-License-Identifier: Apache-2.0
// Orders of the rows of q and k. Channels that pair as (i, i + w/2) stand behind each other after
// "to_neighbours", (2j + s) <- (s w/2 + j); "to_halves" is its inverse (Su et al. 2021, eq. 34 and both
// layouts).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "check/weight_parts.h"

namespace locant::check_room {

enum class Order : std::uint8_t { as_source, to_neighbours, to_halves, twice_to_neighbours, twice_to_halves };

/// A reordering inside every head.
struct RowOrder {
  Order order = Order::as_source;
  std::int64_t heads = 1;
  std::int64_t head_rows = 0;
  std::int64_t offset = 0;  ///< of the channels that move
  std::int64_t width = 0;   ///< even

  /// The row of the source that stands at a row of the other.
  [[nodiscard]] std::int64_t row(std::int64_t made) const noexcept;
  [[nodiscard]] std::vector<std::int64_t> rows() const;
};
/// "permuted for neighbouring pairs with 8 heads"
[[nodiscard]] std::string text_of(const RowOrder& order);

/// Rows of both side by side: a few columns of all of them.
class RowFit {
 public:
  RowFit(const Part& source, const Part& made);
  /// Sum of squares that an order leaves, over the sum of squares of the made rows; 0 when those are all 0.
  [[nodiscard]] double residual(const std::vector<std::int64_t>& rows) const;
  /// What the storage of both explains, in the same measure.
  [[nodiscard]] double rounding() const noexcept { return rounding_; }
  [[nodiscard]] bool fits(const std::vector<std::int64_t>& rows) const;

 private:
  std::int64_t rows_;
  std::int64_t columns_;
  std::vector<float> source_;
  std::vector<float> made_;
  double size_ = 0;
  double rounding_ = 0;
};

/// Another order that reproduces the made rows, the simplest first among equals; nothing when none does.
[[nodiscard]] std::optional<RowOrder> find_order(const RowFit& fit, const RowOrder& due, std::int64_t rows);

}  // namespace locant::check_room

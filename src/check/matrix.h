// SPDX-License-Identifier: Apache-2.0
// A matrix among the weights, read row by row as f32.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "check/evidence.h"

namespace locant::check_room {

class Matrix {
 public:
  /// `stored` has rank 2 and holds floats; it outlives the matrix.
  explicit Matrix(const StoredTensor& stored) : stored_(&stored) {}
  [[nodiscard]] std::int64_t rows() const noexcept { return stored_->tensor.shape[0]; }
  [[nodiscard]] std::int64_t columns() const noexcept { return stored_->tensor.shape[1]; }
  [[nodiscard]] const std::string& name() const noexcept { return stored_->name; }
  [[nodiscard]] const StoredTensor& stored() const noexcept { return *stored_; }
  [[nodiscard]] std::vector<float> row(std::int64_t index) const;

 private:
  const StoredTensor* stored_;
};

/// Of that name, with floats on two axes; nothing otherwise.
[[nodiscard]] std::optional<Matrix> matrix_named(const Evidence& evidence, const std::string& name);
/// All of that width with at least so many rows.
[[nodiscard]] std::vector<Matrix> matrices_of(const Evidence& evidence, std::int64_t columns,
                                              std::int64_t least_rows);
/// Trained tables of a stack's positions: their names say so.
[[nodiscard]] std::vector<Matrix> position_tables(const Evidence& evidence, std::int64_t columns,
                                                  Stack stack);

}  // namespace locant::check_room

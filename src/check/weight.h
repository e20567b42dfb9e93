// SPDX-License-Identifier: Apache-2.0
// A tensor among the weights, of either format, read piece by piece as f32, with what its storage rounded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "locant/formats.h"

namespace locant::check_room {

/// Rows of `columns` elements; a vector is rows of one, what has more axes is rows of its last.
class Weight {
 public:
  /// The tensor outlives the weight.
  explicit Weight(const StoredTensor& stored);
  explicit Weight(const GgufTensor& stored);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] const std::vector<std::int64_t>& shape() const noexcept { return shape_; }
  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::int64_t columns() const noexcept { return columns_; }
  [[nodiscard]] std::string shape_text() const;
  /// "f32", "Q4_1"
  [[nodiscard]] std::string type_text() const;
  /// Floats, or blocks that dequantize() knows.
  [[nodiscard]] bool readable() const noexcept;

  /// Elements [first, first + count) of the rows one after another. Needs readable().
  void read(std::int64_t first, std::int64_t count, float* out) const;
  /// Elements first, first + step, ..., `count` of them.
  void read_strided(std::int64_t first, std::int64_t step, std::int64_t count, float* out) const;
  /// Sum of the squares of the largest errors that the storage made in those elements, which read() gave.
  [[nodiscard]] double rounding(std::int64_t first, std::int64_t count, const float* values) const;
  /// The same bytes, type and shape.
  [[nodiscard]] bool equals(const Weight& other) const noexcept;

 private:
  void shape_up();

  std::string name_;
  std::string path_;
  std::vector<std::int64_t> shape_;
  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
  const std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  bool known_ = false;  // type_ says how the bytes are read
  GgmlType type_ = GgmlType::f32;
  std::string type_text_;
};

}  // namespace locant::check_room

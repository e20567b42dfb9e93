// SPDX-License-Identifier: Apache-2.0
// Takes tensors of a source by name: checks shape and storage, remembers what was taken, copies what must lie
// otherwise than it is stored.
#pragma once

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/weights.h"

namespace locant {

using Shape = std::vector<std::int64_t>;

class Tensors {
 public:
  Tensors(const ModelSpec& spec, WeightStorage storage, Weights& weights)
      : spec_(spec), storage_(storage), weights_(weights) {}

  [[nodiscard]] bool has(const std::string& name) const { return weights_.source.find(name) != nullptr; }
  /// `at` and the first name of "a|b" whose weight is there, the first of all where none is.
  [[nodiscard]] std::string pick(const std::string& at, std::string_view names) const;
  /// The first of the shapes is the one that a message names.
  const SourceTensor& take(const std::string& name, std::initializer_list<Shape> shapes);
  /// [out, in] as it is to be multiplied.
  Matrix matrix(const std::string& name, std::int64_t out, std::int64_t in, LinearLayout layout);
  Matrix matrix(const std::string& name, std::int64_t rows, std::int64_t columns) {
    return matrix(name, rows, columns, LinearLayout::out_in);
  }
  /// One [out, in] for each of `count`; `shape` is that of one as it lies in the file.
  std::vector<Matrix> stacked(const std::string& name, std::int64_t count, const Shape& shape,
                              LinearLayout layout);
  /// As f32, plus `offset`.
  View<const float, 1> vector(const std::string& name, std::initializer_list<Shape> shapes,
                              double offset = 0);
  /// Vectors behind each other.
  View<const float, 1> joined(const std::vector<View<const float, 1>>& parts);
  /// Rows behind each other, as f32.
  Matrix joined(const std::vector<Matrix>& parts);
  /// Elements first, first + step, ... as a vector of their own.
  View<const float, 1> every(View<const float, 1> values, std::int64_t first, std::int64_t step);

  /// Throws for a tensor that nobody took: it may be a part of the computation that Locant does not know.
  void refuse_leftovers(const std::set<std::string, std::less<>>& passed_over,
                        const FamilyWeights& names) const;

 private:
  Matrix stored_as(const Matrix& source, LinearLayout layout);
  [[nodiscard]] DType kept(const Matrix& source) const noexcept;
  float* room(std::int64_t floats);

  const ModelSpec& spec_;
  WeightStorage storage_;
  Weights& weights_;
  std::set<std::string, std::less<>> taken_;
};

/// A row as f32, out of blocks too.
void read_row(const Matrix& matrix, std::int64_t row, float* out);
/// Rows [first, first + rows).
[[nodiscard]] Matrix rows_of(const Matrix& matrix, std::int64_t first, std::int64_t rows) noexcept;
/// Every second row from `first` on.
[[nodiscard]] Matrix alternate_rows(const Matrix& matrix, std::int64_t first) noexcept;

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// Lines of two tensors beside each other: a token's values, a query's scores. Lines are read in pieces and
// the pages behind them are given back; what is kept of a line is its size and its largest difference.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "locant/core.h"

namespace locant::check_room {

/// Reads a mapped tensor line by line as doubles. At most a few MiB of it stay resident.
class LineReader {
 public:
  explicit LineReader(const TensorRef& tensor) : tensor_(tensor) {}
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;
  LineReader(LineReader&& other) noexcept;
  LineReader& operator=(LineReader&&) = delete;

  [[nodiscard]] const TensorRef& tensor() const noexcept { return tensor_; }
  /// Elements [first, first + count), row-major.
  void read(std::int64_t first, std::int64_t count, std::vector<double>& out);

 private:
  void release() const noexcept;

  TensorRef tensor_;
  std::int64_t read_ = 0;  ///< bytes since the last release
};

struct LinePlace {
  std::int64_t row = 0;
  std::int64_t head = 0;
  std::int64_t token = 0;
};

/// What a difference is measured against.
enum class Unit : std::uint8_t {
  line,     ///< root mean square of the line, at least that of the line in the middle
  head,     ///< root mean square of all lines of the row's head
  largest,  ///< the largest of the line
  one,      ///< whole numbers
};

/// Lines to compare: rows x heads x tokens of them.
struct Lines {
  std::int64_t rows = 0;
  std::int64_t heads = 1;
  std::int64_t tokens = 0;
  Unit unit = Unit::line;
  bool centred = false;  ///< a constant on all of a line means nothing
  /// Fills both with what is to be compared; false = nothing.
  std::function<bool(const LinePlace&, std::vector<double>& want, std::vector<double>& got)> load;
  /// What rounding explains, in the line's unit.
  std::function<double(const LinePlace&)> budget;
};

struct LineDifference {
  LinePlace place;          ///< of the first line beyond its budget
  std::size_t element = 0;  ///< in it, the first
  double want = 0;
  double got = 0;
  double largest = 0;  ///< of all lines
  double budget = 0;
};

struct LineReport {
  std::int64_t compared = 0;  ///< elements
  std::optional<LineDifference> beyond;
  double factor = 1;       ///< least squares, got on want
  bool constants = false;  ///< constants that were taken out of lines were beyond rounding
};
[[nodiscard]] LineReport compare(const Lines& lines);

/// |got - want|; 0 where both are not finite alike, infinite where one is.
[[nodiscard]] double distance(double want, double got) noexcept;

}  // namespace locant::check_room

// SPDX-License-Identifier: Apache-2.0
// One vector for each row: the hidden states behind the last norm, pooled over the row's tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/run_options.h"
#include "locant/core.h"

namespace locant::cli {

/// Reads the states of a whole call as they come. Sums are double.
class PooledStates {
 public:
  PooledStates(const std::vector<std::int64_t>& lengths, std::int64_t width, Pool pool);
  void read(std::int64_t first_token, View<const float, 2> states);
  [[nodiscard]] std::int64_t width() const noexcept { return width_; }
  [[nodiscard]] std::vector<float> vectors() const;  ///< [B, width]
  [[nodiscard]] std::vector<double> norms() const;   ///< [B], Euclidean
  /// [B] cosine of the angle to every row; 0 where a norm is.
  [[nodiscard]] std::vector<double> similarities(std::size_t row) const;

 private:
  std::int64_t width_;
  Pool pool_;
  std::vector<std::int64_t> lengths_;
  std::vector<std::size_t> row_of_;        ///< of every token
  std::vector<std::int64_t> token_of_;     ///< within its row
  std::vector<std::vector<double>> sums_;  ///< [B][width]
};

}  // namespace locant::cli

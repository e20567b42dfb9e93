// SPDX-License-Identifier: Apache-2.0
#include "cli/pooling.h"

#include <cmath>
#include <numeric>

namespace locant::cli {

PooledStates::PooledStates(const std::vector<std::int64_t>& lengths, std::int64_t width, Pool pool)
    : width_(width), pool_(pool), lengths_(lengths) {
  for (std::size_t row = 0; row < lengths.size(); ++row) {
    sums_.emplace_back(static_cast<std::size_t>(width), 0.0);
    for (std::int64_t token = 0; token < lengths[row]; ++token) {
      row_of_.push_back(row);
      token_of_.push_back(token);
    }
  }
}

void PooledStates::read(std::int64_t first_token, View<const float, 2> states) {
  for (std::int64_t i = 0; i < states.extent(0); ++i) {
    const auto at = static_cast<std::size_t>(first_token + i);
    const std::size_t row = row_of_[at];
    const std::int64_t token = token_of_[at];
    const bool counts = pool_ == Pool::mean || (pool_ == Pool::cls && token == 0) ||
                        (pool_ == Pool::last && token + 1 == lengths_[row]);
    if (!counts) continue;
    const double share = pool_ == Pool::mean ? 1 / static_cast<double>(lengths_[row]) : 1;
    for (std::int64_t c = 0; c < width_; ++c)
      sums_[row][static_cast<std::size_t>(c)] += share * static_cast<double>(states(i, c));
  }
}

std::vector<float> PooledStates::vectors() const {
  std::vector<float> all;
  for (const auto& row : sums_) {
    for (const double value : row) all.push_back(static_cast<float>(value));
  }
  return all;
}

std::vector<double> PooledStates::norms() const {
  std::vector<double> norms;
  for (const auto& row : sums_)
    norms.push_back(std::sqrt(std::inner_product(row.begin(), row.end(), row.begin(), 0.0)));
  return norms;
}

std::vector<double> PooledStates::similarities(std::size_t row) const {
  const std::vector<double> of = norms();
  std::vector<double> cosines;
  for (std::size_t other = 0; other < sums_.size(); ++other) {
    const double product =
        std::inner_product(sums_[row].begin(), sums_[row].end(), sums_[other].begin(), 0.0);
    const double both = of[row] * of[other];
    cosines.push_back(both == 0 ? 0 : product / both);
  }
  return cosines;
}

}  // namespace locant::cli

// SPDX-License-Identifier: Apache-2.0
#include "check/row_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "check/values.h"

namespace locant::check_room {
namespace {

constexpr std::int64_t kColumns = 64;  // of each row: enough to tell rows apart, whole blocks
constexpr double kExplains = 0.25;     // of what the due order leaves
constexpr double kResembles = 0.5;     // of the rows themselves
constexpr std::int64_t kMostHeads = 256;

std::int64_t to_neighbours(std::int64_t channel, std::int64_t width) {
  return channel % 2 * (width / 2) + channel / 2;
}

std::int64_t to_halves(std::int64_t channel, std::int64_t width) {
  return channel % (width / 2) * 2 + channel / (width / 2);
}

std::vector<float> block_of(const Part& part, std::int64_t columns, double& rounding) {
  std::vector<float> block(static_cast<std::size_t>(part.rows * columns));
  for (std::int64_t row = 0; row < part.rows; ++row) {
    float* const at = block.data() + row * columns;
    part.read(row, 0, columns, at);
    rounding += part.rounding(part.split.stored(row), 0, columns, at);
  }
  return block;
}

}  // namespace

std::int64_t RowOrder::row(std::int64_t made) const noexcept {
  if (order == Order::as_source || head_rows < 1 || width < 2) return made;
  const std::int64_t start = made / head_rows * head_rows + offset;
  std::int64_t channel = made - start;
  if (channel < 0 || channel >= width) return made;
  switch (order) {
    case Order::twice_to_neighbours:
      channel = to_neighbours(channel, width);
      [[fallthrough]];
    case Order::to_neighbours:
      return start + to_neighbours(channel, width);
    case Order::twice_to_halves:
      channel = to_halves(channel, width);
      [[fallthrough]];
    default:
      return start + to_halves(channel, width);
  }
}

std::vector<std::int64_t> RowOrder::rows() const {
  std::vector<std::int64_t> all(static_cast<std::size_t>(heads * head_rows));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = row(static_cast<std::int64_t>(i));
  return all;
}

std::string text_of(const RowOrder& order) {
  const std::string heads = fmt::format("{} head{}", order.heads, order.heads == 1 ? "" : "s");
  switch (order.order) {
    case Order::as_source:
      return "in the order of the source";
    case Order::to_neighbours:
      return fmt::format("permuted to neighbouring pairs with {}", heads);
    case Order::to_halves:
      return fmt::format("permuted to half-split pairs with {}", heads);
    case Order::twice_to_neighbours:
      return fmt::format("permuted twice to neighbouring pairs with {}", heads);
    case Order::twice_to_halves:
      return fmt::format("permuted twice to half-split pairs with {}", heads);
  }
  return {};
}

RowFit::RowFit(const Part& source, const Part& made)
    : rows_(made.rows), columns_(std::min(made.columns, kColumns)) {
  source_ = block_of(source, columns_, rounding_);
  made_ = block_of(made, columns_, rounding_);
  for (const float value : made_) size_ += static_cast<double>(value) * static_cast<double>(value);
  if (size_ > 0) rounding_ /= size_;
}

double RowFit::residual(const std::vector<std::int64_t>& rows) const {
  if (size_ <= 0) return 0;
  double sum = 0;
  for (std::int64_t row = 0; row < rows_; ++row) {
    const float* const source = source_.data() + rows[static_cast<std::size_t>(row)] * columns_;
    const float* const made = made_.data() + row * columns_;
    for (std::int64_t i = 0; i < columns_; ++i) {
      const double difference = static_cast<double>(source[i]) - static_cast<double>(made[i]);
      sum += difference * difference;
    }
  }
  return sum / size_;
}

bool RowFit::fits(const std::vector<std::int64_t>& rows) const {
  return residual(rows) <= kSlack * rounding_;
}

std::optional<RowOrder> find_order(const RowFit& fit, const RowOrder& due, std::int64_t rows) {
  std::vector<RowOrder> tried{{.order = Order::as_source, .heads = due.heads, .head_rows = due.head_rows}};
  constexpr std::array kOrders = {Order::to_neighbours, Order::to_halves, Order::twice_to_neighbours,
                                  Order::twice_to_halves};
  for (const Order order : kOrders) {
    RowOrder one = due;
    one.order = order;
    tried.push_back(one);
  }
  for (std::int64_t heads = 1; heads <= std::min(rows / 2, kMostHeads); ++heads) {
    if (rows % heads != 0 || rows / heads % 2 != 0) continue;
    for (const Order order : kOrders) {
      const std::int64_t width = rows / heads;
      tried.push_back({.order = order, .heads = heads, .head_rows = width, .offset = 0, .width = width});
    }
  }
  const double left_by_due = fit.residual(due.rows());
  std::optional<RowOrder> best;
  double least = std::min(kExplains * left_by_due, kResembles);
  for (const RowOrder& one : tried) {
    const double left = fit.residual(one.rows());
    if (left < least) {
      least = left;
      best = one;
    }
  }
  return best;
}

}  // namespace locant::check_room

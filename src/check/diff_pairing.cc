// SPDX-License-Identifier: Apache-2.0
#include "check/diff_pairing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "check/diff_lines.h"

namespace locant::check_room {
namespace {

using Head = std::vector<double>;

bool same(const Head& want, const Head& got, double budget) {
  double squares = 0;
  double most = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    squares += want[i] * want[i];
    most = std::max(most, distance(want[i], got[i]));
  }
  return most <= budget * std::sqrt(squares / static_cast<double>(want.size()));
}

std::vector<Head> heads_of(const std::vector<std::vector<double>>& lines, std::int64_t head_dim) {
  std::vector<Head> heads;
  for (const std::vector<double>& line : lines) {
    for (auto at = line.begin(); line.end() - at >= head_dim; at += head_dim)
      heads.emplace_back(at, at + head_dim);
  }
  return heads;
}

std::size_t same_heads(const std::vector<Head>& want, const std::vector<Head>& got, const ChannelOrder& order,
                       double budget) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    Head moved = got[i];
    order.apply(moved, static_cast<std::int64_t>(moved.size()));
    if (same(want[i], moved, budget)) ++count;
  }
  return count;
}

}  // namespace

void ChannelOrder::apply(std::vector<double>& line, std::int64_t head_dim) const {
  std::vector<double> head(static_cast<std::size_t>(width));
  const auto pairs = static_cast<std::size_t>(width / 2);
  const auto step = static_cast<std::size_t>(head_dim);
  for (std::size_t begin = static_cast<std::size_t>(offset); begin + head.size() <= line.size();
       begin += step) {
    for (std::size_t p = 0; p < pairs; ++p) {
      const bool apart = got == Pairing::interleaved;
      head[apart ? p : 2 * p] = line[begin + (apart ? 2 * p : p)];
      head[apart ? p + pairs : 2 * p + 1] = line[begin + (apart ? 2 * p + 1 : p + pairs)];
    }
    for (std::size_t i = 0; i < head.size(); ++i) line[begin + i] = head[i];
  }
}

std::string ChannelOrder::text() const {
  const Pairing want = got == Pairing::half ? Pairing::interleaved : Pairing::half;
  return fmt::format("pairs of channels {} to {} of a head stand {} where the other has them {}", offset,
                     offset + width - 1, got == Pairing::half ? "in halves" : "interleaved",
                     want == Pairing::half ? "in halves" : "interleaved");
}

std::optional<ChannelOrder> channel_order(const std::vector<std::vector<double>>& want,
                                          const std::vector<std::vector<double>>& got, std::int64_t head_dim,
                                          double budget) {
  if (head_dim < 4) return std::nullopt;
  const std::vector<Head> due = heads_of(want, head_dim);
  const std::vector<Head> is = heads_of(got, head_dim);
  if (due.empty() || due.size() != is.size()) return std::nullopt;
  const std::size_t unmoved = same_heads(due, is, {}, budget);
  for (std::int64_t width = head_dim - head_dim % 2; width >= 4; width -= 2) {
    for (const std::int64_t offset : {std::int64_t{0}, head_dim - width}) {
      for (const Pairing pairing : {Pairing::interleaved, Pairing::half}) {
        const ChannelOrder order{pairing, offset, width};
        // a fault may spoil some of them
        const std::size_t moved = same_heads(due, is, order, budget);
        if (moved > unmoved && 2 * moved > due.size()) return order;
      }
      if (width == head_dim) break;
    }
  }
  return std::nullopt;
}

}  // namespace locant::check_room

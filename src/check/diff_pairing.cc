// SPDX-License-Identifier: Apache-2.0
#include "check/diff_pairing.h"

#include <fmt/format.h>

#include <cmath>

#include "check/diff_lines.h"

namespace locant::check_room {
namespace {

bool same(const std::vector<double>& want, const std::vector<double>& got, double budget) {
  double squares = 0;
  double most = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    squares += want[i] * want[i];
    most = std::max(most, distance(want[i], got[i]));
  }
  return most <= budget * std::sqrt(squares / static_cast<double>(want.size()));
}

bool all_same(const std::vector<std::vector<double>>& want, const std::vector<std::vector<double>>& got,
              std::int64_t head_dim, const ChannelOrder& order, double budget) {
  for (std::size_t line = 0; line < want.size(); ++line) {
    std::vector<double> moved = got[line];
    order.apply(moved, head_dim);
    if (!same(want[line], moved, budget)) return false;
  }
  return true;
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
  if (want.empty() || head_dim < 4) return std::nullopt;
  for (std::int64_t width = head_dim - head_dim % 2; width >= 4; width -= 2) {
    for (const std::int64_t offset : {std::int64_t{0}, head_dim - width}) {
      for (const Pairing pairing : {Pairing::interleaved, Pairing::half}) {
        const ChannelOrder order{pairing, offset, width};
        if (all_same(want, got, head_dim, order, budget)) return order;
      }
      if (width == head_dim) break;
    }
  }
  return std::nullopt;
}

}  // namespace locant::check_room

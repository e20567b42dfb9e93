// SPDX-License-Identifier: Apache-2.0
// q and k whose channels stand in the other order within each head: a conversion turns halves (i, i + w/2)
// into neighbours (2i, 2i + 1) or back, and scores stay the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "locant/core.h"
#include "locant/plan.h"

namespace locant::check_room {

struct ChannelOrder {
  Pairing got = Pairing::interleaved;  ///< how `got` lays out what `want` has the other way
  std::int64_t offset = 0;
  std::int64_t width = 0;

  /// Lays a line of heads of `got` out as `want` does.
  void apply(std::vector<double>& line, std::int64_t head_dim) const;
  [[nodiscard]] std::string text() const;
};

/// The order under which most heads of `got` are within `budget` of `want`, in units of the head's root mean
/// square, where as they stand fewer are; nothing when there is none. Lines of whole heads.
[[nodiscard]] std::optional<ChannelOrder> channel_order(const std::vector<std::vector<double>>& want,
                                                        const std::vector<std::vector<double>>& got,
                                                        std::int64_t head_dim, double budget);

}  // namespace locant::check_room

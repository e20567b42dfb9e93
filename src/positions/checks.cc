// SPDX-License-Identifier: Apache-2.0
#include "positions/checks.h"

#include <fmt/format.h>

#include "core/checked.h"

namespace locant {

void require_run(std::string_view who, std::int64_t start, std::int64_t tokens) {
  if (tokens < 0) throw SpecError(fmt::format("{}: tokens must be at least 0, got {}", who, tokens));
  if (!checked_add(start, tokens)) {
    throw SpecError(
        fmt::format("{}: positions must fit in 64 bits, got start {} and {} tokens", who, start, tokens));
  }
}

void require_mask(std::string_view who, View<const std::int64_t, 2> mask) {
  for (std::int64_t b = 0; b < mask.extent(0); ++b) {
    for (std::int64_t t = 0; t < mask.extent(1); ++t) {
      if (mask(b, t) == 0 || mask(b, t) == 1) continue;
      throw SpecError(
          fmt::format("{}: a mask holds 0 and 1, got {} at row {} column {}", who, mask(b, t), b, t));
    }
  }
}

void require_boundaries(std::string_view who, std::span<const std::int64_t> boundaries) {
  if (boundaries.empty() || boundaries.front() != 0) {
    throw SpecError(fmt::format("{}: boundaries begin with 0, got {}", who,
                                boundaries.empty() ? "none" : std::to_string(boundaries.front())));
  }
  for (std::size_t d = 1; d < boundaries.size(); ++d) {
    if (boundaries[d] >= boundaries[d - 1]) continue;
    throw SpecError(
        fmt::format("{}: boundaries never fall, got {} after {}", who, boundaries[d], boundaries[d - 1]));
  }
}

}  // namespace locant

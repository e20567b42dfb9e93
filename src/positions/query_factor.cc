// SPDX-License-Identifier: Apache-2.0
// The factor on a query as a function of its position.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "locant/positions.h"

namespace locant {

double query_factor(const QueryScale& scale, std::int64_t position) {
  const bool steps = scale.form == "log_floor";
  if (!steps && scale.form != "log_ratio") {
    throw SpecError(
        fmt::format("query_factor: a query scale is log_floor or log_ratio, got \"{}\"", scale.form));
  }
  if (position < 0) return 1;
  const double counted = static_cast<double>(position) + scale.shift;
  if (steps) return 1 + scale.scale * std::log(1 + std::floor(counted / scale.floor));
  if (counted <= scale.floor) return 1;
  return 1 + scale.scale * (std::log(counted) / std::log(scale.floor) - 1);
}

}  // namespace locant

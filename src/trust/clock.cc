// SPDX-License-Identifier: Apache-2.0
#include "trust/clock.h"

#include <algorithm>
#include <cmath>

namespace locant::trust_room {
namespace {

constexpr double kNewest = 0.5;  // weight of the newest timing
constexpr double kGrowth = 1.1;  // of a token's cost where the length doubles and nothing longer was timed

}  // namespace

void Costs::record(std::int64_t tokens, double seconds_a_row) {
  const auto [place, fresh] = timed_.try_emplace(tokens, seconds_a_row);
  if (!fresh) place->second += kNewest * (seconds_a_row - place->second);
}

double Costs::of(std::int64_t tokens) const {
  if (timed_.empty()) return 0;
  if (const auto found = timed_.find(tokens); found != timed_.end()) return found->second;
  const auto per_token = [](const auto& entry) { return entry.second / static_cast<double>(entry.first); };
  const auto above = timed_.upper_bound(tokens);
  const auto length = static_cast<double>(tokens);
  if (above == timed_.begin()) return per_token(*above) * length;
  const auto below = std::prev(above);
  if (above != timed_.end()) return std::max(per_token(*below), per_token(*above)) * length;
  const auto first = timed_.begin();
  const double doublings = std::log2(length / static_cast<double>(below->first));
  double cost = per_token(*below) * std::pow(kGrowth, doublings);
  if (first != below) {
    const double slope =
        (per_token(*below) - per_token(*first)) / static_cast<double>(below->first - first->first);
    cost = std::max(cost, per_token(*below) + slope * (length - static_cast<double>(below->first)));
  }
  return cost * length;
}

}  // namespace locant::trust_room

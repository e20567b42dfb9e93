// SPDX-License-Identifier: Apache-2.0
// Optimal string alignment distance: insert, delete, replace, swap neighbours (Damerau 1964).
#include "cli/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace locant::cli {
namespace {

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      const std::size_t replace = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  constexpr std::size_t kLongest = 64;  // no name is longer; keeps a pasted text from costing time
  if (word.size() > kLongest) return {};
  const std::string* best = nullptr;
  // A beginning of one name alone is that name.
  constexpr std::size_t kBeginning = 4;
  const auto begins = [word](const std::string& candidate) { return candidate.starts_with(word); };
  if (word.size() >= kBeginning && std::count_if(candidates.begin(), candidates.end(), begins) == 1)
    return fmt::format("; did you mean {}?", *std::find_if(candidates.begin(), candidates.end(), begins));
  std::size_t least = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    if (const std::size_t d = distance(word, candidate); d < least) {
      least = d;
      best = &candidate;
    }
  }
  return best == nullptr ? "" : fmt::format("; did you mean {}?", *best);
}

}  // namespace locant::cli

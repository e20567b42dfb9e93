// SPDX-License-Identifier: Apache-2.0
#include "core/nearest.h"

#include <algorithm>
#include <vector>

namespace locant {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

// Optimal string alignment; three rows of the table are kept.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, above);
    std::swap(above, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const char x = lower(a[i - 1]);
      const char y = lower(b[j - 1]);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (x == y ? 0U : 1U)});
      if (i > 1 && j > 1 && x == lower(b[j - 2]) && lower(a[i - 2]) == y) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

namespace {

template <class Name>
std::string nearest_of(std::string_view name, std::span<const Name> names) {
  // the table is quadratic in the lengths: a name of this length is no typing error
  constexpr std::size_t kLongest = 256;
  if (name.empty() || name.size() > kLongest) return {};
  const std::size_t within = std::max<std::size_t>(1, name.size() / 3);
  std::string_view best;
  std::size_t best_distance = within + 1;
  for (const std::string_view candidate : names) {
    if (candidate.size() > name.size() + within || candidate.size() + within < name.size()) continue;
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance && distance < std::max(name.size(), candidate.size())) {
      best = candidate;
      best_distance = distance;
    }
  }
  return std::string(best);
}

}  // namespace

std::string nearest_name(std::string_view name, std::span<const std::string_view> names) {
  return nearest_of(name, names);
}

std::string nearest_name(std::string_view name, std::span<const std::string> names) {
  return nearest_of(name, names);
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// What the rules about scores share: which key a column holds, what a query ought to see, the fit of
// score = scale * q.k + slope * (key - query) + a constant per query, and what is wrong with slopes.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "check/book.h"

namespace locant::check_room {

inline constexpr double kHidden = -9e3;  // masks of -10000 in bf16 end above that; scores stay far above

/// Which key of a row a column holds.
struct Key {
  bool content = true;
  std::int64_t column = 0;    ///< of the row, padding counted
  std::int64_t position = 0;  ///< that is due
  std::int64_t document = 0;
};

struct HeadFit {
  double scale = 0;
  double slope = 0;
  double residual = 0;       ///< relative root mean square of the centred scores that is left
  double distance = 0;       ///< root mean square of the centred distances
  double scores = 0;         ///< of the centred scores
  double scale_error = 0;    ///< standard error of the scale
  double size = 0;           ///< root mean square of what is summed and rounded on the way to a score
  double free_product = 0;   ///< root sum of squares of q.k that the distance does not explain
  double free_distance = 0;  ///< of the distance that q.k does not explain
  bool solved = false;
};

/// Sums of the normal equations, centred per query.
struct Sums {
  double xx = 0, xd = 0, dd = 0, xs = 0, ds = 0, ss = 0;
  double sizes = 0;  ///< of HeadFit::size, squared
  std::int64_t count = 0;
};

[[nodiscard]] HeadFit solve(const Sums& sums);
/// Slopes of the plan for some heads, as they stand on the scaled scores.
struct HeadRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};
[[nodiscard]] std::vector<double> due_slopes(const std::optional<Bias>& bias, const AttentionSpec& attention,
                                             HeadRange heads);
/// What is wrong with a list of slopes, in words.
[[nodiscard]] std::string slopes_text(const std::vector<double>& got, const std::vector<double>& due,
                                      double tolerance);

/// What every column of the scores stands for, by row.
[[nodiscard]] std::vector<std::vector<Key>> keys_of(const Pass& pass, std::int64_t columns);
[[nodiscard]] bool visible(const AttentionSpec& attention, const Key& query, const Key& key);
[[nodiscard]] Key query_of(const Pass& pass, const std::vector<Key>& list, std::int64_t row,
                           std::int64_t token, std::int64_t cached);
/// The first score between content and content that `is`, as its token in the pass: rows and columns of
/// padding may hold anything.
template <class Is>
[[nodiscard]] std::optional<std::size_t> first_score(const Pass& pass, const Values& scores,
                                                     const std::vector<std::vector<Key>>& keys,
                                                     const Is& is) {
  const std::int64_t columns = scores.extent(3);
  for (std::size_t i = 0; i < scores.data.size(); ++i) {
    if (!is(scores.data[i])) continue;
    const auto flat = static_cast<std::int64_t>(i);
    const std::int64_t row = flat / columns / pass.tokens / scores.extent(1);
    const std::size_t at = pass.at(row, flat / columns % pass.tokens);
    const Key& key = keys[static_cast<std::size_t>(row)][static_cast<std::size_t>(flat % columns)];
    if (pass.content[at] && key.content) return at;
  }
  return std::nullopt;
}
[[nodiscard]] bool all_shown(const Values& scores);

/// Which keys are visible, against mask, window and documents.
class MaskRules {
 public:
  explicit MaskRules(Book& book) : book_(book) {}
  void check(const Trace& trace, const Pass& pass, std::int64_t layer, const AttentionSpec& attention,
             const Values& scores, const std::vector<std::vector<Key>>& keys);

 private:
  Book& book_;
  std::set<std::string> said_;
  std::set<std::int64_t> masked_;  ///< layers whose scores were seen with their mask
};

}  // namespace locant::check_room

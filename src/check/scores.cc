// SPDX-License-Identifier: Apache-2.0
#include "check/scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace locant::check_room {

HeadFit solve(const Sums& sums) {
  HeadFit fit;
  if (sums.count < 3 || sums.xx <= 0) return fit;
  const double determinant = sums.xx * sums.dd - sums.xd * sums.xd;
  if (sums.dd > 0 && determinant > 1e-9 * sums.xx * sums.dd) {
    fit.scale = (sums.xs * sums.dd - sums.ds * sums.xd) / determinant;
    fit.slope = (sums.ds * sums.xx - sums.xs * sums.xd) / determinant;
  } else {
    fit.scale = sums.xs / sums.xx;
  }
  double left = sums.ss - fit.scale * sums.xs - fit.slope * sums.ds;
  // what cancels in doubles, more where q.k and distance are nearly the same
  const double condition = determinant > 0 ? sums.xx * sums.dd / determinant : 1;
  if (left < 1e-14 * condition * sums.ss) left = 0;
  fit.residual = sums.ss > 0 ? std::sqrt(std::max(0.0, left) / sums.ss) : 0;
  const auto count = static_cast<double>(sums.count);
  fit.distance = std::sqrt(sums.dd / count);
  fit.scores = std::sqrt(sums.ss / count);
  const double free = sums.dd > 0 ? determinant / sums.dd : sums.xx;
  fit.size = std::sqrt(sums.sizes / count);
  fit.free_product = std::sqrt(std::max(0.0, free));
  fit.free_distance = sums.xx > 0 ? std::sqrt(std::max(0.0, determinant / sums.xx)) : 0;
  if (free > 0) fit.scale_error = std::sqrt(std::max(0.0, left) / count / free);
  fit.solved = true;
  return fit;
}

std::vector<double> due_slopes(const std::optional<Bias>& bias, const AttentionSpec& attention,
                               HeadRange heads) {
  std::vector<double> slopes(static_cast<std::size_t>(heads.count), 0);
  if (!bias || bias->form != BiasForm::slopes) return slopes;
  const auto first = static_cast<std::size_t>(heads.first);
  for (std::size_t head = 0; head < slopes.size() && first + head < bias->slopes.size(); ++head)
    slopes[head] =
        bias->slopes[first + head] * (bias->scale_order == ScaleOrder::before_scale ? attention.scale : 1);
  return slopes;
}

std::string slopes_text(const std::vector<double>& got, const std::vector<double>& due, double tolerance) {
  const std::size_t heads = due.size();
  tolerance = std::min(tolerance, 0.02);
  const auto near = [&](double a, double b) {
    return std::abs(a - b) <= tolerance * std::max(std::abs(a), std::abs(b)) + 1e-9;
  };
  const double largest = std::abs(*std::max_element(
      due.begin(), due.end(), [](double a, double b) { return std::abs(a) < std::abs(b); }));
  const bool none = std::all_of(got.begin(), got.end(),
                                [&](double slope) { return std::abs(slope) <= tolerance * largest; });
  if (none) return "no slopes are applied";
  const double ratio = due[0] != 0 ? got[0] / due[0] : 0;
  bool constant = ratio != 0;
  for (std::size_t head = 0; head < heads && constant; ++head) constant = near(got[head], ratio * due[head]);
  if (constant && near(ratio, -1)) return "slopes have the other sign";
  if (constant && near(ratio, 2)) return "every slope is doubled: the bias is added 2 times";
  if (constant) return fmt::format("every slope is multiplied by {:.5g}", ratio);
  const std::vector<double> plain = [&] {
    std::vector<double> slopes(heads);
    for (std::size_t head = 0; head < heads; ++head)
      slopes[head] = std::pow(2.0, -8.0 * static_cast<double>(head + 1) / static_cast<double>(heads));
    return slopes;
  }();
  const auto equal = [&](const std::vector<double>& other) {
    for (std::size_t head = 0; head < heads; ++head) {
      if (!near(got[head], other[head])) return false;
    }
    return true;
  };
  if (equal(plain))
    return "slopes are one geometric series, where a head count that is no power of two has two";
  std::vector<double> sorted = due;
  std::vector<double> got_sorted = got;
  std::sort(sorted.begin(), sorted.end());
  std::sort(got_sorted.begin(), got_sorted.end());
  bool same_set = true;
  for (std::size_t head = 0; head < heads && same_set; ++head)
    same_set = near(sorted[head], got_sorted[head]);
  if (same_set) return "the slopes are right, but they belong to other heads";
  for (std::size_t offset = 1; offset < heads; ++offset) {
    bool repeats = true;
    for (std::size_t head = 0; head < heads && repeats; ++head) repeats = near(got[head], due[head % offset]);
    if (repeats) return fmt::format("slopes repeat every {} heads: each shard counts its own heads", offset);
  }
  return "slopes differ";
}

std::vector<std::vector<Key>> keys_of(const Pass& pass, std::int64_t columns) {
  const std::int64_t dropped = std::max<std::int64_t>(pass.width - columns, 0);
  std::vector<std::vector<Key>> keys(static_cast<std::size_t>(pass.rows));
  for (std::int64_t row = 0; row < pass.rows; ++row) {
    std::int64_t next = 0;
    std::vector<Key>& list = keys[static_cast<std::size_t>(row)];
    for (std::int64_t column = 0; column < pass.width; ++column) {
      const bool content = pass.columns[static_cast<std::size_t>(row * pass.width + column)];
      Key key{content, column, next, 0};
      if (content) ++next;
      const std::int64_t token = column - (pass.width - pass.tokens);
      if (token >= 0 && !pass.document.empty()) key.document = pass.document[pass.at(row, token)];
      if (column >= dropped) list.push_back(key);
    }
    // columns of a cache that is larger than what it holds
    while (static_cast<std::int64_t>(list.size()) < columns)
      list.push_back({false, static_cast<std::int64_t>(list.size()), 0, 0});
  }
  return keys;
}

bool visible(const AttentionSpec& attention, const Key& query, const Key& key) {
  if (!key.content || key.document != query.document) return false;
  if (!attention.bidirectional && key.column > query.column) return false;
  const std::int64_t distance = query.position - key.position;
  if (attention.kind == AttentionKind::window && attention.window > 0) {
    // of both directions the last token of the window counts, on either side
    if (attention.bidirectional ? std::abs(distance) > attention.window : distance >= attention.window)
      return false;
  }
  if (attention.kind == AttentionKind::chunk && attention.window > 0 &&
      query.position / attention.window != key.position / attention.window)
    return false;
  return true;
}

Key query_of(const Pass& pass, const std::vector<Key>& list, std::int64_t row, std::int64_t token,
             std::int64_t cached) {
  const std::int64_t column = cached + token;
  for (const Key& key : list) {
    if (key.column == column) return key;
  }
  return {true, column, pass.due.empty() ? column : pass.due[pass.at(row, token)], 0};
}

bool all_shown(const Values& scores) {
  return std::all_of(scores.data.begin(), scores.data.end(), [](float score) { return score > kHidden; });
}

}  // namespace locant::check_room

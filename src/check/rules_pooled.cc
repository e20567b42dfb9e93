// SPDX-License-Identifier: Apache-2.0
// E111: which tokens a pooled row is made of: the first, the last or the mean of a row's content is right,
// padding in it is not. A row behind a further layer is none of them, and nothing is said.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "check/embedding.h"

namespace locant::check_room {
namespace {

namespace names = trace_names;
using Row = std::vector<double>;

struct Pooling {
  std::string text;
  bool right = true;
  std::function<Row(std::int64_t)> of_row;
};

class Pooled {
 public:
  Pooled(const Pass& pass, const Values& states) : pass_(pass), states_(states) {}

  [[nodiscard]] std::vector<Pooling> known() const {
    const std::int64_t end = pass_.tokens - 1;
    const auto content = [&](std::int64_t row, std::int64_t token) {
      return bool(pass_.content[pass_.at(row, token)]);
    };
    const auto first = [=, this](std::int64_t row) {
      std::int64_t token = 0;
      while (token < end && !content(row, token)) ++token;
      return at(row, token);
    };
    const auto last = [=, this](std::int64_t row) {
      std::int64_t token = end;
      while (token > 0 && !content(row, token)) --token;
      return at(row, token);
    };
    return {
        {"the first token of content", true, first},
        {"the last token of content", true, last},
        {"the mean of content", true, [=, this](std::int64_t row) { return mean(row, content); }},
        {"the last column, which is padding", false, [=, this](std::int64_t row) { return at(row, end); }},
        {"the first column, which is padding", false, [this](std::int64_t row) { return at(row, 0); }},
        {"the mean over all columns, padding too", false,
         [this](std::int64_t row) { return mean(row, [](std::int64_t, std::int64_t) { return true; }); }}};
  }

 private:
  [[nodiscard]] Row at(std::int64_t row, std::int64_t token) const {
    const auto width = static_cast<std::ptrdiff_t>(states_.extent(2));
    const auto begin = states_.data.begin() + static_cast<std::ptrdiff_t>(pass_.at(row, token)) * width;
    return {begin, begin + width};
  }

  template <class Counts>
  [[nodiscard]] Row mean(std::int64_t row, const Counts& counts) const {
    Row sum(static_cast<std::size_t>(states_.extent(2)), 0);
    double count = 0;
    for (std::int64_t token = 0; token < pass_.tokens; ++token) {
      if (!counts(row, token)) continue;
      const Row one = at(row, token);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += one[i];
      ++count;
    }
    for (double& value : sum) value /= std::max(count, 1.0);
    return sum;
  }

  const Pass& pass_;
  const Values& states_;
};

/// Relative root mean square of `pooled` that the row leaves, a factor apart (sentence vectors are often
/// normed).
double left_of(const Row& row, const Values& pooled, std::int64_t index) {
  double xx = 0;
  double xy = 0;
  double yy = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const double y = pooled.data[static_cast<std::size_t>(index) * row.size() + i];
    xx += row[i] * row[i];
    xy += row[i] * y;
    yy += y * y;
  }
  return likeness_from(xx, xy, yy).residual;
}

void check_pass(const Trace& trace, const Pass& pass, Book& book) {
  const TensorRef tensor = pass.find(names::kPooled);
  const std::optional<Values> states = state_of(pass, names::kFinalNormOut);
  if (tensor.data == nullptr || !states) return;
  if (tensor.rank != 2 || tensor.shape[0] != pass.rows || tensor.shape[1] != states->extent(2)) {
    throw FileError(pass.path, fmt::format("{}pooled is [{},{}], got {}", pass.prefix, pass.rows,
                                           states->extent(2), tensor.shape_text()));
  }
  const Values pooled = values_of(tensor, pass.path + ": pooled");
  const double allowed = 16 * std::max(unit_roundoff(trace.dtype), unit_roundoff(tensor.dtype));
  const Pooled of(pass, *states);
  for (std::int64_t row = 0; row < pass.rows; ++row) {
    std::vector<Hypothesis> hypotheses;
    for (const Pooling& pooling : of.known()) {
      const double left = left_of(pooling.of_row(row), pooled, row);
      if (left > allowed) continue;
      book.asked("E111");
      if (pooling.right) {
        hypotheses.clear();
        break;
      }
      hypotheses.push_back({pooling.text, {}, left, allowed});
    }
    if (hypotheses.empty()) continue;
    Finding finding;
    finding.where = place_of(trace, pass, names::kPooled);
    finding.where.row = row;
    finding.message = fmt::format("pooled: row {} is {}", row, hypotheses.front().cause);
    finding.expected = std::string("content");
    finding.observed = hypotheses.front().cause;
    finding.hypotheses = std::move(hypotheses);
    book.add("E111", Depth::behaviour, std::move(finding), "pooled");
    return;
  }
}

}  // namespace

void check_pooled(const Evidence& evidence, Book& book) {
  for (const auto& trace : evidence.traces) {
    for (const Pass& pass : trace->passes) check_pass(*trace, pass, book);
  }
}

}  // namespace locant::check_room

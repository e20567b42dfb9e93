// SPDX-License-Identifier: Apache-2.0
// Embeddings and whole numbers that differ: rows of another token or position, another table, a factor, a
// shift.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "check/diff_explain.h"
#include "check/embedding.h"

namespace locant::check_room {
namespace {

namespace names = trace_names;

constexpr std::int64_t kTokens = 256;

using Row = std::vector<float>;

Row row_of(const Values& values, std::int64_t token) {
  const auto width = static_cast<std::ptrdiff_t>(values.extent(2));
  const auto begin = values.data.begin() + token * width;
  return {begin, begin + width};
}

double square(const Row& a) {
  double sum = 0;
  for (const float value : a) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

double apart(const Row& a, const Row& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double away = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += away * away;
  }
  return sum;
}

FactorFit likeness_of(const std::vector<float>& want, const std::vector<float>& got) {
  double xx = 0;
  double xy = 0;
  double yy = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const auto x = static_cast<double>(want[i]);
    const auto y = static_cast<double>(got[i]);
    xx += x * x;
    xy += x * y;
    yy += y * y;
  }
  return likeness_from(xx, xy, yy);
}

/// Content tokens of any row: [1, n, hidden] of both sides with a number for each (its id, its position).
struct Numbered {
  std::vector<std::int64_t> row;
  std::vector<std::int64_t> content;
  std::vector<std::int64_t> number;
  std::vector<Row> want;
  std::vector<Row> got;
};

enum class By : std::uint8_t { id, position };

Numbered numbered(const Suspect& suspect, const FlowName& name, By by) {
  Numbered all;
  for (std::int64_t row = 0; row < suspect.pair.rows; ++row) {
    Suspect of = suspect;
    of.row = row;
    of.content = row == suspect.row ? suspect.content : 0;
    const Excerpt excerpt = excerpt_of(of, kTokens);
    const std::optional<Values> want = values_in(suspect.pair.want, excerpt, name, {});
    const std::optional<Values> got = values_in(suspect.pair.got, excerpt, name, {});
    if (!want || !got || want->shape.size() != 3 || want->shape != got->shape) continue;
    for (std::int64_t n = 0; n < excerpt.count(); ++n) {
      const std::int64_t content = excerpt.begin + n;
      const TokenPlace place = *suspect.pair.want.place(row, content);
      const Pass& pass = suspect.pair.want.pass(place.pass);
      if (by == By::id && pass.ids.empty()) continue;
      all.row.push_back(row);
      all.content.push_back(content);
      all.number.push_back(by == By::id ? pass.ids[pass.at(row, place.token)]
                                        : excerpt.pass.due[static_cast<std::size_t>(n)]);
      all.want.push_back(row_of(*want, n));
      all.got.push_back(row_of(*got, n));
    }
  }
  return all;
}

/// The number whose row of the first each row of the second is; kUnknown where it is none.
std::vector<std::int64_t> numbers_of_got(const Numbered& all, double allowed) {
  std::map<std::int64_t, const Row*> table;
  for (std::size_t i = 0; i < all.number.size(); ++i) table.emplace(all.number[i], &all.want[i]);
  std::vector<std::int64_t> found;
  for (std::size_t i = 0; i < all.got.size(); ++i) {
    std::int64_t best = INT64_MIN;
    const double size = square(all.got[i]);
    double least = allowed * allowed * size;
    const auto own = table.find(all.number[i]);
    if (own != table.end() && apart(all.got[i], *own->second) <= least) {
      found.push_back(all.number[i]);
      continue;
    }
    for (const auto& [number, row] : table) {
      const double away = apart(all.got[i], *row);
      if (away > least) continue;
      least = away;
      best = number;
    }
    found.push_back(best);
  }
  return found;
}

/// A constant shift of the numbers in the suspect's row, where every row of the second that is known has it.
void add_shift(const Suspect& suspect, const Numbered& all, std::string_view word,
               std::vector<Hypothesis>& causes) {
  const double allowed = 8 * half_step(suspect.dtype);
  const std::vector<std::int64_t> at = numbers_of_got(all, allowed);
  std::optional<std::int64_t> shift;
  std::int64_t agreeing = 0;
  std::int64_t known = 0;
  std::size_t first = 0;
  for (std::size_t i = 0; i < at.size(); ++i) {
    if (all.row[i] != suspect.row || at[i] == INT64_MIN || at[i] == all.number[i]) continue;
    if (!shift) {
      shift = at[i] - all.number[i];
      first = i;
    }
    ++known;
    if (at[i] - all.number[i] == *shift) ++agreeing;
  }
  if (!shift) return;
  const bool constant = agreeing == known;
  Hypothesis one;
  one.cause =
      constant ? fmt::format("row {}: the row of a {} {} {} is taken: {} where {} is due", suspect.row, word,
                             std::abs(*shift), *shift > 0 ? "higher" : "lower", at[first], all.number[first])
               : fmt::format("token {} of row {}: the row of {} {} is taken where {} is due",
                             all.content[first], suspect.row, word, at[first], all.number[first]);
  one.parameters = {{"shift", static_cast<double>(*shift)}};
  double left = 0;
  double total = 0;
  std::map<std::int64_t, const Row*> table;
  for (std::size_t i = 0; i < all.number.size(); ++i) table.emplace(all.number[i], &all.want[i]);
  for (std::size_t i = 0; i < at.size(); ++i) {
    if (all.row[i] != suspect.row) continue;
    const auto row = table.find(constant ? all.number[i] + *shift : at[i]);
    if (row == table.end()) continue;
    left += apart(all.got[i], *row->second);
    total += square(all.got[i]);
  }
  one.residual = total > 0 ? std::sqrt(left / total) : 0;
  one.budget = allowed;
  causes.push_back(std::move(one));
}

/// The second's rows belong to ids all the same, but no factor makes them the first's.
void add_other_table(const Suspect& suspect, const Numbered& all, std::vector<Hypothesis>& causes) {
  std::map<std::int64_t, const Row*> table;
  double left = 0;
  double total = 0;
  std::vector<float> want;
  std::vector<float> got;
  for (std::size_t i = 0; i < all.number.size(); ++i) {
    want.insert(want.end(), all.want[i].begin(), all.want[i].end());
    got.insert(got.end(), all.got[i].begin(), all.got[i].end());
    const auto [entry, fresh] = table.emplace(all.number[i], &all.got[i]);
    if (!fresh) left += apart(all.got[i], *entry->second);
    total += square(all.got[i]);
  }
  if (total == 0 || likeness_of(want, got).residual < 0.5) return;
  double want_size = 0;
  for (const float value : want) want_size += static_cast<double>(value) * static_cast<double>(value);
  const auto count = static_cast<double>(want.size());
  causes.push_back({fmt::format("rows come from another table, such as an untied head: root mean square "
                                "{:.4g} where {:.4g} is due, "
                                "no factor makes one of the other",
                                std::sqrt(total / count), std::sqrt(want_size / count)),
                    {},
                    std::sqrt(left / total),
                    4 * half_step(suspect.dtype)});
}

/// What each side multiplied its looked-up rows by.
void add_scales(const Suspect& suspect, std::vector<Hypothesis>& causes) {
  const Excerpt excerpt = excerpt_of(suspect, kTokens);
  const FlowName tokens = flow_of(names::kEmbedTokens);
  const FlowName out = flow_of(names::kEmbedOut);
  std::vector<FactorFit> fits;
  for (const Side* const side : {&suspect.pair.want, &suspect.pair.got}) {
    const std::optional<Values> in = values_in(*side, excerpt, tokens, {});
    std::optional<Values> state = values_in(*side, excerpt, out, {});
    if (!in || !state || in->shape != state->shape) return;
    if (const std::optional<Values> added = values_in(*side, excerpt, flow_of(names::kEmbedPositions), {})) {
      for (std::size_t i = 0; i < state->data.size() && i < added->data.size(); ++i)
        state->data[i] -= added->data[i];
    }
    fits.push_back(likeness_of(in->data, state->data));
  }
  if (fits[0].factor == fits[1].factor) return;
  causes.push_back(
      {fmt::format("rows are multiplied by {:.6g} where {:.6g} is due", fits[1].factor, fits[0].factor),
       {{"scale", fits[1].factor}},
       fits[1].residual,
       4 * half_step(suspect.dtype)});
}

/// What is added to the looked-up rows, where it is not recorded by itself.
void add_moved_positions(const Suspect& suspect, std::vector<Hypothesis>& causes) {
  Numbered state = numbered(suspect, flow_of(names::kEmbedOut), By::position);
  const Numbered tokens = numbered(suspect, flow_of(names::kEmbedTokens), By::position);
  if (state.want.size() != tokens.want.size()) return;
  for (std::size_t i = 0; i < state.want.size(); ++i) {
    for (std::size_t j = 0; j < state.want[i].size(); ++j) {
      state.want[i][j] -= tokens.want[i][j];
      state.got[i][j] -= tokens.got[i][j];
    }
  }
  add_shift(suspect, state, "position", causes);
}

}  // namespace

std::vector<Hypothesis> row_causes(const Suspect& suspect) {
  std::vector<Hypothesis> causes;
  if (suspect.name.bare == names::kEmbedTokens) {
    const Numbered all = numbered(suspect, suspect.name, By::id);
    add_shift(suspect, all, "token", causes);
    add_other_table(suspect, all, causes);
  } else if (suspect.name.bare == names::kEmbedPositions) {
    add_shift(suspect, numbered(suspect, suspect.name, By::position), "position", causes);
  } else if (suspect.name.bare == names::kEmbedOut) {
    add_scales(suspect, causes);
    add_moved_positions(suspect, causes);
  }
  return causes;
}

std::vector<Hypothesis> integer_causes(const Suspect& suspect) {
  if (suspect.name.bare != names::kPositionIds) return {};
  // pairs of numbers of the axis that differs first
  std::vector<std::pair<double, double>> pairs;
  std::int64_t axis = -1;
  const Pair& pair = suspect.pair;
  const std::int64_t limit = pair.limit[static_cast<std::size_t>(suspect.row)];
  for (std::int64_t content = 0; content < limit; ++content) {
    const TokenPlace want = *pair.want.place(suspect.row, content);
    const TokenPlace got = *pair.got.place(suspect.row, content);
    const Pass& a = pair.want.pass(want.pass);
    const Pass& b = pair.got.pass(got.pass);
    if (a.stated_axes == 0 || b.stated_axes == 0) continue;
    for (std::int64_t each = 0; each < std::max(a.stated_axes, b.stated_axes); ++each) {
      const auto of = [&](const Pass& pass, std::int64_t token) {
        const auto plane = static_cast<std::size_t>(pass.stated_axes == 1 ? 0 : each) * pass.content.size();
        return static_cast<double>(pass.stated[plane + pass.at(suspect.row, token)]);
      };
      const double is_due = of(a, want.token);
      const double is = of(b, got.token);
      if (is == is_due || (axis >= 0 && each != axis)) continue;
      axis = each;
      pairs.emplace_back(is_due, is);
    }
  }
  if (pairs.empty()) return {};
  const bool multi = pair.want.pass(suspect.pass).stated_axes > 1;
  const std::string where =
      multi ? fmt::format("axis {} of row {}", axis, suspect.row) : fmt::format("row {}", suspect.row);
  std::vector<Hypothesis> causes;
  const auto [due, is] = pairs.front();
  const auto left_by = [&](auto made) {
    double left = 0;
    double total = 0;
    for (const auto& [x, y] : pairs) {
      left += (y - made(x)) * (y - made(x));
      total += y * y;
    }
    return total > 0 ? std::sqrt(left / total) : std::sqrt(left);
  };
  const double shift = is - due;
  causes.push_back({fmt::format("{}: positions are {} too {}: {} where {} is due", where, std::abs(shift),
                                shift > 0 ? "high" : "low", is, due),
                    {{"shift", shift}},
                    left_by([shift = shift](double x) { return x + shift; }),
                    0});
  if (due != 0 && is != 0) {
    const double factor = is / due;
    causes.push_back(
        {fmt::format("{}: positions are multiplied by {:.6g}: {} where {} is due", where, factor, is, due),
         {{"factor", factor}},
         left_by([factor](double x) { return factor * x; }),
         0});
  }
  std::stable_sort(causes.begin(), causes.end(),
                   [](const Hypothesis& a, const Hypothesis& b) { return a.residual < b.residual; });
  return causes;
}

}  // namespace locant::check_room

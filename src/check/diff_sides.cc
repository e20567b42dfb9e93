// SPDX-License-Identifier: Apache-2.0
#include "check/diff_sides.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace locant::check_room {
namespace {

namespace names = trace_names;

bool has_mask(const Trace& trace) {
  return !trace.passes.empty() && trace.passes.front().find(names::kAttentionMask).data != nullptr;
}

/// Equal ids in equal columns are padded alike, whichever of the two says so.
void share_mask(const Trace& from, Trace& to) {
  if (!has_mask(from) || has_mask(to) || from.passes.size() != to.passes.size()) return;
  for (std::size_t at = 0; at < from.passes.size(); ++at) {
    const Pass& a = from.passes[at];
    const Pass& b = to.passes[at];
    if (a.ids.empty() || a.ids != b.ids || a.tokens != b.tokens || a.rows != b.rows) return;
  }
  for (std::size_t at = 0; at < from.passes.size(); ++at) {
    const Pass& a = from.passes[at];
    Pass& b = to.passes[at];
    b.content = a.content;
    b.columns = a.columns;
    b.width = a.width;
    b.past = a.past;
    b.due = a.due;
    b.axes = a.axes;
  }
}

Side side_of(const Trace& trace, std::int64_t rows) {
  Side side;
  side.trace = &trace;
  side.tokens.resize(static_cast<std::size_t>(rows));
  for (std::size_t at = 0; at < trace.passes.size(); ++at) {
    const Pass& pass = trace.passes[at];
    std::vector<std::int64_t>& index = side.index.emplace_back(pass.content.size(), kPadding);
    for (std::int64_t row = 0; row < rows; ++row) {
      std::vector<TokenPlace>& list = side.tokens[static_cast<std::size_t>(row)];
      for (std::int64_t token = 0; token < pass.tokens; ++token) {
        if (!pass.content[pass.at(row, token)]) continue;
        index[pass.at(row, token)] = static_cast<std::int64_t>(list.size());
        list.push_back({at, token});
      }
    }
  }
  return side;
}

std::optional<std::int64_t> id_of(const Side& side, std::int64_t row, std::int64_t content) {
  const TokenPlace* const place = side.place(row, content);
  if (place == nullptr) return std::nullopt;
  const Pass& pass = side.pass(place->pass);
  if (pass.ids.empty()) return std::nullopt;
  return pass.ids[pass.at(row, place->token)];
}

/// Tokens of the row that are the same in both; a prompt that differs is refused.
std::int64_t common_tokens(Pair& pair, std::int64_t row, std::vector<std::string>& notes) {
  const auto at = static_cast<std::size_t>(row);
  const auto count =
      static_cast<std::int64_t>(std::min(pair.want.tokens[at].size(), pair.got.tokens[at].size()));
  for (std::int64_t content = 0; content < count; ++content) {
    const std::optional<std::int64_t> want = id_of(pair.want, row, content);
    const std::optional<std::int64_t> got = id_of(pair.got, row, content);
    if (!want || !got || *want == *got) continue;
    const TokenPlace place = *pair.want.place(row, content);
    if (place.pass == 0 || pair.got.place(row, content)->pass == 0) {
      throw FileError(
          pair.got.trace->path,
          fmt::format("two traces of the same tokens are compared, token {} of row {} is {} here and "
                      "{} in {}",
                      content, row, *got, *want, pair.want.trace->path));
    }
    Divergence other;
    other.tensor = pair.want.pass(place.pass).prefix;
    other.tensor = other.tensor.substr(names::step_prefix(pair.want.pass(place.pass).step).size()) +
                   std::string(names::kInputIds);
    other.step = pair.want.pass(place.pass).step;
    other.row = row;
    other.token = place.token;
    other.got = static_cast<double>(*got);
    other.want = static_cast<double>(*want);
    other.difference = std::abs(static_cast<double>(*got) - static_cast<double>(*want));
    pair.other_tokens.push_back(std::move(other));
    notes.push_back(
        fmt::format("row {} goes on with other tokens from token {} on: compared up to there", row, content));
    return content;
  }
  return count;
}

bool fed_alike(const Pair& pair) {
  if (pair.want.trace->passes.size() != pair.got.trace->passes.size()) return false;
  for (std::size_t at = 0; at < pair.want.trace->passes.size(); ++at) {
    const Pass& want = pair.want.pass(at);
    const Pass& got = pair.got.pass(at);
    if (want.tokens != got.tokens || want.content != got.content || want.step != got.step) return false;
  }
  return true;
}

}  // namespace

const TokenPlace* Side::place(std::int64_t row, std::int64_t content) const {
  const std::vector<TokenPlace>& list = tokens[static_cast<std::size_t>(row)];
  if (content < 0 || content >= static_cast<std::int64_t>(list.size())) return nullptr;
  return &list[static_cast<std::size_t>(content)];
}

Pair pair_up(Trace& want, Trace& got, std::vector<std::string>& notes) {
  Pair pair;
  const auto rows_of = [](const Trace& trace) {
    return trace.passes.empty() ? 0 : trace.passes.front().rows;
  };
  if (rows_of(want) != rows_of(got)) {
    throw FileError(got.path,
                    fmt::format("two traces of the same rows are compared, here are {} and {} in {}",
                                rows_of(got), rows_of(want), want.path));
  }
  share_mask(want, got);
  share_mask(got, want);
  pair.rows = rows_of(want);
  pair.want = side_of(want, pair.rows);
  pair.got = side_of(got, pair.rows);
  for (std::int64_t row = 0; row < pair.rows; ++row) pair.limit.push_back(common_tokens(pair, row, notes));
  pair.same_passes = fed_alike(pair);
  if (!pair.same_passes && !pair.limit.empty())
    notes.emplace_back(
        "the two were fed in other pieces or padded otherwise: tokens are matched by their place in the row");
  return pair;
}

}  // namespace locant::check_room

// SPDX-License-Identifier: Apache-2.0
// Calls of a runtime: rows into views, logits back, of a large vocabulary evenly spread columns alone.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "check/live.h"

namespace locant::check_room {
namespace {

/// Columns that are looked at: a fault of positions moves all of them, and memory stays small.
constexpr std::int64_t kColumns = 4096;

Ids flat(const std::vector<Ids>& rows) {
  Ids all;
  for (const Ids& row : rows) all.insert(all.end(), row.begin(), row.end());
  return all;
}

Ids cut(const Ids& row, std::int64_t first, std::int64_t count) {
  return {row.begin() + first, row.begin() + first + count};
}

}  // namespace

Logits Logits::part(std::int64_t first, std::int64_t count) const {
  return {columns, {data.begin() + first * columns, data.begin() + (first + count) * columns}};
}

void Logits::append(const Logits& more) {
  columns = more.columns;
  data.insert(data.end(), more.data.begin(), more.data.end());
}

Drive::Drive(Runtime& runtime, std::int64_t capacity) : runtime_(runtime), capacity_(capacity) {}

std::vector<Logits> Drive::feed(RuntimeSession& session, const Call& call) {
  const auto B = static_cast<std::int64_t>(call.ids.size());
  const auto T = static_cast<std::int64_t>(call.ids.front().size());
  const std::int64_t V = runtime_.vocab();
  const Ids ids = flat(call.ids);
  const Ids mask = flat(call.mask);
  const Ids documents = flat(call.documents);
  Ids positions;
  for (std::int64_t axis = 0; axis < axes_; ++axis) {
    const Ids of_axis = flat(call.positions);
    positions.insert(positions.end(), of_axis.begin(), of_axis.end());
  }
  ForwardCall forward{.ids = {ids.data(), {B, T}}, .mask = {}, .positions = {}};
  if (!mask.empty())
    forward.mask.emplace(mask.data(), View<const std::int64_t, 2>::Shape{
                                          B, static_cast<std::int64_t>(call.mask.front().size())});
  if (!positions.empty())
    forward.positions.emplace(positions.data(), View<const std::int64_t, 3>::Shape{axes_, B, T});
  if (!documents.empty())
    forward.documents.emplace(documents.data(), View<const std::int64_t, 2>::Shape{B, T});
  // what a runtime leaves unwritten is not a number, and shows
  std::vector<float> all(static_cast<std::size_t>(B * T * V), std::numeric_limits<float>::quiet_NaN());
  session.forward(forward, {all.data(), {B, T, V}});
  const std::int64_t kept = std::min(V, kColumns);
  std::vector<Logits> rows(static_cast<std::size_t>(B));
  for (std::int64_t b = 0; b < B; ++b) {
    Logits& row = rows[static_cast<std::size_t>(b)];
    row.columns = kept;
    row.data.reserve(static_cast<std::size_t>(T * kept));
    for (std::int64_t t = 0; t < T; ++t) {
      for (std::int64_t i = 0; i < kept; ++i)
        row.data.push_back(all[static_cast<std::size_t>((b * T + t) * V + i * V / kept)]);
    }
  }
  return rows;
}

void Drive::run_in(RuntimeSession& session, const RowRun& run, Logits& logits) {
  const auto tokens = static_cast<std::int64_t>(run.ids.size());
  std::int64_t first = 0;
  for (const std::int64_t count : run.cuts.empty() ? Ids{tokens} : run.cuts) {
    Call call{.ids = {cut(run.ids, first, count)}};
    if (!run.positions.empty() && first >= run.given_from)
      call.positions = {cut(run.positions, first, count)};
    if (!run.documents.empty()) call.documents = {cut(run.documents, first, count)};
    logits.append(feed(session, call).front());
    first += count;
  }
}

Logits Drive::run(const RowRun& run) {
  Logits logits;
  const auto session = open();
  run_in(*session, run, logits);
  return logits;
}

std::vector<Logits> Drive::run(const BatchRun& run) {
  const std::size_t B = run.rows.size();
  std::int64_t width = run.width;
  for (const Ids& row : run.rows) width = std::max(width, static_cast<std::int64_t>(row.size()) - run.steps);
  const bool uneven = std::any_of(run.rows.begin(), run.rows.end(), [&](const Ids& row) {
    return static_cast<std::int64_t>(row.size()) - run.steps != width;
  });
  Call prompt;
  std::vector<std::int64_t> first(B, 0);
  std::vector<std::int64_t> length(B, 0);
  for (std::size_t b = 0; b < B; ++b) {
    length[b] = static_cast<std::int64_t>(run.rows[b].size()) - run.steps;
    first[b] = run.padding == Padding::left ? width - length[b] : 0;
    Ids ids(static_cast<std::size_t>(width), run.pad_id);
    Ids mask(static_cast<std::size_t>(width), 0);
    std::copy(run.rows[b].begin(), run.rows[b].begin() + length[b], ids.begin() + first[b]);
    std::fill(mask.begin() + first[b], mask.begin() + first[b] + length[b], 1);
    prompt.ids.push_back(std::move(ids));
    if (uneven) prompt.mask.push_back(std::move(mask));
  }
  const auto session = open();
  const std::vector<Logits> padded = feed(*session, prompt);
  std::vector<Logits> rows(B);
  for (std::size_t b = 0; b < B; ++b) rows[b] = padded[b].part(first[b], length[b]);
  std::vector<Ids> mask = prompt.mask;
  for (std::int64_t step = 0; step < run.steps; ++step) {
    Call call;
    for (std::size_t b = 0; b < B; ++b)
      call.ids.push_back({run.rows[b][static_cast<std::size_t>(length[b] + step)]});
    for (Ids& row : mask) row.push_back(1);
    call.mask = mask;
    const std::vector<Logits> next = feed(*session, call);
    for (std::size_t b = 0; b < B; ++b) rows[b].append(next[b]);
  }
  return rows;
}

bool Drive::takes_positions(std::int64_t id) {
  for (const std::int64_t axes : {1, 3, 4}) {
    axes_ = axes;
    try {
      (void)run({.ids = {id, id}, .positions = {0, 1}});
      return true;
    } catch (const SpecError&) {  // what a runtime does not take
    }
  }
  axes_ = 1;
  return false;
}

Ids prompt_then_steps(std::int64_t tokens, std::int64_t steps) {
  Ids cuts{tokens - steps};
  cuts.insert(cuts.end(), static_cast<std::size_t>(steps), 1);
  return cuts;
}

Ids counted(std::int64_t first, std::int64_t count) {
  Ids positions(static_cast<std::size_t>(count));
  std::iota(positions.begin(), positions.end(), first);
  return positions;
}

}  // namespace locant::check_room

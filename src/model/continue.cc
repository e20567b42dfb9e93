// SPDX-License-Identifier: Apache-2.0
// Continuation of a batch: rows end on their own, the others go on.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "locant/model.h"
#include "locant/ops.h"
#include "model/sample.h"

namespace locant {

std::int64_t choose_greedy(View<const float, 1> logits) {
  std::array<Candidate, 1> best{};
  if (top_candidates(logits, best) == 0) {
    throw SpecError(
        fmt::format("run: a next token must have a comparable logit, all {} are NaN", logits.extent(0)));
  }
  return best[0].id;
}

std::vector<Continuation> continue_rows(Session& session, const ContinueOptions& options,
                                        const TokenReader& reader) {
  const auto rows = static_cast<std::size_t>(session.rows());
  if (options.first.size() != rows) {
    throw SpecError(
        fmt::format("run: a continuation must have one first token for each of the {} rows, got {}", rows,
                    options.first.size()));
  }
  if (options.tokens < 0) {
    throw SpecError(fmt::format("run: the tokens to add must be 0 or more, got {}", options.tokens));
  }
  Sampler sampler(options.sampling);
  std::vector<Continuation> result(rows);
  std::vector<std::int64_t> next(options.first.begin(), options.first.end());
  std::vector<std::int64_t> ids(rows), row_tokens(rows), fed(rows);
  for (Continuation& row : result) row.ids.reserve(static_cast<std::size_t>(options.tokens));
  std::vector<bool> going(rows, options.tokens > 0);
  std::int64_t step = 0;
  const LogitsReader choose = [&](std::int64_t first, View<const float, 2> logits) {
    for (std::int64_t i = 0; i < logits.extent(0); ++i) {
      const View<const float, 1> row(&logits(i, 0), {logits.extent(1)});
      const std::int64_t of = fed[static_cast<std::size_t>(first + i)];
      next[static_cast<std::size_t>(of)] = sampler.choose(row, of, step);
    }
  };
  while (true) {
    std::size_t count = 0;
    for (std::size_t row = 0; row < rows; ++row) {
      row_tokens[row] = 0;
      if (!going[row]) continue;
      Continuation& continuation = result[row];
      continuation.ids.push_back(next[row]);
      if (reader) reader(static_cast<std::int64_t>(row), next[row]);
      if (std::find(options.end_tokens.begin(), options.end_tokens.end(), next[row]) !=
          options.end_tokens.end()) {
        continuation.stop = Stop::end_token;
        going[row] = false;
      } else if (static_cast<std::int64_t>(continuation.ids.size()) == options.tokens) {
        going[row] = false;
      } else {
        ids[count] = next[row];
        fed[count] = static_cast<std::int64_t>(row);
        row_tokens[row] = 1;
        ++count;
      }
    }
    if (count == 0) return result;
    if (options.interrupt != nullptr && options.interrupt->load(std::memory_order_relaxed)) {
      for (std::size_t i = 0; i < count; ++i)
        result[static_cast<std::size_t>(fed[i])].stop = Stop::interrupted;
      return result;
    }
    ++step;
    session.feed({.ids = std::span(ids).first(count), .row_tokens = row_tokens, .positions = {}},
                 LogitsOf::last_of_row, choose);
  }
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
#include "cli/windows.h"

#include <fmt/format.h>

#include <algorithm>

namespace locant::cli {
namespace {

bool asks_for_more_than_loss(const RunOptions& options) {
  return options.continue_tokens > 0 || !options.logits_file.empty() || !options.trace_file.empty() ||
         !options.positions_file.empty() || options.start != 0;
}

/// One window: tokens [begin, end) of a row, of which those from `scored` on are new.
struct Window {
  std::size_t row = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t scored = 0;
};

void read_window(const WindowJob& job, const Window& window, PromptScores& scores, WindowAnswer& answer) {
  const auto& all = job.rows[window.row];
  const Rows piece{{all.begin() + window.begin, all.begin() + window.end}};
  const std::int64_t length = window.end - window.begin;
  SessionOptions wanted;
  wanted.capacity = length;
  wanted.cache = job.cache;
  const std::unique_ptr<Session> session = job.model.open_session(wanted);
  PromptScores own(piece, job.model.vocab(), scores.options());
  // The token before the first scored one predicts it; no logits are needed of those before that.
  const std::int64_t silent = std::max<std::int64_t>(window.scored - 1 - window.begin, 0);
  const std::span<const std::int64_t> ids = piece.front();
  if (silent > 0) {
    const std::vector<std::int64_t> count{silent};
    session->feed({.ids = ids.first(static_cast<std::size_t>(silent)), .row_tokens = count, .positions = {}},
                  LogitsOf::last_of_row, [](std::int64_t, View<const float, 2>) {});
  }
  const std::vector<std::int64_t> count{length - silent};
  session->feed({.ids = ids.subspan(static_cast<std::size_t>(silent)), .row_tokens = count, .positions = {}},
                LogitsOf::all, [&](std::int64_t first, View<const float, 2> logits) {
                  own.read(silent + first, logits, job.pool);
                });
  for (std::int64_t token = window.scored; token < window.end; ++token) {
    const auto at = static_cast<std::size_t>(token);
    scores.log_probabilities[window.row][at] =
        own.log_probabilities.front()[static_cast<std::size_t>(token - window.begin)];
    answer.positions[window.row].front()[at] = token - window.begin;
  }
  if (own.first_non_finite && !scores.first_non_finite) {
    scores.first_non_finite =
        PlaceInRow{static_cast<std::int64_t>(window.row), window.begin + own.first_non_finite->token};
  }
  scores.next[window.row] = own.next.front();
  ++answer.windows;
  answer.tokens += length;
}

}  // namespace

std::optional<Windows> windows_for(const RunOptions& options, const Model& model,
                                   const std::vector<std::int64_t>& lengths) {
  if (!options.loss) return std::nullopt;
  const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  const std::optional<std::int64_t> last = model.last_position();
  const bool asked = options.window > 0 || options.stride > 0;
  const bool past_table = last && longest > *last + 1 && !asks_for_more_than_loss(options);
  if (!asked && !past_table) return std::nullopt;
  Windows windows;
  const LengthSpec& stated = model.spec().lengths;
  windows.window =
      options.window > 0 ? options.window : stated.configured.value_or(stated.trained.value_or(0));
  if (options.window == 0 && last) {
    windows.window = windows.window > 0 ? std::min(windows.window, *last + 1) : *last + 1;
  }
  if (windows.window == 0)
    throw SpecError("run: --stride needs a --window here, the model states no length of its own");
  if (last && windows.window > *last + 1) {
    throw SpecError(fmt::format("run: --window is at most the {} positions of the table, got {}", *last + 1,
                                windows.window));
  }
  windows.stride = options.stride > 0 ? options.stride : std::max<std::int64_t>(windows.window / 2, 1);
  if (windows.stride >= windows.window) {
    throw SpecError(fmt::format("run: --stride is below the window of {} tokens, got {}", windows.window,
                                windows.stride));
  }
  return windows;
}

WindowAnswer score_windows(const WindowJob& job, PromptScores& scores) {
  WindowAnswer answer;
  std::int64_t all = 0;
  for (const auto& row : job.rows) {
    all += static_cast<std::int64_t>(row.size());
    answer.positions.push_back({std::vector<std::int64_t>(row.size(), 0)});
  }
  std::int64_t done = 0;
  for (std::size_t row = 0; row < job.rows.size(); ++row) {
    const auto length = static_cast<std::int64_t>(job.rows[row].size());
    std::int64_t scored = 0;
    for (std::int64_t begin = 0; scored < length; begin += job.windows.stride) {
      answer.interrupted = job.interrupt.load(std::memory_order_relaxed);
      if (answer.interrupted) return answer;
      const std::int64_t end = std::min(begin + job.windows.window, length);
      read_window(job, {row, begin, end, scored}, scores, answer);
      done += end - scored;
      scored = end;
      if (job.progress) job.progress(done, all);
    }
  }
  return answer;
}

}  // namespace locant::cli

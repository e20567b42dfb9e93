// SPDX-License-Identifier: Apache-2.0
#include "cli/run_passes.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/stream.h"

namespace locant::cli {
namespace {

/// One line of progress, ten times a second at most.
class Pace {
 public:
  Pace(Progress& progress, std::string what, std::int64_t all)
      : progress_(progress), what_(std::move(what)), all_(all) {
    progress_.show(fmt::format("{} {} tokens", what_, all_));
  }
  void show(std::int64_t done) {
    const double seconds = seconds_since(begin_);
    constexpr double kInterval = 0.1;
    if (seconds < shown_ + kInterval) return;
    shown_ = seconds;
    progress_.show(fmt::format("{} {} of {} tokens, {:.0f} tokens/s", what_, done, all_,
                               static_cast<double>(done) / seconds));
  }

 private:
  Progress& progress_;
  std::string what_;
  std::int64_t all_;
  Clock::time_point begin_ = Clock::now();
  double shown_ = 0;
};

std::int64_t count_of(const Rows& rows) {
  std::int64_t count = 0;
  for (const auto& row : rows) count += static_cast<std::int64_t>(row.size());
  return count;
}

std::string_view word_of(Stop stop) {
  if (stop == Stop::end_token) return "end_token";
  return stop == Stop::interrupted ? "interrupted" : "length";
}

}  // namespace

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

Asks what_is_asked(const RunOptions& options, const Model& model) {
  const std::string& family = model.spec().family;
  if (!options.decoder_ids.empty() && !model.has_encoder()) {
    throw SpecError(fmt::format("run: --decoder-ids are for a model with an encoder, {} has none", family));
  }
  const bool states = !options.embed_file.empty() || !model.has_head();
  if (!states && !model.is_bidirectional()) return Asks::next_tokens;
  std::string_view flag;
  if (options.continue_tokens > 0) flag = "--continue";
  if (options.loss) flag = "--loss";
  if (!options.logits_file.empty() && !model.has_head()) flag = "--logits";
  if (!flag.empty()) {
    throw SpecError(fmt::format(
        "run: {} needs a model {}, got {}", flag,
        model.has_head() ? "that predicts the next token" : "with a language-model head", family));
  }
  return states ? Asks::states : Asks::masked_tokens;
}

void read_prompt_rows(const Run& run, const Rows& rows, const RowPositions& positions, PromptScores& scores,
                      Timing& timing) {
  double reading = 0;
  Pace pace(run.progress, "reading", count_of(rows));
  const Clock::time_point begin = Clock::now();
  timing.prompt_tokens +=
      feed_rows(*run.session, rows, positions, [&](std::int64_t first, View<const float, 2> logits) {
        const Clock::time_point from = Clock::now();
        scores.read(first, logits, run.pool);
        pace.show(first + logits.extent(0));
        reading += seconds_since(from);
      });
  timing.prompt_s += seconds_since(begin) - reading;
}

void read_states(const Run& run, const Rows& rows, const RowPositions& positions, PooledStates& pooled,
                 Timing& timing) {
  const FlatRows flat(rows);
  const std::vector<std::int64_t> at =
      positions.explicit_ids ? positions.concatenated() : std::vector<std::int64_t>{};
  FeedCall call = flat.call();
  call.positions = at;
  call.axes = positions.axes;
  Pace pace(run.progress, "reading", count_of(rows));
  const StatesReader reader = [&](std::int64_t first, View<const float, 2> states) {
    pooled.read(first, states);
    pace.show(first + states.extent(0));
  };
  const Clock::time_point begin = Clock::now();
  if (run.model.has_encoder()) {
    run.session->encode(call, reader);
  } else {
    run.session->feed_states(call, reader);
  }
  timing.prompt_tokens += count_of(rows);
  timing.prompt_s += seconds_since(begin);
}

void read_encoder(const Run& run, const Rows& rows, Timing& timing) {
  run.progress.show(fmt::format("encoding {} tokens", count_of(rows)));
  const FlatRows flat(rows);
  const Clock::time_point begin = Clock::now();
  run.session->encode(flat.call(), {});
  timing.prompt_tokens += count_of(rows);
  timing.prompt_s += seconds_since(begin);
}

WindowAnswer read_windows(const Run& run, const Windows& windows, const Rows& rows, PromptScores& scores,
                          Timing& timing) {
  Pace pace(run.progress, "scoring", count_of(rows));
  const InterruptWatch watch;
  const Clock::time_point begin = Clock::now();
  WindowAnswer answer = score_windows({.model = run.model,
                                       .rows = rows,
                                       .windows = windows,
                                       .cache = run.options.cache,
                                       .pool = run.pool,
                                       .interrupt = watch.flag(),
                                       .progress = [&](std::int64_t done, std::int64_t) { pace.show(done); }},
                                      scores);
  timing.prompt_tokens += answer.tokens;
  timing.prompt_s += seconds_since(begin);
  return answer;
}

void continue_rows(const Run& run, RunReport& report, const TextReader& shown) {
  report.continuations.resize(report.rows.size());
  if (run.options.continue_tokens == 0) return;
  const std::vector<std::int64_t>& choice = report.scores.choice;
  if (std::find(choice.begin(), choice.end(), -1) != choice.end()) {
    for (RowContinuation& continuation : report.continuations) continuation.stop = "not_finite";
    return;
  }
  std::vector<TextStream> streams;
  if (report.tokenizer != nullptr) {
    for (const auto& row : report.rows) streams.emplace_back(*report.tokenizer, row);
  }
  ContinueOptions options;
  options.tokens = run.options.continue_tokens;
  options.first = choice;
  options.end_tokens = run.special.end;
  options.sampling = run.options.sampling;
  const InterruptWatch watch;
  options.interrupt = &watch.flag();
  const Clock::time_point begin = Clock::now();
  const auto take = [&](std::size_t row, const std::string& text) {
    report.continuations[row].text += text;
    if (shown) shown(text);
  };
  const std::vector<Continuation> made =
      continue_rows(*run.session, options, [&](std::int64_t row, std::int64_t id) {
        const auto r = static_cast<std::size_t>(row);
        report.continuations[r].ids.push_back(id);
        if (!streams.empty()) take(r, streams[r].add(id));
      });
  report.timing.generated_s = seconds_since(begin);
  bool interrupted = false;
  for (std::size_t row = 0; row < made.size(); ++row) {
    if (!streams.empty()) take(row, streams[row].finish());
    report.continuations[row].stop = word_of(made[row].stop);
    interrupted = interrupted || made[row].stop == Stop::interrupted;
    const auto tokens = static_cast<std::int64_t>(made[row].ids.size());
    report.timing.generated_tokens += tokens;
    report.timing.generated_passes += std::max<std::int64_t>(tokens - 1, 0);
  }
  if (interrupted) report.notes.push_back({.text = "interrupted: the answer ends with what was generated"});
}

}  // namespace locant::cli

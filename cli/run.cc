// SPDX-License-Identifier: Apache-2.0
// `locant run`: a prompt through a model.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ostream>

#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/feeding.h"
#include "cli/models.h"
#include "cli/prompts.h"
#include "cli/run_options.h"
#include "cli/run_report.h"
#include "cli/scores.h"
#include "cli/stream.h"
#include "locant/formats.h"
#include "locant/model.h"

namespace locant::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Run {
  const RunOptions& options;
  Session& session;
  ThreadPool& pool;
};

void feed_prompt(const Run& run, const Rows& rows, const RowPositions& positions, PromptScores& scores,
                 Timing& timing) {
  double reading = 0;
  const Clock::time_point begin = Clock::now();
  timing.prompt_tokens =
      feed_rows(run.session, rows, positions, [&](std::int64_t first, View<const float, 2> logits) {
        const Clock::time_point from = Clock::now();
        scores.read(first, logits, run.pool);
        reading += seconds_since(from);
      });
  timing.prompt_s = seconds_since(begin) - reading;
}

/// `shown` gets the text of a single row as it becomes certain.
using TextReader = std::function<void(const std::string& text)>;

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
  options.end_tokens = report.model.spec().eos;
  const Clock::time_point begin = Clock::now();
  const auto take = [&](std::size_t row, const std::string& text) {
    report.continuations[row].text += text;
    if (shown) shown(text);
  };
  const std::vector<Continuation> made =
      continue_rows(run.session, options, [&](std::int64_t row, std::int64_t id) {
        const auto r = static_cast<std::size_t>(row);
        report.continuations[r].ids.push_back(id);
        if (!streams.empty()) take(r, streams[r].add(id));
      });
  report.timing.generated_s = seconds_since(begin);
  for (std::size_t row = 0; row < made.size(); ++row) {
    if (!streams.empty()) take(row, streams[row].finish());
    report.continuations[row].stop = made[row].stop == Stop::end_token ? "end_token" : "length";
    const auto tokens = static_cast<std::int64_t>(made[row].ids.size());
    report.timing.generated_tokens += tokens;
    report.timing.generated_passes += std::max<std::int64_t>(tokens - 1, 0);
  }
}

void write_logits(const RunReport& report) {
  if (report.options.logits_file.empty()) return;
  const PromptScores& scores = report.scores;
  const auto rows = static_cast<std::int64_t>(report.rows.size());
  const std::int64_t vocab = report.model.vocab();
  const float* data = scores.logits.data();
  write_npy(report.options.logits_file, rows == 1 ? TensorRef(data, DType::f32, {scores.width, vocab})
                                                  : TensorRef(data, DType::f32, {rows, scores.width, vocab}));
}

void note_non_finite(RunReport& report) {
  if (!report.scores.first_non_finite) return;
  const PlaceInRow place = *report.scores.first_non_finite;
  const std::optional<NonFinite> weight = report.model.first_non_finite();
  report.notes.push_back(
      {.text = fmt::format("logits are not finite from row {}, token {} on; {}", place.row, place.token,
                           weight ? fmt::format("weight {} holds a value that is not finite, element {}",
                                                weight->tensor, weight->index)
                                  : "every weight is finite")});
}

void note_lengths(RunReport& report) {
  const LengthSpec& lengths = report.model.spec().lengths;
  if (!lengths.configured) return;
  std::int64_t last = INT64_MIN;
  for (const auto& row : report.positions.rows)
    last = std::max(last, *std::max_element(row.front().begin(), row.front().end()));
  last += std::max<std::int64_t>(report.options.continue_tokens - 1, 0);
  if (last >= *lengths.configured) {
    report.notes.push_back({.text = fmt::format("position {} is past the configured length {} ({})", last,
                                                *lengths.configured, lengths.configured_key)});
  }
}

/// The memory for --logits, asked for with an error instead of a wrapped product.
void require_logits_fit(const Rows& rows, std::int64_t vocab) {
  std::int64_t width = 0;
  for (const std::int64_t length : lengths_of(rows)) width = std::max(width, length);
  std::int64_t values = 0;
  if (__builtin_mul_overflow(static_cast<std::int64_t>(rows.size()), width, &values) ||
      __builtin_mul_overflow(values, vocab * static_cast<std::int64_t>(sizeof(float)), &values)) {
    throw SpecError(fmt::format("run: --logits of [{},{},{}] is too large", rows.size(), width, vocab));
  }
}

void write_notes(const RunReport& report, Host& host) {
  if (report.options.common.quiet) return;
  for (const Note& note : report.notes) host.err() << "locant: note: " << one_line(note.text) << '\n';
}

}  // namespace

int run_command(Args args, Host& host) {
  const RunOptions options = read_run_options(args);
  Answer answer(host, options.common);
  const std::string path = find_model(options.model, host);
  for (const std::string* file : {&options.logits_file, &options.trace_file}) {
    if (!file->empty()) check_writable(*file);
  }
  Prompt prompt = read_prompt("run", options.prompt);

  Progress progress(host, options.common);
  progress.show("loading " + one_line(path));
  const Clock::time_point begin = Clock::now();
  ThreadPool pool(options.threads);
  const std::unique_ptr<Model> model = Model::load(path, options.load, pool);
  std::vector<Note> notes = model->spec().notes;
  const OpenedTokenizer tokenizer = tokenizer_for(prompt, path, host, notes);
  const Rows rows = encode("run", std::move(prompt), tokenizer);
  const std::vector<std::int64_t> lengths = lengths_of(rows);
  const RowPositions positions = read_positions(options, lengths);
  const std::int64_t later = std::max<std::int64_t>(options.continue_tokens - 1, 0);
  require_positions_in_tables(*model, positions, later);
  if (!options.logits_file.empty()) require_logits_fit(rows, model->vocab());

  SessionOptions wanted;
  wanted.rows = static_cast<std::int64_t>(rows.size());
  wanted.capacity = *std::max_element(lengths.begin(), lengths.end()) + later;
  wanted.cache = options.cache;
  const std::unique_ptr<Session> session = model->open_session(wanted);
  Tracing tracing(options.trace_file, path);
  tracing.attach(*session, options.padding);
  PromptScores scores(rows, model->vocab(), {options.top, !options.logits_file.empty(), options.padding});
  RunReport report{options, *model, tokenizer.tokenizer.get(), rows, positions, scores,
                   {},      {},     std::move(notes),          {}};
  report.timing.load_s = seconds_since(begin);

  const Run run{options, *session, pool};
  progress.show(fmt::format("reading {} tokens",
                            positions.concatenated().size() / static_cast<std::size_t>(positions.axes)));
  feed_prompt(run, rows, positions, scores, report.timing);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    report.losses.push_back(loss_of(scores.log_probabilities[row], positions.rows[row].front()));
  }
  // Before the answer: a medium that is full must not leave half of one on stdout.
  write_logits(report);
  note_non_finite(report);
  note_lengths(report);
  progress.clear();
  write_notes(report, host);

  const bool as_text = !options.common.json;
  const bool streams =
      as_text && rows.size() == 1 && report.tokenizer != nullptr && options.continue_tokens > 0;
  if (as_text) write_prompt_text(report, answer);
  TextReader shown;
  if (streams) {
    write_continuation_head(report, 0, answer);
    shown = [&answer](const std::string& text) {
      answer.stream() << printable(text);
      answer.flush();
    };
  } else {
    progress.show(fmt::format("generating {} tokens a row", options.continue_tokens));
  }
  continue_rows(run, report, shown);
  progress.clear();
  tracing.finish(*session);
  report.timing.peak_bytes = host.peak_bytes();

  if (!as_text) {
    answer.write_json(run_json(report));
  } else {
    if (streams) answer.stream() << '\n';
    for (std::size_t row = 0; row < rows.size() && !streams && options.continue_tokens > 0; ++row) {
      write_continuation_head(report, row, answer);
      write_continuation_text(report, row, answer);
    }
    write_timing_text(report, answer);
  }
  answer.finish();
  return 0;
}

}  // namespace locant::cli

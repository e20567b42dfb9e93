// SPDX-License-Identifier: Apache-2.0
// `locant run`: a prompt through a model.
#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/models.h"
#include "cli/run_passes.h"
#include "cli/run_report.h"
#include "cli/special_ids.h"
#include "cli/stream.h"
#include "locant/formats.h"
#include "locant/model.h"

namespace locant::cli {
namespace {

void write_logits(const RunReport& report) {
  if (report.options.logits_file.empty()) return;
  const PromptScores& scores = report.scores;
  const auto rows = static_cast<std::int64_t>(report.rows.size());
  const std::int64_t vocab = report.model.vocab();
  const float* data = scores.logits.data();
  write_npy(report.options.logits_file, rows == 1 ? TensorRef(data, DType::f32, {scores.width, vocab})
                                                  : TensorRef(data, DType::f32, {rows, scores.width, vocab}));
}

void write_vectors(const RunReport& report) {
  if (report.options.embed_file.empty()) return;
  const std::vector<float> vectors = report.pooled->vectors();
  write_npy(report.options.embed_file,
            TensorRef(vectors.data(), DType::f32,
                      {static_cast<std::int64_t>(report.rows.size()), report.pooled->width()}));
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

/// Bytes of the logits that --logits keeps, with an error instead of a wrapped product.
std::int64_t logits_bytes(const RunOptions& options, const Rows& rows, std::int64_t vocab) {
  if (options.logits_file.empty()) return 0;
  std::int64_t width = 0;
  for (const std::int64_t length : lengths_of(rows)) width = std::max(width, length);
  std::int64_t values = 0;
  if (__builtin_mul_overflow(static_cast<std::int64_t>(rows.size()), width, &values) ||
      __builtin_mul_overflow(values, vocab * static_cast<std::int64_t>(sizeof(float)), &values)) {
    throw SpecError(fmt::format("run: --logits of [{},{},{}] is too large", rows.size(), width, vocab));
  }
  return values;
}

void write_notes(const RunReport& report, Host& host) {
  if (report.options.common.quiet) return;
  for (const Note& note : report.notes) host.err() << "locant: note: " << one_line(note.text) << '\n';
}

/// A long text in one piece takes time that grows with its square: said before, not behind.
void note_long_loss(const RunOptions& options, const Model& model, std::int64_t longest, Host& host) {
  constexpr std::int64_t kMany = 8;  // configured lengths
  const std::optional<std::int64_t>& configured = model.spec().lengths.configured;
  if (!options.loss || options.common.quiet || !configured || longest / kMany < *configured) return;
  host.err()
      << fmt::format(
             "locant: note: {} tokens are read in one piece, the model is configured for {}; --window {} "
             "scores them in windows of that length",
             longest, *configured, *configured)
      << std::endl;
}

/// What a masked-LM answer lacks without a mask.
void note_masks(RunReport& report, std::optional<std::int64_t> mask) {
  if (report.scores.options().predicts != Predicts::itself) return;
  const bool any = std::any_of(report.scores.next.begin(), report.scores.next.end(),
                               [](const auto& candidates) { return !candidates.empty(); });
  if (any || report.options.top == 0) return;
  report.notes.push_back({.text = mask ? fmt::format("the prompt holds no mask (id {}): no candidates", *mask)
                                       : "which id is the mask is not stated: no candidates"});
}

/// What is needed stands on the terminal before it is taken; what cannot fit is refused.
void state_memory(const RunOptions& options, const MemoryNeed& need, std::optional<std::int64_t> available,
                  Host& host) {
  require_memory(need, available);
  if (!options.common.quiet && host.err_is_terminal())
    host.err() << "\r\033[Klocant: " << memory_sentence(need, available) << '\n' << std::flush;
}

/// The rows that a decoder is fed beside an encoder: the start token, then --decoder-ids.
Rows decoder_rows(const RunOptions& options, const Model& model, std::size_t count) {
  Rows rows;
  for (const std::string& list : options.decoder_ids) rows.push_back(parse_ids("run", list, "--decoder-ids"));
  if (rows.size() > 1 && rows.size() != count) {
    throw UsageError(fmt::format("run: --decoder-ids stands once, or once for each of the {} rows, got {}",
                                 count, rows.size()));
  }
  if (rows.empty()) rows.emplace_back();
  rows.resize(count, rows.front());
  const std::optional<std::int64_t> start = model.spec().decoder_start;
  for (auto& row : rows) {
    if (start && (row.empty() || row.front() != *start)) row.insert(row.begin(), *start);
    if (row.empty())
      throw SpecError("run: --decoder-ids must give the decoder's first token, the config states none");
  }
  return rows;
}

/// The continuation as it is generated, or whole at the end.
void write_continuations(const Run& run, RunReport& report, Progress& progress, Answer& answer) {
  const std::int64_t tokens = report.options.continue_tokens;
  const bool as_text = !report.options.common.json;
  const bool streams = as_text && report.rows.size() == 1 && report.tokenizer != nullptr && tokens > 0;
  TextReader shown;
  if (streams) {
    write_continuation_head(report, 0, answer);
    shown = [&answer](const std::string& text) {
      answer.stream() << printable(text);
      answer.flush();
    };
  } else if (tokens > 0) {
    progress.show(fmt::format("generating {} tokens a row", tokens));
  }
  continue_rows(run, report, shown);
  progress.clear();
  if (streams) answer.stream() << '\n';
  for (std::size_t row = 0; row < report.rows.size() && as_text && !streams && tokens > 0; ++row) {
    write_continuation_head(report, row, answer);
    write_continuation_text(report, row, answer);
  }
}

}  // namespace

int run_command(Args args, Host& host) {
  const RunOptions options = read_run_options(args);
  Answer answer(host, options.common);
  const std::string path = find_model_file(options.model, host);
  for (const std::string* file : {&options.logits_file, &options.trace_file, &options.embed_file}) {
    if (!file->empty()) check_writable(*file);
  }
  Prompt prompt = read_prompt("run", options.prompt);

  Progress progress(host, options.common);
  progress.show("loading " + one_line(path));
  const Clock::time_point begin = Clock::now();
  require_copies(copied_weights(path, options.load.weights), host.available_bytes());
  ThreadPool pool(options.threads);
  const std::unique_ptr<Model> model = Model::load(path, options.load, pool);
  std::vector<Note> notes = model->spec().notes;
  const Asks asks = what_is_asked(options, *model);
  const OpenedTokenizer tokenizer = tokenizer_for(prompt, path, host, notes);
  const Rows prompts = encode("run", std::move(prompt), tokenizer);
  const bool decodes = model->has_encoder() && asks != Asks::states;
  const Rows rows = decodes ? decoder_rows(options, *model, prompts.size()) : prompts;
  const std::vector<std::int64_t> lengths = lengths_of(rows);
  const std::optional<Windows> windows = windows_for(options, *model, lengths);
  RowPositions positions = windows ? RowPositions() : read_positions(options, lengths);
  const std::int64_t later = std::max<std::int64_t>(options.continue_tokens - 1, 0);
  if (!windows) require_positions_in_tables(*model, positions, later);

  SessionOptions wanted;
  wanted.rows = windows ? 1 : static_cast<std::int64_t>(rows.size());
  wanted.capacity = *std::max_element(lengths.begin(), lengths.end()) + later;
  if (windows) wanted.capacity = std::min(wanted.capacity, windows->window);
  wanted.cache = options.cache;
  const MemoryNeed need{.weights = model->weight_bytes(),
                        .cache = model->cache_bytes(wanted),
                        .tokens = wanted.rows * wanted.capacity,
                        .workspace = model->workspace_bytes(wanted),
                        .answer = logits_bytes(options, rows, model->vocab())};
  const std::optional<std::int64_t> available = host.available_bytes();
  state_memory(options, need, available, host);

  const SpecialIds special = special_ids(path, model->spec());
  PromptScores scores(rows, model->vocab(),
                      {.top = options.top,
                       .keep_logits = !options.logits_file.empty(),
                       .padding = options.padding,
                       .predicts = asks == Asks::masked_tokens ? Predicts::itself : Predicts::following,
                       .sampling = options.sampling,
                       .mask = special.mask});
  PooledStates pooled(lengths_of(prompts), model->spec().hidden, options.pool.value_or(Pool::mean));
  RunReport report{options, *model, tokenizer.tokenizer.get(), rows, positions, scores,
                   {},      {},     std::move(notes),          {}};
  report.memory = need;
  report.available = available;
  report.windows = windows;
  if (decodes) report.encoder_rows = &prompts;
  if (asks == Asks::states) report.pooled = &pooled;

  std::unique_ptr<Session> session;
  Tracing tracing(options.trace_file, path, *model);
  if (!windows) {
    session = model->open_session(wanted);
    tracing.attach(*session, options.padding);
  }
  report.timing.load_s = seconds_since(begin);
  if (!windows) note_long_loss(options, *model, *std::max_element(lengths.begin(), lengths.end()), host);
  const Run run{options, *model, session.get(), pool, special, progress};
  if (windows) {
    WindowAnswer answered = read_windows(run, *windows, rows, scores, report.timing);
    positions.rows = std::move(answered.positions);
    report.windows_read = answered.windows;
    if (answered.interrupted)
      report.notes.push_back({.text = "interrupted: the loss is that of the tokens scored so far"});
  } else if (asks == Asks::states) {
    read_states(run, rows, positions, pooled, report.timing);
  } else {
    if (decodes) read_encoder(run, prompts, report.timing);
    read_prompt_rows(run, rows, positions, scores, report.timing);
  }
  for (std::size_t row = 0; row < rows.size(); ++row) {
    report.losses.push_back(loss_of(scores.log_probabilities[row], positions.rows[row].front()));
  }
  // Before the answer: a medium that is full must not leave half of one on stdout.
  write_logits(report);
  write_vectors(report);
  note_non_finite(report);
  note_lengths(report);
  note_masks(report, special.mask);
  progress.clear();
  write_notes(report, host);
  const std::size_t told = report.notes.size();

  if (!options.common.json) write_prompt_text(report, answer);
  write_continuations(run, report, progress, answer);
  if (session) tracing.finish(*session);
  report.timing.peak_bytes = host.peak_bytes();
  if (options.common.json) {
    answer.write_json(run_json(report));
  } else {
    write_timing_text(report, answer);
  }
  answer.finish();
  for (std::size_t i = told; i < report.notes.size() && !options.common.quiet; ++i)
    host.err() << "locant: note: " << one_line(report.notes[i].text) << '\n';
  return 0;
}

}  // namespace locant::cli

// SPDX-License-Identifier: Apache-2.0
// `locant trace`: the tensors of real forward passes, recorded in Locant or in another runtime.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <ostream>

#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/feeding.h"
#include "cli/memory.h"
#include "cli/models.h"
#include "cli/prompts.h"
#include "cli/scores.h"
#include "cli/stream.h"
#include "locant/formats.h"
#include "locant/model.h"
#include "locant/recipe.h"
#include "locant/threads.h"
#include "locant/trace.h"

namespace locant::cli {
namespace {

constexpr std::int64_t kMostSteps = std::int64_t{1} << 40;

struct TraceFlags {
  CommonFlags common;
  std::string model;
  std::string trace;
  PromptFlags prompt;
  std::int64_t steps = 0;
  std::string pad = "left";
  std::string runtime = "locant";
  std::string recipe;
  std::string dump;
};

/// Flags that the chosen runtime has no use for are refused, not passed over.
void require_that_fits(const TraceFlags& flags) {
  const bool own = flags.runtime == "locant";
  if (flags.model.empty()) throw UsageError("trace: give a model");
  if (flags.trace.empty()) throw UsageError("trace: -o is the trace to write, give one");
  if (own && !flags.dump.empty())
    throw UsageError("trace: --from is the dump of another runtime, say which with --runtime");
  if (!own && !flags.recipe.empty())
    throw UsageError(
        fmt::format("trace: --recipe is how Locant reads a config, --runtime {} has its own", flags.runtime));
  if (flags.dump.empty() && !flags.prompt.given())
    throw UsageError("trace: give a prompt: --text, --text-file, --ids or --ids-file");
  flags.prompt.require_one_kind("trace");
  require_one_of("trace: --pad", flags.pad, {"left", "right"});
  if (!flags.recipe.empty()) (void)find_recipe(flags.recipe);
}

TraceFlags parse(Args args) {
  TraceFlags flags;
  std::string steps = "0";
  Arguments arguments("trace",
                      "Records the tensors of a prompt's passes: a .safetensors file for check and diff.",
                      {"locant trace rope --text \"It is a truth\" -o own.safetensors",
                       "locant trace path/to/model --runtime hf --ids 1,2,3 --steps 4 -o hf.safetensors"});
  arguments.positional("MODEL", flags.model, "Hugging Face directory, a .gguf file or a bundled model");
  arguments.value("-o,--output", flags.trace, "the trace to write")->type_name("FILE");
  flags.prompt.add_to(arguments);
  arguments.value("--steps", steps, "greedy tokens after the prompt, one pass each (0)")->type_name("N");
  arguments.value("--pad", flags.pad, "side on which uneven rows are filled up: left or right (left)")
      ->type_name("SIDE");
  arguments.value("--runtime", flags.runtime, "what runs the model: locant, hf, onnx or llama.cpp (locant)")
      ->type_name("NAME");
  arguments.value("--from", flags.dump, "read what the runtime dumped there instead of running it")
      ->type_name("DIR");
  arguments.value("--recipe", flags.recipe, "whose meaning the config is read under")->type_name("NAME");
  arguments.add_manner(flags.common);
  arguments.parse(args);
  require_one_of("trace: --runtime", flags.runtime, {"locant", "hf", "onnx", "llama.cpp"});
  require_that_fits(flags);
  flags.steps = parse_integer({"trace", "--steps", 0, kMostSteps}, steps);
  return flags;
}

void record_own(const TraceFlags& flags, const std::string& path, const Rows& rows, Progress& progress) {
  ThreadPool pool(threads_of("trace", flags.common));
  const std::unique_ptr<Model> model = Model::load(path, {.recipe = flags.recipe}, pool);
  if (model->has_encoder()) {
    throw SpecError(fmt::format("trace: {} has an encoder and a decoder, which `locant run --trace` records",
                                model->spec().family));
  }
  if (flags.steps > 0 && model->is_bidirectional()) {
    throw SpecError(fmt::format("trace: --steps needs a model that predicts the next token, got {}",
                                model->spec().family));
  }
  RowPositions positions;
  for (const std::int64_t length : lengths_of(rows)) positions.rows.push_back({text_positions(length, 0)});
  require_positions_in_tables(*model, positions, flags.steps);
  const std::vector<std::int64_t> lengths = lengths_of(rows);
  SessionOptions wanted;
  wanted.rows = static_cast<std::int64_t>(rows.size());
  wanted.capacity = *std::max_element(lengths.begin(), lengths.end()) + flags.steps;
  const std::unique_ptr<Session> session = model->open_session(wanted);
  Tracing tracing(flags.trace, path, *model);
  tracing.attach(*session, flags.pad == "left" ? Padding::left : Padding::right);
  progress.show("recording the prompt");
  PromptScores scores(rows, model->vocab(), {.top = 1});
  (void)feed_rows(*session, rows, positions,
                  [&](std::int64_t first, View<const float, 2> logits) { scores.read(first, logits, pool); });
  if (flags.steps > 0) {
    if (std::find(scores.choice.begin(), scores.choice.end(), -1) != scores.choice.end())
      throw SpecError("trace: --steps takes the best token of finite logits, these are not finite");
    ContinueOptions options;
    // the last token is chosen and not fed
    options.tokens = flags.steps + 1;
    options.first = scores.choice;
    std::int64_t made = 0;
    (void)continue_rows(*session, options, [&](std::int64_t row, std::int64_t) {
      if (row == 0) progress.show(fmt::format("recording step {} of {}", made++, flags.steps));
    });
  }
  tracing.finish(*session);
}

void record_other(const TraceFlags& flags, const std::string& path, Rows rows, Host& host) {
  RecordJob job;
  job.runtime = flags.runtime;
  job.model = path;
  job.dump = flags.dump;
  job.output = flags.trace;
  job.ids = std::move(rows);
  job.steps = flags.steps;
  job.pad = flags.pad;
  host.record(job);
}

void write_answer(const TraceFlags& flags, double seconds, Answer& answer) {
  const TraceReader trace(flags.trace);
  const auto tensors = static_cast<std::int64_t>(trace.names().size());
  const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(flags.trace));
  if (flags.common.json) {
    OrderedJson out = json_envelope("trace");
    out["output"] = flags.trace;
    out["runtime"] = flags.runtime;
    out["tensors"] = tensors;
    out["steps"] = trace.steps();
    out["bytes"] = bytes;
    out["seconds"] = json_number(seconds);
    answer.write_json(out);
    return;
  }
  answer.stream() << fmt::format("{}: {} tensors of {} {}, {}, {:.2f} s\n", one_line(flags.trace), tensors,
                                 trace.steps(), trace.steps() == 1 ? "pass" : "passes", bytes_text(bytes),
                                 seconds);
}

}  // namespace

int trace_command(Args args, Host& host) {
  const TraceFlags flags = parse(args);
  Answer answer(host, flags.common);
  const std::string path = find_model_file(flags.model, host);
  check_writable(flags.trace);
  Progress progress(host, flags.common);
  progress.show("loading " + one_line(path));
  const auto begin = std::chrono::steady_clock::now();
  Prompt prompt = read_prompt("trace", flags.prompt);
  std::vector<Note> notes;
  Rows rows;
  if (flags.prompt.given()) {
    // ids need no tokenizer here
    const OpenedTokenizer tokenizer =
        prompt.texts.empty() ? OpenedTokenizer() : tokenizer_for(prompt, path, host, notes);
    rows = encode("trace", std::move(prompt), tokenizer);
  }
  if (flags.runtime == "locant") {
    record_own(flags, path, rows, progress);
  } else {
    record_other(flags, path, std::move(rows), host);
  }
  progress.clear();
  write_answer(flags, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
               answer);
  answer.finish();
  return 0;
}

}  // namespace locant::cli

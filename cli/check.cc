// SPDX-License-Identifier: Apache-2.0
// `locant check`: find a fault in a model's files or in recorded passes, and name it.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <ostream>

#include "cli/answer.h"
#include "cli/check_text.h"
#include "cli/commands.h"
#include "cli/html_page.h"
#include "cli/models.h"
#include "cli/prompts.h"
#include "cli/stream.h"
#include "locant/check.h"
#include "locant/facts.h"
#include "locant/formats.h"
#include "locant/model.h"
#include "locant/report.h"

namespace locant::cli {
namespace {

Severity severity_named(const std::string& word) {
  for (const Severity severity : {Severity::note, Severity::warning, Severity::error}) {
    if (name_of(severity) == word) return severity;
  }
  return Severity::error;
}

std::string count_of(std::size_t count, std::string_view word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

void write_finding(const Finding& finding, Answer& answer) {
  std::ostream& out = answer.stream();
  const Style& style = answer.style();
  out << fmt::format("{}{} {}{} {}: {}\n", style.bold, finding.rule->id, finding.rule->name, style.off,
                     name_of(finding.severity), one_line(finding.message));
  const std::string place = place_text(finding.where);
  if (!place.empty()) out << fmt::format("    at    {}\n", one_line(place));
  if (!finding.where.file.empty()) out << fmt::format("    in    {}\n", one_line(finding.where.file));
  for (const Hypothesis& one : finding.hypotheses) {
    if (one.budget <= 0) continue;  // found by counting, not by a fit
    out << fmt::format("    {:<5} {}: leaves {:.2g}, rounding explains {:.2g}\n",
                       &one == finding.hypotheses.data() ? "cause" : "or", one_line(one.cause), one.residual,
                       one.budget);
  }
  out << fmt::format("    fix   {}\n", one_line(finding.next));
}

std::string joined(const std::vector<std::string>& ids) {
  std::string text;
  for (const std::string& id : ids) text += (text.empty() ? "" : " ") + id;
  return text;
}

}  // namespace

void write_check_text(const CheckReport& report, Answer& answer) {
  std::ostream& out = answer.stream();
  for (const Finding& finding : report.findings) write_finding(finding, answer);
  for (const Explained& explained : report.explained) {
    out << fmt::format("{}{} {}{} is explained by {}\n", answer.style().dim, explained.finding.rule->id,
                       explained.finding.rule->name, answer.style().off, explained.by);
  }
  std::vector<std::string> passed;
  for (const Rule* const rule : report.passed) passed.emplace_back(rule->id);
  std::vector<std::string> skipped;
  for (const Skipped& skip : report.skipped) skipped.emplace_back(skip.rule->id);
  if (!passed.empty()) out << fmt::format("passed   {}\n", joined(passed));
  if (!skipped.empty())
    out << fmt::format("skipped  {} (no evidence; --json says what each needs)\n", joined(skipped));
  const auto of = [&](Severity severity) {
    return static_cast<std::size_t>(
        std::count_if(report.findings.begin(), report.findings.end(),
                      [&](const Finding& finding) { return finding.severity == severity; }));
  };
  const std::string known = report.known.empty() ? "" : fmt::format("; {} known", report.known.size());
  out << fmt::format("{}, {}, {}{}; {} passed, {} skipped\n", count_of(of(Severity::error), "error"),
                     count_of(of(Severity::warning), "warning"), count_of(of(Severity::note), "note"), known,
                     passed.size(), skipped.size());
}

namespace {

/// Words of "--select R1,P" and of the flag given again.
std::vector<std::string> split(const std::vector<std::string>& lists) {
  std::vector<std::string> words;
  for (const std::string& list : lists) {
    std::size_t begin = 0;
    while (begin <= list.size()) {
      const std::size_t end = std::min(list.find(',', begin), list.size());
      words.push_back(list.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return words;
}

struct CheckFlags {
  CommonFlags common;
  std::string model;
  std::string against;
  std::string runtime = "locant";
  std::string ids;
  std::string baseline;
  std::string write_baseline;
  std::string fail_on = "error";
  std::string format = "text";
  std::string html;
  bool live = false;
  bool hash = false;
};

CheckFlags parse(Args args, CheckQuery& query) {
  CheckFlags flags;
  std::vector<std::string> select;
  std::vector<std::string> ignore;
  Arguments arguments(
      "check", "Finds position and embedding faults in files, recorded passes and runtimes, and names them.",
      {"locant check path/to/model --trace run.safetensors", "locant check rope --live --select M --json"});
  arguments.positional("MODEL", flags.model,
                       "Hugging Face directory, a config.json, a .gguf file or a bundled model");
  arguments.values("--trace", query.traces,
                   "a recorded trace, or a directory with one a rank (again for more)");
  arguments.value("--against", flags.against, "the source or the conversion of MODEL: compared with it");
  arguments.flag("--live", flags.live, "let the rules of family M drive a runtime");
  arguments.value("--runtime", flags.runtime, "what --live drives: locant or hf (locant)");
  arguments.value("--ids", flags.ids, "ids of --live's prompt, by commas (drawn from the vocabulary)");
  arguments.value("--recipe", query.recipe,
                  "whose meaning the config is read under (hf; llama.cpp for .gguf)");
  arguments.values("--select", select, "rule ids or beginnings of them, by commas: these alone");
  arguments.values("--ignore", ignore, "rule ids or beginnings of them, by commas: not these");
  arguments.value("--baseline", flags.baseline, "a file of known findings, which do not count");
  arguments.value("--write-baseline", flags.write_baseline, "write the findings there as known");
  arguments.value("--fail-on", flags.fail_on, "exit 1 from this severity on: note, warning or error (error)");
  arguments.value("--format", flags.format, "text, json, sarif or junit (text)");
  add_html(arguments, flags.html);
  arguments.flag("--hash", flags.hash, "fingerprint whole weights and traces, not only their headers");
  arguments.add_common(flags.common);
  arguments.parse(args);
  require_one_of("--fail-on", flags.fail_on, {"note", "warning", "error"});
  require_one_of("--format", flags.format, {"text", "json", "sarif", "junit"});
  require_one_of("--runtime", flags.runtime, {"locant", "hf"});
  if (flags.common.json && flags.format != "text" && flags.format != "json")
    throw UsageError(fmt::format("check: --json and --format {} are two answers, give one", flags.format));
  if (flags.model.empty() && query.traces.empty()) throw UsageError("check: give a model, a --trace or both");
  for (const auto& [given, flag] :
       {std::pair(!flags.against.empty(), "--against"), std::pair(flags.live, "--live")}) {
    if (given && flags.model.empty()) throw UsageError(fmt::format("check: {} needs a model", flag));
  }
  if (!flags.live && !flags.ids.empty())
    throw UsageError("check: --ids is the prompt of --live, which is not given");
  query.select = split(select);
  query.ignore = split(ignore);
  if (flags.hash) query.hash = HashScope::whole;
  if (!flags.ids.empty()) query.live_ids = parse_ids("check", flags.ids);
  return flags;
}

/// The page of --html: with a model its facts, too.
void write_page(const HtmlPage& page, const CheckReport& report, const std::string& model,
                const std::string& recipe, Host& host) {
  HtmlReport html;
  html.model = model;
  html.check = &report;
  std::optional<Facts> facts;
  if (!model.empty()) facts = page_facts(model, recipe);
  if (facts) html.facts = &*facts;
  (void)page.write(html, host);
}

}  // namespace

int check_command(Args args, Host& host) {
  CheckQuery query;
  const CheckFlags flags = parse(args, query);
  Answer answer(host, flags.common);
  const HtmlPage page(flags.html, flags.common, "check", args);
  Progress progress(host, flags.common);
  query.progress = [&](std::string_view doing) { progress.show(fmt::format("checking: {}", doing)); };

  std::string model_path;
  ModelFiles model;
  ModelFiles other;
  const int threads = threads_of("check", flags.common);
  std::optional<ThreadPool> pool;
  std::unique_ptr<Runtime> runtime;  // goes before the pool that it works on
  if (!flags.model.empty()) {
    model_path = find_model_file(flags.model, host);
    model = read_model_files(model_path);
    query.spec = &model.spec;
    query.weights = model.weights;
    if (flags.live) {
      progress.show("loading");
      if (flags.runtime == "locant") {
        runtime = Model::load(model_path, {.recipe = query.recipe}, pool.emplace(threads));
      } else {
        runtime = host.open_runtime(flags.runtime, model_path);
      }
      query.runtime = runtime.get();
    }
  }
  if (!flags.against.empty()) {
    other = read_model_files(find_model_file(flags.against, host));
    query.against = &other.spec;
    query.against_weights = other.weights;
  }
  const std::vector<KnownFinding> known =
      flags.baseline.empty() ? std::vector<KnownFinding>() : read_baseline(flags.baseline);

  CheckReport report = check(query);
  progress.clear();
  if (!flags.write_baseline.empty()) write_file(flags.write_baseline, baseline_json(report) + "\n");
  for (const KnownFinding& gone : apply_baseline(report, known)) {
    if (flags.common.quiet) break;
    host.err() << fmt::format("note: {}: {} at {} is known and was not found\n", one_line(flags.baseline),
                              gone.rule, gone.place.empty() ? "no place" : one_line(gone.place));
  }
  if (report.passed.empty() && report.findings.empty() && report.known.empty() && !flags.common.quiet)
    host.err() << "note: nothing was judged: no rule that was asked for had its evidence\n";
  const Severity least = severity_named(flags.fail_on);
  if (flags.common.json || flags.format == "json") {
    answer.stream() << report_json(report) << '\n';
  } else if (flags.format == "sarif") {
    answer.stream() << report_sarif(report) << '\n';
  } else if (flags.format == "junit") {
    answer.stream() << report_junit(report, least);
  } else {
    write_check_text(report, answer);
  }
  answer.finish();
  if (page.asked()) write_page(page, report, model_path, query.recipe, host);
  return std::any_of(report.findings.begin(), report.findings.end(),
                     [&](const Finding& finding) { return finding.severity >= least; })
             ? 1
             : 0;
}

}  // namespace locant::cli

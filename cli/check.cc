// SPDX-License-Identifier: Apache-2.0
// `locant check`: find a fault in a model's files or in recorded passes, and name it.
#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/models.h"
#include "cli/stream.h"
#include "locant/check.h"
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

void write_text(const CheckReport& report, Answer& answer) {
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
  out << fmt::format("{}, {}, {}; {} passed, {} skipped\n", count_of(of(Severity::error), "error"),
                     count_of(of(Severity::warning), "warning"), count_of(of(Severity::note), "note"),
                     passed.size(), skipped.size());
}

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

}  // namespace

int check_command(Args args, Host& host) {
  CommonFlags common;
  CheckQuery query;
  std::string model;
  std::string fail_on = "error";
  std::string format = "text";
  std::vector<std::string> select;
  std::vector<std::string> ignore;
  Arguments arguments(
      "check", "Finds position and embedding faults in files and recorded passes, and names them.",
      {"locant check path/to/model --trace run.safetensors", "locant check rope --select C,P --json"});
  arguments.positional("MODEL", model,
                       "Hugging Face directory, a config.json, a .gguf file or a bundled model");
  arguments.values("--trace", query.traces, "a recorded trace (again for more)");
  arguments.value("--recipe", query.recipe,
                  "whose meaning the config is read under (hf; llama.cpp for .gguf)");
  arguments.values("--select", select, "rule ids or beginnings of them, by commas: these alone");
  arguments.values("--ignore", ignore, "rule ids or beginnings of them, by commas: not these");
  arguments.value("--fail-on", fail_on, "exit 1 from this severity on: note, warning or error (error)");
  arguments.value("--format", format, "text, json, sarif or junit (text)");
  arguments.add_common(common);
  arguments.parse(args);
  require_one_of("--fail-on", fail_on, {"note", "warning", "error"});
  require_one_of("--format", format, {"text", "json", "sarif", "junit"});
  if (common.json && format != "text" && format != "json")
    throw UsageError(fmt::format("check: --json and --format {} are two answers, give one", format));
  if (model.empty() && query.traces.empty()) throw UsageError("check: give a model, a --trace or both");
  query.select = split(select);
  query.ignore = split(ignore);

  Answer answer(host, common);
  ModelSpec spec;
  if (!model.empty()) {
    const std::string path = find_model_file(model, host);
    spec = read_model_spec(path);
    query.spec = &spec;
    query.weights = weights_beside(path, spec);
  }
  Progress progress(host, common);
  progress.show("checking");
  const CheckReport report = check(query);
  progress.clear();
  const Severity least = severity_named(fail_on);
  if (common.json || format == "json") {
    answer.stream() << report_json(report) << '\n';
  } else if (format == "sarif") {
    answer.stream() << report_sarif(report) << '\n';
  } else if (format == "junit") {
    answer.stream() << report_junit(report, least);
  } else {
    write_text(report, answer);
  }
  answer.finish();
  return std::any_of(report.findings.begin(), report.findings.end(),
                     [&](const Finding& finding) { return finding.severity >= least; })
             ? 1
             : 0;
}

}  // namespace locant::cli

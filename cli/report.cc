// SPDX-License-Identifier: Apache-2.0
// `locant report`: everything that is known of a model, on one page.
#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/compare_report.h"
#include "cli/html_page.h"
#include "cli/models.h"
#include "cli/stream.h"
#include "cli/trust_report.h"
#include "locant/check.h"
#include "locant/facts.h"
#include "locant/recipe.h"
#include "locant/report.h"

namespace locant::cli {
namespace {

struct ReportFlags {
  CommonFlags common;
  std::string model;
  std::string output;
  std::string recipe;
  std::vector<std::string> traces;
  std::vector<std::string> texts;
  std::string budget;
  std::string recipes;
  std::string against;
};

ReportFlags parse(Args args) {
  ReportFlags flags;
  Arguments arguments(
      "report",
      "Puts on one HTML page what is known of a model: facts, faults, how far it can be trusted, and where "
      "readings differ.",
      {"locant report rope -o rope.html",
       "locant report path/to/model --text-file novel.txt --recipes hf,vllm -o model.html"});
  arguments.positional("MODEL", flags.model,
                       "Hugging Face directory, a config.json, a .gguf file or a bundled model");
  arguments.value("-o,--output", flags.output, "the page to write")->type_name("FILE");
  arguments.values("--trace", flags.traces, "a recorded trace to be checked (again for more)");
  arguments.values("--text-file", flags.texts, "a document to measure with, as for trust (again for more)");
  arguments.value("--budget", flags.budget, "time for measuring, such as 90s, 2m or 1h (2m)")->type_name("T");
  arguments.value("--recipes", flags.recipes, "readings to be compared, the first with the others")
      ->type_name("A,B,...");
  arguments.value("--against", flags.against,
                  "the source or the conversion of MODEL, or another model: compared with it");
  arguments.value("--recipe", flags.recipe,
                  "whose meaning the config is read under (hf; llama.cpp for .gguf)");
  arguments.add_manner(flags.common);
  arguments.parse(args);
  if (flags.model.empty())
    throw UsageError("report: give a model: a directory, a config.json, a .gguf file or a bundled name");
  if (flags.output.empty()) throw UsageError("report: -o names the page to write, and is not given");
  if (!flags.budget.empty() && flags.texts.empty())
    throw UsageError("report: --budget is the time for measuring with --text-file, which is not given");
  if (!flags.recipe.empty()) (void)find_recipe(flags.recipe);
  return flags;
}

bool has_errors(const CheckReport& report) {
  return std::any_of(report.findings.begin(), report.findings.end(),
                     [](const Finding& finding) { return finding.severity == Severity::error; });
}

/// What the manner of this command is to the ones that it calls.
void add_manner(std::vector<std::string>& words, const ReportFlags& flags) {
  if (flags.common.quiet) words.emplace_back("--quiet");
  if (!flags.common.threads.empty()) words.insert(words.end(), {"--threads", flags.common.threads});
}

TrustReport trust_part(const ReportFlags& flags, const std::string& path, Host& host) {
  std::vector<std::string> words{path};
  for (const std::string& text : flags.texts) words.insert(words.end(), {"--text-file", text});
  if (!flags.budget.empty()) words.insert(words.end(), {"--budget", flags.budget});
  if (!flags.recipe.empty()) words.insert(words.end(), {"--recipe", flags.recipe});
  add_manner(words, flags);
  return trust_report(words, host);
}

/// Of recipes, and of two models.
std::vector<CompareReport> compare_parts(const ReportFlags& flags, const std::string& path, Host& host) {
  std::vector<CompareReport> reports;
  if (!flags.recipes.empty()) {
    std::vector<std::string> words{path, "--recipes", flags.recipes};
    add_manner(words, flags);
    reports.push_back(compare_report(words, host));
  }
  if (!flags.against.empty()) {
    std::vector<std::string> words{path, find_model_file(flags.against, host)};
    if (!flags.recipe.empty()) words.insert(words.end(), {"--recipe", flags.recipe});
    add_manner(words, flags);
    reports.push_back(compare_report(words, host));
  }
  return reports;
}

struct Written {
  std::string path;
  std::size_t bytes = 0;
  int status = 0;
};

void write_answer(const HtmlReport& report, const Written& written, bool json, Answer& answer) {
  const std::vector<PartVerdict> parts = report_verdicts(report);
  if (json) {
    OrderedJson out = json_envelope("report");
    out["file"] = written.path;
    out["bytes"] = written.bytes;
    out["status"] = written.status;
    out["parts"] = OrderedJson::array();
    for (const PartVerdict& part : parts) out["parts"].push_back({{"part", part.part}, {"text", part.text}});
    answer.write_json(out);
    return;
  }
  for (const PartVerdict& part : parts)
    answer.stream() << fmt::format("{:<8} {}\n", part.part, one_line(part.text));
  answer.stream() << fmt::format("{}: {:.0f} KiB\n", one_line(written.path),
                                 static_cast<double>(written.bytes) / 1024);
}

}  // namespace

int report_command(Args args, Host& host) {
  const ReportFlags flags = parse(args);
  Answer answer(host, flags.common);
  const HtmlPage page(flags.output, flags.common, "report", args);
  Progress progress(host, flags.common);
  const std::string path = find_model_file(flags.model, host);
  const ModelFiles model = read_model_files(path);
  const Facts facts = facts_of(model.spec, {.recipe = flags.recipe, .weights = model.weights});

  CheckQuery query;
  query.spec = &model.spec;
  query.weights = model.weights;
  query.recipe = flags.recipe;
  query.traces = flags.traces;
  query.progress = [&](std::string_view doing) { progress.show(fmt::format("checking: {}", doing)); };
  ModelFiles other;
  if (!flags.against.empty()) {
    other = read_model_files(find_model_file(flags.against, host));
    query.against = &other.spec;
    query.against_weights = other.weights;
  }
  const CheckReport check_report = check(query);
  progress.clear();

  const TrustReport trust = trust_part(flags, path, host);
  const std::vector<CompareReport> compared = compare_parts(flags, path, host);
  std::vector<std::vector<std::optional<Facts>>> sides;
  sides.reserve(compared.size());
  HtmlReport report;
  report.model = path;
  report.facts = &facts;
  report.check = &check_report;
  report.trust = &trust;
  for (const CompareReport& one : compared) {
    sides.push_back(page_facts(one));
    report.compare.push_back(page_part(one, sides.back()));
  }
  Written written{.path = page.path(), .bytes = page.write(report, host), .status = 0};
  if (has_errors(check_report) || trust.verdict.word == TrustWord::worse ||
      std::any_of(compared.begin(), compared.end(), sides_differ))
    written.status = 1;
  write_answer(report, written, flags.common.json, answer);
  answer.finish();
  return written.status;
}

}  // namespace locant::cli

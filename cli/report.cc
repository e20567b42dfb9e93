// SPDX-License-Identifier: Apache-2.0
// `locant report`: everything that is known of a model, on one page.
#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/html_page.h"
#include "cli/models.h"
#include "cli/stream.h"
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
  std::string against;
};

ReportFlags parse(Args args) {
  ReportFlags flags;
  Arguments arguments("report", "Puts on one HTML page what is known of a model: facts and faults.",
                      {"locant report rope -o rope.html",
                       "locant report path/to/model --trace run.safetensors -o model.html"});
  arguments.positional("MODEL", flags.model,
                       "Hugging Face directory, a config.json, a .gguf file or a bundled model");
  arguments.value("-o,--output", flags.output, "the page to write")->type_name("FILE");
  arguments.values("--trace", flags.traces, "a recorded trace to be checked (again for more)");
  arguments.value("--against", flags.against, "the source or the conversion of MODEL: compared with it");
  arguments.value("--recipe", flags.recipe,
                  "whose meaning the config is read under (hf; llama.cpp for .gguf)");
  arguments.add_manner(flags.common);
  arguments.parse(args);
  if (flags.model.empty())
    throw UsageError("report: give a model: a directory, a config.json, a .gguf file or a bundled name");
  if (flags.output.empty()) throw UsageError("report: -o names the page to write, and is not given");
  if (!flags.recipe.empty()) (void)find_recipe(flags.recipe);
  return flags;
}

bool has_errors(const CheckReport& report) {
  return std::any_of(report.findings.begin(), report.findings.end(),
                     [](const Finding& finding) { return finding.severity == Severity::error; });
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

  HtmlReport report;
  report.model = path;
  report.facts = &facts;
  report.check = &check_report;
  Written written{.path = page.path(), .bytes = page.write(report, host), .status = 0};
  written.status = has_errors(check_report) ? 1 : 0;
  write_answer(report, written, flags.common.json, answer);
  answer.finish();
  return written.status;
}

}  // namespace locant::cli

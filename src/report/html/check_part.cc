// SPDX-License-Identifier: Apache-2.0
// Findings by severity with their evidence; what was explained, passed or had no evidence is folded away.
#include <fmt/format.h>

#include <algorithm>

#include "report/html/chart.h"
#include "report/html/numbers.h"
#include "report/html/parts.h"

namespace locant::html {
namespace {

std::size_t count_of(const CheckReport& report, Severity severity) {
  return static_cast<std::size_t>(
      std::count_if(report.findings.begin(), report.findings.end(),
                    [&](const Finding& finding) { return finding.severity == severity; }));
}

void write_folded_rules(Markup& page, const std::string& summary, const Table& table) {
  if (table.rows.empty()) return;
  const Inside fold(page, "details");
  page.element("summary", {}, summary);
  write_table(page, table);
}

std::vector<std::string> named(const Rule& rule) {
  return {fmt::format("{} {}", rule.id, rule.name), std::string(rule.summary)};
}

void write_lists(Markup& page, const CheckReport& report) {
  Table explained{.caption = "Findings that another one reproduces: not counted",
                  .columns = {"rule", "explained by", "message"}};
  for (const Explained& one : report.explained)
    explained.rows.push_back(
        {fmt::format("{} {}", one.finding.rule->id, one.finding.rule->name), one.by, one.finding.message});
  write_folded_rules(page, fmt::format("Explained by another finding: {}", explained.rows.size()), explained);
  Table known{.caption = "Findings that the baseline names: not counted",
              .columns = {"rule", "place", "message"}};
  for (const Finding& finding : report.known)
    known.rows.push_back({fmt::format("{} {}", finding.rule->id, finding.rule->name),
                          place_text(finding.where), finding.message});
  write_folded_rules(page, fmt::format("Known: {}", known.rows.size()), known);
  Table passed{.caption = "Rules that had their evidence and found nothing",
               .columns = {"rule", "would say"}};
  for (const Rule* const rule : report.passed) passed.rows.push_back(named(*rule));
  write_folded_rules(page, fmt::format("Passed: {}", passed.rows.size()), passed);
  Table skipped{.caption = "Rules that could not be asked: nothing is known of them",
                .columns = {"rule", "would say", "needs"}};
  for (const Skipped& one : report.skipped) {
    std::vector<std::string> row = named(*one.rule);
    row.push_back(one.needs);
    skipped.rows.push_back(std::move(row));
  }
  write_folded_rules(page, fmt::format("Skipped for want of evidence: {}", skipped.rows.size()), skipped);
}

}  // namespace

Verdict check_verdict(const CheckReport& report) {
  const std::size_t errors = count_of(report, Severity::error);
  const std::size_t warnings = count_of(report, Severity::warning);
  const std::size_t notes = count_of(report, Severity::note);
  if (report.findings.empty()) {
    if (report.passed.empty()) return {Mood::odd, "Nothing was judged: no rule had its evidence."};
    return {Mood::good, fmt::format("Nothing was found; {} passed, {} could not be asked.",
                                    count_text(report.passed.size(), "rule"), report.skipped.size())};
  }
  std::string text = fmt::format("{}, {}, {}", count_text(errors, "error"), count_text(warnings, "warning"),
                                 count_text(notes, "note"));
  text +=
      fmt::format("; {} passed, {} could not be asked. First: {}", count_text(report.passed.size(), "rule"),
                  report.skipped.size(), report.findings.front().message);
  return {errors > 0 ? Mood::bad : warnings > 0 ? Mood::odd : Mood::plain, text + "."};
}

void write_check(Markup& page, const CheckReport& report) {
  const Inside section(page, "section", {{"id", "check"}, {"aria-labelledby", "check-title"}});
  page.element("h2", {{"id", "check-title"}}, "Faults looked for");
  page.element("p", {}, check_verdict(report).text);
  Allowance allowance;
  for (const auto& [severity, heading] :
       {std::pair(Severity::error, "Errors"), std::pair(Severity::warning, "Warnings"),
        std::pair(Severity::note, "Notes")}) {
    if (count_of(report, severity) == 0) continue;
    page.element("h3", {}, heading);
    for (const Finding& finding : report.findings) {
      if (finding.severity == severity) write_finding(page, finding, allowance);
    }
  }
  if (allowance.left_out > 0)
    page.element("p", {{"class", "small"}},
                 fmt::format("{} charts of evidence are not drawn, for the size of this page; `locant check "
                             "--json` has their numbers.",
                             allowance.left_out));
  page.element("h3", {}, "All other rules");
  write_lists(page, report);
}

}  // namespace locant::html

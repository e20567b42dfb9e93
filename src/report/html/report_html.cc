// SPDX-License-Identifier: Apache-2.0
// The page: head, what was looked at, a sentence for each part, and the parts.
#include <fmt/format.h>

#include <array>

#include "report/html/numbers.h"
#include "report/html/parts.h"
#include "report/html/style.h"
#include "report/html/table.h"

namespace locant::html {

std::string_view class_of(Mood mood) {
  constexpr std::array<std::string_view, 4> kNames = {"plain", "good", "odd", "bad"};
  return kNames[static_cast<std::size_t>(mood)];
}

namespace {

struct Part {
  std::string_view id;
  std::string_view name;
  Verdict verdict;
};

std::vector<Part> parts_of(const HtmlReport& report) {
  std::vector<Part> parts;
  if (report.facts != nullptr) parts.push_back({"inspect", "The facts", inspect_verdict(*report.facts)});
  if (report.check != nullptr) parts.push_back({"check", "Faults", check_verdict(*report.check)});
  if (report.trust != nullptr) parts.push_back({"trust", "Trust", trust_verdict_of(*report.trust)});
  for (const ComparePart& part : report.compare) {
    const bool models = !part.report->other.empty();
    parts.push_back(
        {models ? "models" : "recipes", models ? "Two models" : "Recipes", compare_verdict(*part.report)});
  }
  return parts;
}

std::string last_of(const std::string& path) {
  const std::size_t end = path.find_last_not_of('/');
  if (end == std::string::npos) return path;
  const std::size_t slash = path.find_last_of('/', end);
  return path.substr(slash == std::string::npos ? 0 : slash + 1,
                     end - (slash == std::string::npos ? 0 : slash + 1) + 1);
}

std::string title_of(const HtmlReport& report) {
  if (!report.title.empty()) return report.title;
  if (!report.model.empty()) return last_of(report.model);
  return report.facts != nullptr ? report.facts->model.family : "Locant report";
}

void write_head(Markup& page, const std::string& title) {
  const Inside head(page, "head");
  page.empty("meta", {{"charset", "utf-8"}});
  page.empty("meta", {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}});
  // nothing is loaded, whatever a string on the page says
  page.empty("meta", {{"http-equiv", "Content-Security-Policy"},
                      {"content", "default-src 'none'; style-src 'unsafe-inline'"}});
  page.empty("meta", {{"name", "generator"}, {"content", fmt::format("locant {}", version())}});
  page.element("title", {}, title + " \u2013 Locant");
  page.open("style");
  page.raw(style_sheet());
  page.close();
}

void write_subject(Markup& page, const HtmlReport& report) {
  const Inside list(page, "dl");
  const auto row = [&](std::string_view name, const std::string& text, std::string_view tag) {
    if (text.empty()) return;
    page.element("dt", {}, name);
    const Inside value(page, "dd");
    page.element(tag, {}, text);
  };
  if (report.facts != nullptr) {
    const ModelFacts& model = report.facts->model;
    row("family",
        fmt::format("{}{}, {}", model.family.empty() ? "unknown" : model.family,
                    model.generic ? " (not a known family)" : "", model.format),
        "span");
    row("recipe", report.facts->recipe, "span");
  }
  row("model", report.model, "code");
  row("command", report.command_line, "code");
  row("made", report.made, "span");
}

void write_evidence(Markup& page, const CheckReport& check) {
  if (check.evidence.empty()) return;
  Table table{.caption = "What was read", .columns = {"file", "kind", "sha256"}};
  for (const EvidenceItem& item : check.evidence)
    table.rows.push_back(
        {item.path, std::string(name_of(item.kind)), item.sha256.empty() ? "not asked for" : item.sha256});
  write_folded(page, fmt::format("What was read: {}", count_text(table.rows.size(), "file")), table);
}

void write_body(Markup& page, const HtmlReport& report, const std::string& title) {
  const Inside body(page, "body");
  const std::vector<Part> parts = parts_of(report);
  page.element("a", {{"class", "skip"}, {"href", "#main"}}, "Skip to the report");
  {
    const Inside header(page, "header");
    page.element("p", {{"class", "brand"}}, fmt::format("Locant {}", version()));
    page.element("h1", {}, title);
    write_subject(page, report);
    if (report.check != nullptr) write_evidence(page, *report.check);
    const Inside list(page, "ul", {{"class", "verdicts"}});
    for (const Part& part : parts) {
      const Inside entry(page, "li", {{"class", std::string(class_of(part.verdict.mood))}});
      page.element("b", {}, fmt::format("{}:", part.name));
      page.text(part.verdict.text);
    }
  }
  {
    const Inside nav(page, "nav", {{"aria-label", "Parts of the report"}});
    const Inside list(page, "ul");
    for (const Part& part : parts) {
      const Inside entry(page, "li");
      page.element("a", {{"href", fmt::format("#{}", part.id)}}, part.name);
    }
  }
  {
    const Inside main(page, "main", {{"id", "main"}, {"tabindex", "-1"}});
    if (report.facts != nullptr) write_inspect(page, *report.facts);
    if (report.check != nullptr) write_check(page, *report.check);
    if (report.trust != nullptr) write_trust(page, *report.trust);
    for (const ComparePart& part : report.compare)
      write_compare(page, part, part.report->other.empty() ? "recipes" : "models");
  }
  const Inside footer(page, "footer");
  page.text(
      fmt::format("Made by locant {}. This page loads nothing and runs nothing; `locant help report` says "
                  "how it is made.",
                  version()));
}

}  // namespace
}  // namespace locant::html

namespace locant {

std::string report_html(const HtmlReport& report) {
  html::Markup page;
  page.raw("<!DOCTYPE html>\n");
  const std::string title = html::title_of(report);
  {
    const html::Inside root(page, "html", {{"lang", "en"}});
    html::write_head(page, title);
    html::write_body(page, report, title);
  }
  page.raw("\n");
  return page.take();
}

std::vector<PartVerdict> report_verdicts(const HtmlReport& report) {
  std::vector<PartVerdict> verdicts;
  for (const html::Part& part : html::parts_of(report))
    verdicts.push_back({std::string(part.id), part.verdict.text});
  return verdicts;
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// How far a checkpoint can be trusted: the lengths under each other, what is held against them, and what was
// measured.
#include <fmt/format.h>

#include <algorithm>

#include "report/html/ladder.h"
#include "report/html/numbers.h"
#include "report/html/parts.h"
#include "report/html/table.h"

namespace locant::html {
namespace {

Rung rung_of(std::string name, const std::optional<std::int64_t>& tokens, std::string text) {
  Rung rung{.name = std::move(name), .text = std::move(text)};
  if (tokens) rung.value = static_cast<double>(*tokens);
  return rung;
}

std::string basis_text(const StatedLength& length) {
  switch (length.source) {
    case LengthSource::none:
      return "";
    case LengthSource::field:
      return fmt::format("{}: a field, no proof", length.basis);
    case LengthSource::user:
      return fmt::format("{}: given", length.basis);
    case LengthSource::weights:
      return "rows that learned";
    case LengthSource::assumed:
      return "assumed: the declared length";
  }
  return "";
}

Rung stated_rung(std::string name, const StatedLength& length) {
  Rung rung = rung_of(std::move(name), length.tokens, whole_text(length.tokens, "nothing states it"));
  if (length.tokens) rung.more = basis_text(length);
  return rung;
}

std::string stated_text(const StatedLength& length) {
  return length.tokens ? basis_text(length) : "nothing states it";
}

void add_angles(LadderChart& chart, const StaticTrust& facts) {
  if (facts.rotations.empty()) return;
  const RotationTrust* first = nullptr;
  for (const RotationTrust& rotation : facts.rotations) {
    if (!rotation.first_position) continue;
    if (first == nullptr || *rotation.first_position < *first->first_position) first = &rotation;
  }
  Rung rung = first == nullptr
                  ? rung_of("angles in range", facts.to, whole_text(facts.to))
                  : rung_of("angles in range", first->first_position, whole_text(*first->first_position));
  rung.more = first == nullptr ? "as far as was asked"
                               : fmt::format("pair {} leaves first", first->first_pair.value_or(0));
  chart.rungs.push_back(std::move(rung));
}

/// A length that was to be measured, or the word for why there is none.
Rung measured_rung(std::string name, const std::optional<std::int64_t>& length, const std::string& criterion,
                   const std::string& none) {
  Rung rung = rung_of(std::move(name), length, whole_text(length, none));
  rung.strong = true;
  if (length) rung.more = criterion;
  return rung;
}

void add_measured(LadderChart& chart, const TrustReport& report) {
  if (!report.measured) {
    for (const char* const name : {"no harm", "benefit", "retrieves"})
      chart.rungs.push_back(measured_rung(
          name, std::nullopt, "",
          "not measured: " +
              (report.facts.unmeasurable.empty() ? "no text was given" : report.facts.unmeasurable)));
    return;
  }
  const LossCurve& loss = report.measured->loss;
  const std::string docs = fmt::format("{} documents, 95 %", loss.documents);
  const std::string untold = loss.control == Judgement::holds ? "none was shown" : "cannot tell";
  chart.rungs.push_back(
      measured_rung("no harm", loss.no_harm, fmt::format("within {} nats, {}", loss.margin, docs), untold));
  chart.rungs.push_back(measured_rung("benefit", loss.benefit,
                                      fmt::format("by {} nats, {}", loss.least_benefit, docs), untold));
  const Retrieval& retrieval = report.measured->retrieval;
  chart.rungs.push_back(
      measured_rung("retrieves", retrieval.control == Judgement::holds ? retrieval.length : std::nullopt,
                    fmt::format("1 of {}, worst source", retrieval.choices),
                    retrieval.control == Judgement::holds ? "none was shown" : "cannot tell"));
}

void draw_lengths(Markup& page, const TrustReport& report) {
  const StaticTrust& facts = report.facts;
  LadderChart chart;
  chart.title = "The lengths of this model";
  chart.description = "Bars in the strong colour were measured; the others are stated or computed.";
  chart.unit = "tokens";
  chart.rungs.push_back(stated_rung("declared", facts.declared));
  chart.rungs.push_back(stated_rung("trained", facts.trained));
  if (facts.hard) chart.rungs.push_back(rung_of("rows of tables", facts.hard, whole_text(*facts.hard)));
  for (const TableTrust& table : facts.tables)
    chart.rungs.push_back(rung_of("rows that learned", table.learned, whole_text(table.learned)));
  add_angles(chart, facts);
  for (const ReachTrust& reach : facts.reach) {
    Rung rung =
        rung_of(fmt::format("reach ({})", reach.what), reach.tokens, whole_text(reach.tokens, "without end"));
    if (!reach.tokens) {
      rung.value = 1;
      rung.without_end = true;
    }
    chart.rungs.push_back(std::move(rung));
  }
  add_measured(chart, report);
  draw(page, chart);
}

void write_findings(Markup& page, const StaticTrust& facts) {
  if (facts.findings.empty()) return;
  page.element("h3", {}, "Held against the declared length");
  const Inside list(page, "ul");
  for (const TrustFinding& finding : facts.findings) {
    const Inside entry(page, "li");
    const bool fault = finding.kind == FindingKind::fault;
    page.element("span", {{"class", fault ? "badge error" : "badge warning"}}, fault ? "fault" : "risk");
    page.text(fmt::format("{}: {}", finding.name, finding.text));
  }
}

void write_static(Markup& page, const StaticTrust& facts) {
  Table table{.caption = fmt::format("What config and weights tell, up to {} tokens ({})",
                                     whole_text(facts.to), facts.to_basis),
              .columns = {"what", "number", "in words"}};
  const auto row = [&](std::string what, std::string number, std::string words) {
    table.rows.push_back({std::move(what), std::move(number), std::move(words)});
  };
  row("declared", whole_text(facts.declared.tokens, ""), stated_text(facts.declared));
  row("trained", whole_text(facts.trained.tokens, ""), stated_text(facts.trained));
  for (const RotationTrust& rotation : facts.rotations) {
    const std::string of = fmt::format("layers {} ({})", layers_text(rotation.layers), rotation.mechanism);
    row("angles in range, " + of, whole_text(rotation.first_position, whole_text(facts.to)),
        rotation.first_position
            ? fmt::format(
                  "pair {} leaves first; {:.1f} % of pairs and distances were not seen, by up to {} rad",
                  rotation.first_pair.value_or(0), 100 * rotation.unseen, number_text(rotation.excess))
            : "every angle was seen in training");
    row("compression, " + of, number_text(rotation.least_compression),
        fmt::format("of the most slowed pair; the fastest turns {} rad a token, {} without a schedule",
                    number_text(rotation.fastest_step), number_text(rotation.fastest_plain)));
    row("B(m) >= 0, " + of, whole_text(rotation.sum_negative_from, whole_text(rotation.sum_searched_to)),
        fmt::format("{} (Men et al. 2024, a risk flag); least {} a pair",
                    rotation.sum_negative_from ? "negative from there on" : "nowhere negative",
                    number_text(rotation.least_sum)));
    row("critical dimension, " + of, whole_text(rotation.critical_dimension),
        rotation.extension_bound
            ? fmt::format(
                  "channels turned in training; the next pair turns once in {} tokens (Liu et al. 2023)",
                  number_text(*rotation.extension_bound))
            : "all channels turned in training (Liu et al. 2023)");
    row("precision, " + of, number_text(rotation.table_error, 2),
        fmt::format("largest error of cos under recipe {}, at position {}", facts.recipe,
                    whole_text(rotation.table_error_position)));
  }
  for (const TableTrust& one : facts.tables)
    row("rows that learned", whole_text(one.learned),
        one.evidence.empty() ? fmt::format("all of {}: no row stands out", one.tensor) : one.evidence);
  for (const ReachTrust& reach : facts.reach)
    row("reach of " + reach.what, whole_text(reach.tokens, "no end"), reach.text);
  if (facts.memory)
    row("memory", bytes_text(static_cast<double>(*facts.memory)), "keys and values of one sequence in f16");
  page.element("h3", {}, "Before anything is run");
  write_table(page, table);
}

void write_plan(Markup& page, const MeasuredTrust& measured) {
  const TrustPlan& plan = measured.plan;
  page.element("p", {}, measured.documents);
  page.element("p", {{"class", "small"}},
               fmt::format("{} s of {} s were taken; a pass of {} tokens takes {} s; seed {}{}",
                           number_text(plan.taken_s, 3), number_text(plan.budget_s, 3),
                           whole_text(plan.forward_tokens), number_text(plan.forward_s, 3), measured.seed,
                           plan.interrupted ? "; interrupted" : "."));
  if (!plan.left_out.empty()) {
    const Inside list(page, "ul");
    for (const std::string& sentence : plan.left_out) page.element("li", {}, "Left out: " + sentence);
  }
  Table table{.caption = "The plan, made before it started", .columns = {"part", "seconds"}};
  for (const PlannedPart& part : plan.parts) table.rows.push_back({part.what, number_text(part.seconds, 3)});
  if (!table.rows.empty()) write_folded(page, "The plan", table);
}

}  // namespace

Verdict trust_verdict_of(const TrustReport& report) {
  Mood mood = Mood::plain;
  if (report.verdict.word == TrustWord::holds) mood = Mood::good;
  if (report.verdict.word == TrustWord::worse) mood = Mood::bad;
  if (report.verdict.word == TrustWord::cannot_tell) mood = Mood::odd;
  return {mood, report.verdict.text};
}

void write_trust(Markup& page, const TrustReport& report) {
  const Inside section(page, "section", {{"id", "trust"}, {"aria-labelledby", "trust-title"}});
  page.element("h2", {{"id", "trust-title"}}, "How far it can be trusted");
  page.element("p", {}, report.verdict.text);
  if (report.extension)
    page.element("p", {},
                 fmt::format("Under the schedule {}{}.", report.extension->method,
                             report.extension->factor > 0
                                 ? fmt::format(" by {}", number_text(report.extension->factor))
                                 : ""));
  draw_lengths(page, report);
  write_findings(page, report.facts);
  write_static(page, report.facts);
  if (!report.measured) return;
  page.element("h3", {}, "What was measured");
  write_plan(page, *report.measured);
  write_measured(page, *report.measured, report.facts);
}

}  // namespace locant::html

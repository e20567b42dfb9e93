// SPDX-License-Identifier: Apache-2.0
// One finding: what, where, due and found, the causes that would reproduce it as bars of what each leaves
// unexplained against what rounding explains, its curves, and what to do next.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/html/chart.h"
#include "report/html/numbers.h"
#include "report/html/parts.h"

namespace locant::html {
namespace {

constexpr std::size_t kDrawn = 128;  // points of a curve on the page

std::string parameters_text(const Hypothesis& hypothesis) {
  std::string text;
  for (const auto& [name, value] : hypothesis.parameters)
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name, number_text(value, 7));
  return text;
}

std::string judgement_of(const Hypothesis& one) {
  if (one.residual <= one.budget) return "within rounding";
  if (!(one.budget > 0) || !std::isfinite(one.residual)) return "beyond rounding";
  const double times = one.residual / one.budget;
  return times < 10 ? fmt::format("{:.2g} times what rounding explains", times)
                    : fmt::format("{} times what rounding explains",
                                  whole_text(static_cast<std::int64_t>(std::min(std::round(times), 1e15))));
}

void draw_cause(Markup& page, const Hypothesis& one, const Axis& axis) {
  open_picture(page, "cause", fmt::format("What \"{}\" leaves unexplained", one.cause),
               fmt::format("{} against {} that rounding explains, on a log scale.", number_text(one.residual),
                           number_text(one.budget)));
  page.empty("rect",
             {{"class", "track"}, {"x", "0"}, {"y", "3"}, {"width", "100%"}, {"height", "10"}, {"rx", "2"}});
  page.empty("rect", {{"class", one.residual <= one.budget ? "bar within" : "bar beyond"},
                      {"x", "0"},
                      {"y", "3"},
                      {"width", percent(std::max(axis.share(one.residual), 0.004))},
                      {"height", "10"},
                      {"rx", "2"}});
  const std::string at = percent(axis.share(one.budget));
  page.empty("line", {{"class", "budget"}, {"x1", at}, {"x2", at}, {"y1", "0"}, {"y2", "16"}});
  page.close();
}

void draw_scale(Markup& page, const Axis& axis) {
  const Inside scale(page, "svg", {{"class", "scale"}, {"aria-hidden", "true"}});
  const std::vector<double> ticks = axis.ticks(8);
  for (std::size_t i = 0; i < ticks.size(); ++i) {
    const std::string x = percent(axis.share(ticks[i]));
    page.empty("line", {{"class", "axis"}, {"x1", x}, {"x2", x}, {"y1", "0"}, {"y2", "4"}});
    page.element("text",
                 {{"class", ticks.size() > 5 && i % 2 == 1 ? "tick middle spare" : "tick middle"},
                  {"x", x},
                  {"y", "17"}},
                 tick_text(ticks[i]));
  }
  page.element("text", {{"class", "label middle"}, {"x", "50%"}, {"y", "34"}},
               "share left unexplained, log; stroke: rounding");
}

/// At most kDrawn of its points, the ends among them.
Curve thinned(const Curve& curve) {
  if (curve.x.size() <= kDrawn) return curve;
  Curve thin{.name = curve.name, .x_label = curve.x_label, .y_label = curve.y_label};
  for (std::size_t k = 0; k < kDrawn; ++k) {
    const std::size_t i = k * (curve.x.size() - 1) / (kDrawn - 1);
    thin.x.push_back(curve.x[i]);
    if (!curve.expected.empty()) thin.expected.push_back(curve.expected[i]);
    if (!curve.observed.empty()) thin.observed.push_back(curve.observed[i]);
  }
  return thin;
}

void draw_curve(Markup& page, const Curve& whole) {
  const Curve curve = thinned(whole);
  Chart chart;
  chart.title = curve.name;
  chart.x_label = curve.x_label;
  chart.y_label = curve.y_label;
  std::size_t apart = 0;
  for (std::size_t i = 0; i < whole.x.size() && i < whole.expected.size() && i < whole.observed.size(); ++i) {
    const double due = whole.expected[i];
    const double is = whole.observed[i];
    if (std::isfinite(due) && std::isfinite(is) &&
        std::abs(is - due) > 1e-3 * std::max(std::abs(due), std::abs(is)))
      ++apart;
  }
  if (!whole.expected.empty() && !whole.observed.empty())
    chart.description = fmt::format("Due and found differ by more than a thousandth at {} of {} points.",
                                    apart, whole.x.size());
  if (!curve.expected.empty())
    chart.series.push_back({.name = "due",
                            .x = curve.x,
                            .y = curve.expected,
                            .marks = {Mark::dashes, Mark::squares},
                            .tone = Tone::quiet});
  if (!curve.observed.empty())
    chart.series.push_back(
        {.name = "found", .x = curve.x, .y = curve.observed, .marks = {Mark::dots}, .tone = Tone::other});
  draw(page, chart);
}

void write_row(Markup& page, std::string_view name, const std::string& text) {
  if (text.empty()) return;
  page.element("dt", {}, name);
  page.element("dd", {}, text);
}

}  // namespace

void write_hypotheses(Markup& page, const Finding& finding) {
  std::vector<Hypothesis> fitted;
  for (const Hypothesis& one : finding.hypotheses) {
    if (one.budget > 0) fitted.push_back(one);  // the others were found by counting
  }
  if (fitted.empty()) return;
  page.element("h5", {}, "Causes, the best first");
  std::vector<double> values;
  Table table{.caption = "Causes: relative root mean square that each leaves, and what rounding explains",
              .columns = {"cause", "parameters", "leaves", "rounding explains"}};
  for (const Hypothesis& one : fitted) {
    values.insert(values.end(), {one.residual, one.budget});
    table.rows.push_back(
        {one.cause, parameters_text(one), number_text(one.residual), number_text(one.budget)});
  }
  const Axis axis(Scale::log, values);
  {
    const Inside list(page, "ol", {{"class", "causes"}});
    for (const Hypothesis& one : fitted) {
      const Inside entry(page, "li");
      page.text(one.cause);
      page.element("span", {{"class", "small"}},
                   fmt::format("leaves {}, rounding explains {}: {}", number_text(one.residual, 2),
                               number_text(one.budget, 2), judgement_of(one)));
      draw_cause(page, one, axis);
    }
  }
  draw_scale(page, axis);
  write_folded(page, "The numbers", table);
}

void write_finding(Markup& page, const Finding& finding, Allowance& allowance) {
  const std::string id = page.id("finding");
  const Inside article(page, "article", {{"aria-labelledby", id}});
  {
    const Inside heading(page, "h4", {{"id", id}});
    page.element("span", {{"class", fmt::format("badge {}", name_of(finding.severity))}},
                 name_of(finding.severity));
    page.text(fmt::format("{} {}", finding.rule->id, finding.rule->name));
  }
  page.element("p", {}, finding.message);
  {
    const Inside list(page, "dl");
    write_row(page, "place", place_text(finding.where));
    write_row(page, "file", finding.where.file);
    write_row(page, "due", fact_text(finding.expected));
    write_row(page, "found", fact_text(finding.observed));
    write_row(page, "rule", std::string(finding.rule->summary));
    write_row(page, "next", finding.next);
  }
  if (--allowance.drawn_causes >= 0) {
    write_hypotheses(page, finding);
  } else if (!finding.hypotheses.empty()) {
    const Hypothesis& best = finding.hypotheses.front();
    page.element("p", {},
                 fmt::format("Cause: {} (leaves {}, rounding explains {}).", best.cause,
                             number_text(best.residual, 2), number_text(best.budget, 2)));
  }
  bool first = true;
  for (const Curve& curve : finding.curves) {
    if (curve.x.empty()) continue;
    if (allowance.bytes == 0) {
      ++allowance.left_out;
      continue;
    }
    if (first) page.element("h5", {}, "The evidence");
    first = false;
    const std::size_t before = page.size();
    draw_curve(page, curve);
    allowance.bytes -= std::min(allowance.bytes, page.size() - before);
  }
}

}  // namespace locant::html

// SPDX-License-Identifier: Apache-2.0
// Where readings of one model, or two models, differ: in words, over the pairs, from which position on, and
// what it does to the logits.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <variant>

#include "report/html/chart.h"
#include "report/html/numbers.h"
#include "report/html/parts.h"
#include "report/html/table.h"

namespace locant::html {
namespace {

struct Sides {
  const Comparison* comparison = nullptr;
  const Facts* a = nullptr;
  const Facts* b = nullptr;
};

std::string optional_text(const std::optional<double>& value, int digits = 6) {
  return value ? number_text(*value, digits) : "";
}

std::size_t inside_of(const Comparison& pair) {
  return static_cast<std::size_t>(std::count_if(pair.differences.begin(), pair.differences.end(),
                                                [](const Difference& one) { return one.inside; }));
}

std::string pair_text(const Comparison& pair) {
  const std::size_t inside = inside_of(pair);
  if (inside == 0)
    return fmt::format("{} and {} do not differ beyond rounding inside {} tokens", pair.a, pair.b,
                       whole_text(pair.distance));
  return fmt::format("{} and {} differ in {} beyond rounding inside {} tokens", pair.a, pair.b,
                     count_text(inside, "way"), whole_text(pair.distance));
}

void write_row(Markup& page, std::string_view name, const std::string& text) {
  if (text.empty()) return;
  page.element("dt", {}, name);
  page.element("dd", {}, text);
}

std::string numbers_of(const std::vector<std::int64_t>& pairs) {
  return pairs.empty() ? "" : layers_text(pairs);
}

std::string gap_text(const Gap& gap) {
  std::string text = fmt::format("at position {}", whole_text(gap.position));
  if (gap.index >= 0) text += fmt::format(", index {}", gap.index);
  if (gap.radians) text += fmt::format(": {} rad", number_text(*gap.radians));
  return text + fmt::format("; an element differs by {}, of {}", number_text(gap.difference),
                            number_text(gap.magnitude));
}

void write_difference(Markup& page, const Difference& one, const Comparison& pair) {
  const std::string id = page.id("difference");
  const Inside article(page, "article", {{"aria-labelledby", id}});
  {
    const Inside heading(page, "h4", {{"id", id}});
    page.element("span", {{"class", one.inside ? "badge warning" : "badge note"}},
                 one.inside ? "differs" : "further on");
    page.text(fmt::format("{} ({})", one.what, one.site));
  }
  page.element("p", {}, one.message);
  const Inside list(page, "dl");
  write_row(page, "kind", std::string(name_of(one.kind)));
  write_row(page, "layers", locant::layers_text(one));
  write_row(page, one.site == "bias" ? "heads" : "pairs", numbers_of(one.pairs));
  write_row(page, pair.a, optional_text(one.a));
  write_row(page, pair.b, optional_text(one.b));
  if (one.at_distance) write_row(page, "largest", gap_text(*one.at_distance));
  if (one.first_bf16) write_row(page, "beyond bf16", "from position " + whole_text(*one.first_bf16));
  if (one.first_f32) write_row(page, "beyond f32", "from position " + whole_text(*one.first_f32));
  if (one.seen_from)
    write_row(page, "tokens seen",
              fmt::format("{} to {}", whole_text(*one.seen_from), whole_text(one.seen_to, "the end")));
  for (const DifferenceEvidence& row : one.evidence)
    write_row(page, fmt::format("recipe {}", row.recipe),
              fmt::format("{} [{}, {}]", row.what, row.evidence, row.tested_live ? "tested live" : "read"));
}

const Rotation* rotation_of(const Facts* facts, const std::vector<std::int64_t>& layers) {
  if (facts == nullptr) return nullptr;
  for (const PositionFacts& entry : facts->positions) {
    const auto* const rotation = entry.plan ? std::get_if<Rotation>(&*entry.plan) : nullptr;
    const bool same =
        layers.empty() || std::binary_search(entry.layers.begin(), entry.layers.end(), layers.front());
    if (rotation != nullptr && same) return rotation;
  }
  return nullptr;
}

/// Angle between the same pair of both readings at the last position compared.
void draw_pairs(Markup& page, const Sides& sides) {
  const Comparison& pair = *sides.comparison;
  const auto found =
      std::find_if(pair.differences.begin(), pair.differences.end(), [](const Difference& one) {
        return one.site == "rotation" && one.at_distance && one.at_distance->radians &&
               *one.at_distance->radians > 0;
      });
  if (found == pair.differences.end()) return;
  const Rotation* const a = rotation_of(sides.a, found->layers);
  const Rotation* const b = rotation_of(sides.b, found->layers);
  if (a == nullptr || b == nullptr || a->inv_freq.size() != b->inv_freq.size()) return;
  const auto last = static_cast<double>(pair.distance - 1);
  Chart chart;
  chart.title = fmt::format("Angle between {} and {} at position {}, by pair", pair.a, pair.b,
                            whole_text(pair.distance - 1));
  chart.description = "By the frequencies of both plans; half a turn, 3.14 radians, turns a pair round.";
  chart.x_label = "pair, the fastest first";
  chart.y_label = "radians, log scale";
  chart.y_scale = Scale::log;
  Series away{.name = "apart", .marks = {Mark::dots}, .tone = Tone::other};
  for (std::size_t i = 0; i < a->inv_freq.size(); ++i) {
    const double radians = std::abs(a->sign * a->inv_freq[i] - b->sign * b->inv_freq[i]) * last;
    away.x.push_back(static_cast<double>(i));
    away.y.push_back(radians > 0 ? radians : NAN);
  }
  if (std::none_of(away.y.begin(), away.y.end(), [](double y) { return std::isfinite(y); })) return;
  chart.series = {std::move(away)};
  draw(page, chart);
}

void write_pair(Markup& page, const Sides& sides) {
  const Comparison& pair = *sides.comparison;
  page.element("h3", {}, fmt::format("{} and {}", pair.a, pair.b));
  page.element("p", {}, pair_text(pair) + ".");
  page.element("p", {{"class", "small"}},
               fmt::format("{} tokens compared ({}), a runtime opened for {}, run in {} ({}).",
                           whole_text(pair.distance), pair.distance_basis, whole_text(pair.capacity),
                           name_of(pair.run_dtype), pair.run_dtype_basis));
  draw_pairs(page, sides);
  for (const Difference& one : pair.differences) write_difference(page, one, pair);
  Table within{.caption = "Arithmetic that stays below half a step of bf16",
               .columns = {"what", "site", "message"}};
  for (const Difference& one : pair.within_rounding) within.rows.push_back({one.what, one.site, one.message});
  if (!within.rows.empty())
    write_folded(page, fmt::format("Within rounding: {}", within.rows.size()), within);
  if (pair.notes.empty()) return;
  const Inside list(page, "ul");
  for (const std::string& note : pair.notes) page.element("li", {}, note);
}

void write_effect(Markup& page, const CompareEffect& effect) {
  page.element("h3", {}, "What it does to the model");
  if (!effect.why_not.empty()) {
    page.element("p", {}, "Nothing was run: " + effect.why_not);
    if (effect.pairs.empty()) return;
  }
  Table table{.caption = fmt::format("{} of {} tokens ({} text) under each reading", effect.of,
                                     whole_text(effect.tokens), effect.text),
              .columns = {"readings", "largest change", "of the largest", "where", "KL, nats", "same first",
                          "loss", "loss of the other"}};
  for (const LogitChange& one : effect.pairs)
    table.rows.push_back({fmt::format("{} and {}", one.a, one.b), number_text(one.largest),
                          number_text(one.largest_relative, 3),
                          fmt::format("row {}, token {}", one.row, one.token), optional_text(one.kl, 3),
                          one.top1 ? fmt::format("{:.1f}%", 100 * *one.top1) : "",
                          optional_text(one.loss_a, 5), optional_text(one.loss_b, 5)});
  write_table(page, table);
}

}  // namespace

Verdict compare_verdict(const CompareReport& report) {
  std::string text;
  bool any = false;
  for (const Comparison& pair : report.pairs) {
    if (pair.a != report.sides.front()) continue;  // the others follow from these
    any = any || inside_of(pair) > 0;
    text += (text.empty() ? "" : "; ") + pair_text(pair);
  }
  return {any ? Mood::odd : Mood::good, text.empty() ? "Nothing was compared." : text + "."};
}

void write_compare(Markup& page, const ComparePart& part, const std::string& id) {
  const CompareReport& report = *part.report;
  const Inside section(page, "section", {{"id", id}, {"aria-labelledby", id + "-title"}});
  page.element("h2", {{"id", id + "-title"}},
               report.other.empty() ? "Where recipes differ" : "Where two models differ");
  page.element("p", {}, compare_verdict(report).text);
  if (!report.other.empty()) {
    const Inside list(page, "dl");
    write_row(page, "A", report.model);
    write_row(page, "B", report.other);
    if (report.same_tokenizer)
      write_row(page, "tokenizers", *report.same_tokenizer ? "give the same ids" : "give other ids");
  }
  const auto side = [&](const std::string& name) -> const Facts* {
    const auto at = static_cast<std::size_t>(std::find(report.sides.begin(), report.sides.end(), name) -
                                             report.sides.begin());
    return at < part.sides.size() ? part.sides[at] : nullptr;
  };
  if (report.effect) write_effect(page, *report.effect);
  for (const Comparison& pair : report.pairs) write_pair(page, {&pair, side(pair.a), side(pair.b)});
}

}  // namespace locant::html

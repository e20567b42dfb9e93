// SPDX-License-Identifier: Apache-2.0
// What a model did with texts: loss by context with its intervals, copies found again by distance, the same
// text further on, and another schedule.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "report/html/chart.h"
#include "report/html/heatmap.h"
#include "report/html/numbers.h"
#include "report/html/parts.h"

namespace locant::html {
namespace {

std::string interval_text(const Estimate& estimate) {
  return fmt::format("{:+.4f} [{:+.4f}, {:+.4f}]", estimate.mean, estimate.low, estimate.high);
}

std::vector<Reference> length_lines(const StaticTrust& facts) {
  std::vector<Reference> lines;
  if (facts.trained.tokens)
    lines.push_back({static_cast<double>(*facts.trained.tokens),
                     (facts.trained.source == LengthSource::assumed ? "declared " : "trained ") +
                         whole_text(*facts.trained.tokens)});
  if (facts.declared.tokens && facts.declared.tokens != facts.trained.tokens)
    lines.push_back(
        {static_cast<double>(*facts.declared.tokens), "declared " + whole_text(*facts.declared.tokens)});
  return lines;
}

Table loss_table(const LossCurve& loss) {
  Table table{
      .caption = fmt::format("Loss of the same {} targets; one-sided 95 % bounds, bootstrap over documents",
                             whole_text(loss.targets)),
      .columns = {"tokens fed", "documents", "loss, nats", "from", "to", "against", "difference", "judged"}};
  for (const LossPoint& point : loss.points) {
    if (point.documents == 0) {
      table.rows.push_back(
          {whole_text(point.length), "0", "", "", "", "", "", "not measured: " + point.why_not});
      continue;
    }
    table.rows.push_back({whole_text(point.length), whole_text(point.documents),
                          fmt::format("{:.4f}", point.loss.mean), fmt::format("{:.4f}", point.loss.low),
                          fmt::format("{:.4f}", point.loss.high),
                          point.compared_with == 0 ? "" : whole_text(point.compared_with),
                          point.compared_with == 0 ? "" : interval_text(point.difference),
                          fmt::format("{}{}", name_of(point.no_harm), point.falls ? ", falls" : "")});
  }
  return table;
}

void add_point(Series& series, std::int64_t length, double value, double low, double high) {
  series.x.push_back(static_cast<double>(length));
  series.y.push_back(value);
  series.low.push_back(low);
  series.high.push_back(high);
}

void draw_loss(Markup& page, const LossCurve& loss, const StaticTrust& facts) {
  if (loss.points.empty()) return;
  Chart chart;
  chart.title = "Loss by tokens fed";
  chart.description =
      fmt::format("The same {} targets of {} documents, predicted with more and more before them; {}.",
                  whole_text(loss.targets), loss.documents, loss.control_text);
  chart.x_label = "tokens fed, log scale";
  chart.y_label = "nats a token";
  chart.x_scale = Scale::log;
  Series curve{.name = "loss", .marks = {Mark::line, Mark::dots}};
  Series rise{
      .name = "against the best shorter length", .marks = {Mark::line, Mark::rings}, .tone = Tone::other};
  for (const LossPoint& point : loss.points) {
    if (point.documents == 0) continue;
    add_point(curve, point.length, point.loss.mean, point.loss.low, point.loss.high);
    if (point.compared_with > 0)
      add_point(rise, point.length, point.difference.mean, point.difference.low, point.difference.high);
  }
  if (curve.x.empty()) {
    write_folded(page, "Why no loss was measured", loss_table(loss));
    return;
  }
  chart.series = {std::move(curve)};
  chart.at_x = length_lines(facts);
  chart.numbers = loss_table(loss);
  draw(page, chart);
  if (rise.x.empty()) return;
  Chart change;
  change.title = "Rise against the best shorter length";
  change.description = fmt::format(
      "Paired by document. An interval that stays below {} nats is no harm, one that stays above is harm.",
      loss.margin);
  change.x_label = chart.x_label;
  change.y_label = "nats a token";
  change.x_scale = Scale::log;
  change.series = {std::move(rise)};
  change.at_x = chart.at_x;
  change.at_y = {{loss.margin, fmt::format("margin {}", loss.margin)}};
  change.numbers = chart.numbers;
  draw(page, change);
}

/// [2^k, 2^(k + 1))
int octave(std::int64_t distance) {
  int k = 0;
  while (distance > 1) {
    distance /= 2;
    ++k;
  }
  return k;
}

void draw_retrieval(Markup& page, const Retrieval& retrieval) {
  if (retrieval.cells.empty()) {
    if (!retrieval.text.empty()) page.element("p", {}, "Retrieval: " + retrieval.text);
    return;
  }
  HeatMap map;
  map.title = "Copies found again, by tokens fed and distance";
  map.description = fmt::format(
      "A segment of {} tokens stands twice; the last {} of the second are told from {} others by likelihood. "
      "Right of "
      "all trials, the worst place in each cell, and Wilson's lower 95 % bound. {} of the own base {} is "
      "asked for. {}",
      retrieval.segment, retrieval.scored, retrieval.choices - 1, number_text(retrieval.threshold),
      number_text(retrieval.base), retrieval.text);
  map.row_label = "distance, tokens";
  map.column_label = "tokens fed";
  std::set<std::int64_t> lengths;
  std::set<int> octaves;
  std::map<std::pair<int, std::int64_t>, const RetrievalCell*> worst;
  map.numbers = {
      .caption = map.title,
      .columns = {"tokens fed", "distance", "source", "right", "trials", "rate", "from", "to", "judged"}};
  for (const RetrievalCell& cell : retrieval.cells) {
    lengths.insert(cell.length);
    octaves.insert(octave(cell.distance));
    const RetrievalCell*& held = worst[{octave(cell.distance), cell.length}];
    if (held == nullptr || cell.rate.mean < held->rate.mean) held = &cell;
    map.numbers.rows.push_back({whole_text(cell.length), whole_text(cell.distance), whole_text(cell.source),
                                whole_text(cell.right), whole_text(cell.trials),
                                fmt::format("{:.3f}", cell.rate.mean), fmt::format("{:.3f}", cell.rate.low),
                                fmt::format("{:.3f}", cell.rate.high),
                                fmt::format("{}{}", name_of(cell.holds), cell.control ? ", control" : "")});
  }
  const std::vector<std::int64_t> columns(lengths.begin(), lengths.end());
  const std::vector<int> rows(octaves.rbegin(), octaves.rend());
  for (const std::int64_t length : columns) map.columns.push_back(tick_text(static_cast<double>(length)));
  for (const int k : rows)
    map.rows.push_back(
        fmt::format("{}-{}", tick_text(std::ldexp(1, k)), tick_text(std::ldexp(1, k + 1) - 1)));
  for (const auto& [place, cell] : worst) {
    const auto row =
        static_cast<std::size_t>(std::find(rows.begin(), rows.end(), place.first) - rows.begin());
    const auto column =
        static_cast<std::size_t>(std::find(columns.begin(), columns.end(), place.second) - columns.begin());
    map.cells.push_back({row, column, cell->rate.mean, fmt::format("{}/{}", cell->right, cell->trials),
                         fmt::format("\u2265 {:.2f}", cell->rate.low),
                         fmt::format("{} tokens fed, distance {}: {} of {} right, {:.2f} to {:.2f}; {}",
                                     cell->length, cell->distance, cell->right, cell->trials, cell->rate.low,
                                     cell->rate.high, name_of(cell->holds))});
  }
  draw(page, map);
}

void write_shift(Markup& page, const ShiftTrust& shift) {
  page.element("h3", {}, "The same text further on");
  page.element("p", {},
               shift.points.empty()
                   ? shift.text
                   : fmt::format("Shift invariance {}. {}", name_of(shift.holds), shift.text));
  if (shift.points.empty()) return;
  Table table{
      .caption = fmt::format("Largest change of a logit, as a share of the largest; up to {} is rounding",
                             number_text(shift.bound, 2)),
      .columns = {"moved by", "largest change"}};
  for (const ShiftPoint& point : shift.points)
    table.rows.push_back({whole_text(point.shift), number_text(point.difference, 2)});
  write_table(page, table);
}

void draw_scaling(Markup& page, const ScalingTrust& scaling, const StaticTrust& facts) {
  page.element("h3", {},
               fmt::format("The schedule {}{}", scaling.method,
                           scaling.factor > 0 ? fmt::format(" by {}", number_text(scaling.factor)) : ""));
  page.element("p", {}, scaling.text);
  Chart chart;
  chart.title = "Loss as it is and under the schedule";
  chart.description = fmt::format(
      "The same targets. The schedule {} the logits, by up to {}; the same call twice differs by {}.",
      scaling.takes_effect ? "moves" : "does not move", number_text(scaling.effect, 3),
      number_text(scaling.replicate, 3));
  chart.x_label = "tokens fed, log scale";
  chart.y_label = "nats a token";
  chart.x_scale = Scale::log;
  Series own{.name = "as it is", .marks = {Mark::line, Mark::dots}};
  Series other{.name = scaling.method, .marks = {Mark::dashes, Mark::squares}, .tone = Tone::other};
  Table table{.caption = chart.title,
              .columns = {"tokens fed", "documents", "as it is", "scaled", "difference", "KL, nats",
                          "same first", "judged"}};
  for (const ScalingPoint& point : scaling.points) {
    own.x.push_back(static_cast<double>(point.length));
    own.y.push_back(point.loss);
    other.x.push_back(static_cast<double>(point.length));
    other.y.push_back(point.scaled);
    table.rows.push_back({whole_text(point.length), whole_text(point.documents),
                          fmt::format("{:.4f}", point.loss), fmt::format("{:.4f}", point.scaled),
                          interval_text(point.difference), fmt::format("{:.4f}", point.divergence),
                          fmt::format("{:.1f}%", 100 * point.agreement),
                          fmt::format("{}{}",
                                      point.harmful  ? "harmful"
                                      : point.better ? "better"
                                                     : "",
                                      point.inside ? " (inside training)" : "")});
  }
  if (own.x.empty()) return;
  chart.series = {std::move(own), std::move(other)};
  chart.at_x = length_lines(facts);
  chart.numbers = std::move(table);
  draw(page, chart);
}

}  // namespace

void write_measured(Markup& page, const MeasuredTrust& measured, const StaticTrust& facts) {
  draw_loss(page, measured.loss, facts);
  draw_retrieval(page, measured.retrieval);
  write_shift(page, measured.shift);
  if (measured.scaling) draw_scaling(page, *measured.scaling, facts);
}

}  // namespace locant::html

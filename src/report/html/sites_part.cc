// SPDX-License-Identifier: Apache-2.0
// Biases and added rows: how far a head's slope reaches, where buckets end, rows of tables against lengths.
#include <fmt/format.h>

#include <cmath>
#include <variant>

#include "report/html/chart.h"
#include "report/html/ladder.h"
#include "report/html/numbers.h"
#include "report/html/parts.h"

namespace locant::html {
namespace {

constexpr double kFaded = 100;  // a bias of -ln(100) leaves one hundredth of a key's weight

std::vector<Reference> length_lines(const LimitFacts& limits) {
  std::vector<Reference> lines;
  const LengthSpec& lengths = limits.lengths;
  if (lengths.trained)
    lines.push_back({static_cast<double>(*lengths.trained), "trained " + whole_text(*lengths.trained)});
  if (lengths.configured && lengths.configured != lengths.trained)
    lines.push_back(
        {static_cast<double>(*lengths.configured), "configured " + whole_text(*lengths.configured)});
  return lines;
}

void draw_slopes(Markup& page, const Facts& facts, const PositionFacts& entry, const Bias& bias) {
  Chart chart;
  chart.title = fmt::format("How far each head reaches, layers {}", layers_text(entry.layers));
  chart.description =
      "The distance at which the slope alone leaves a key one hundredth of the weight that it has beside the "
      "query. A head of slope 0 reaches everywhere.";
  chart.x_label = "head";
  chart.y_label = "tokens, log scale";
  chart.y_scale = Scale::log;
  Series reach{.name = "reach", .marks = {Mark::dots}};
  Table table{.caption = chart.title, .columns = {"head", "slope, 1/token", "reach, tokens"}};
  for (std::size_t head = 0; head < bias.slopes.size(); ++head) {
    const double slope = std::abs(bias.slopes[head]);
    const double tokens = slope > 0 ? std::log(kFaded) / slope : INFINITY;
    reach.x.push_back(static_cast<double>(head));
    reach.y.push_back(tokens);
    table.rows.push_back({std::to_string(head), number_text(bias.slopes[head], 7), number_text(tokens)});
  }
  chart.series = {std::move(reach)};
  chart.at_y = length_lines(facts.limits);
  chart.numbers = std::move(table);
  draw(page, chart);
}

void draw_buckets(Markup& page, const Facts& facts, const PositionFacts& entry, const Bias& bias) {
  const T5Buckets buckets{
      .buckets = bias.buckets, .max_distance = bias.max_distance, .bidirectional = bias.bidirectional};
  Chart chart;
  chart.title =
      fmt::format("Buckets of distances, {} layers {}", name_of(entry.stack), layers_text(entry.layers));
  chart.description = fmt::format(
      "Keys before the query: which of {} buckets a distance falls into. From {} tokens on all distances "
      "share "
      "one.",
      bias.buckets, whole_text(bias.max_distance));
  chart.x_label = "tokens between key and query, log scale";
  chart.y_label = "bucket";
  chart.x_scale = Scale::log;
  Series steps{.name = "bucket", .marks = {Mark::line, Mark::dots}};
  std::int64_t before = -1;
  for (std::int64_t distance = 1; distance <= 2 * bias.max_distance; ++distance) {
    const std::int64_t bucket = t5_bucket(-distance, buckets);
    if (bucket == before && distance != 2 * bias.max_distance) continue;
    before = bucket;
    steps.x.push_back(static_cast<double>(distance));
    steps.y.push_back(static_cast<double>(bucket));
  }
  chart.series = {std::move(steps)};
  chart.at_x = length_lines(facts.limits);
  draw(page, chart);
}

void draw_table(Markup& page, const Facts& facts, const PositionFacts& entry,
                const PositionEmbedding& table) {
  LadderChart chart;
  chart.title = fmt::format("Rows of the position table ({})", entry.mechanism);
  chart.description = table.past_end == PastEnd::refuse
                          ? "A position past the last row has none: such tokens cannot be computed."
                          : "Positions past the last row take the last one.";
  chart.unit = "tokens";
  const auto positions = static_cast<double>(table.rows - table.offset);
  chart.rungs.push_back(
      {.name = "positions with a row",
       .value = positions,
       .text = fmt::format("{} rows, row = position {:+}", whole_text(table.rows), table.offset),
       .strong = true});
  const LengthSpec& lengths = facts.limits.lengths;
  for (const auto& [name, length, key] :
       {std::tuple("configured", lengths.configured, lengths.configured_key),
        std::tuple("trained", lengths.trained, lengths.trained_basis)}) {
    if (length)
      chart.rungs.push_back(
          {.name = name, .value = static_cast<double>(*length), .text = whole_text(*length)});
    else
      chart.rungs.push_back({.name = name, .text = "not stated"});
  }
  draw(page, chart);
}

bool is_drawn(const PositionFacts& entry) {
  if (!entry.plan) return false;
  if (const auto* const bias = std::get_if<Bias>(&*entry.plan))
    return (bias->form == BiasForm::slopes && !bias->slopes.empty()) ||
           (bias->form == BiasForm::buckets && bias->buckets > 0 && bias->max_distance > 0);
  const auto* const embedding = std::get_if<PositionEmbedding>(&*entry.plan);
  return embedding != nullptr && embedding->form == EmbeddingForm::table &&
         embedding->rows > embedding->offset;
}

}  // namespace

void write_other_sites(Markup& page, const Facts& facts) {
  constexpr int kMostCharts = 12;  // distinct plans that are drawn
  int drawn = 0;
  for (const PositionFacts& entry : facts.positions) {
    if (!is_drawn(entry) || ++drawn > kMostCharts) continue;
    if (drawn == 1) page.element("h3", {}, "What is added, and how far it reaches");
    if (const auto* const bias = std::get_if<Bias>(&*entry.plan)) {
      if (bias->form == BiasForm::slopes) {
        draw_slopes(page, facts, entry, *bias);
      } else {
        draw_buckets(page, facts, entry, *bias);
      }
    } else {
      draw_table(page, facts, entry, std::get<PositionEmbedding>(*entry.plan));
    }
  }
}

}  // namespace locant::html

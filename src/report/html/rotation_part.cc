// SPDX-License-Identifier: Apache-2.0
// How fast each pair turns: its wavelength in tokens against the lengths that the model was trained and
// configured for. A pair of frequency w completes a turn inside L when w (L - 1) >= 2 pi.
#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <variant>

#include "report/html/chart.h"
#include "report/html/numbers.h"
#include "report/html/parts.h"

namespace locant::html {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;
constexpr std::size_t kMostCharts = 8;  // distinct plans that are drawn

/// Wavelengths of the ladder of the same theta without a schedule; empty where the entry's own is that.
std::vector<double> plain_ladder(const PositionFacts& entry, const Rotation& rotation) {
  if (!entry.theta || entry.mechanism == "rope" || !(*entry.theta > 1)) return {};
  std::vector<double> waves;
  bool differs = false;
  const auto pairs = static_cast<double>(rotation.inv_freq.size());
  for (std::size_t i = 0; i < rotation.inv_freq.size(); ++i) {
    waves.push_back(kTurn * std::pow(*entry.theta, static_cast<double>(i) / pairs));
    const double own = rotation.inv_freq[i];
    differs = differs || (own > 0 && std::abs(kTurn / own - waves.back()) > 1e-3 * waves.back());
  }
  return differs ? waves : std::vector<double>();
}

void add_lengths(Chart& chart, const LimitFacts& limits) {
  const auto add = [&](const std::optional<std::int64_t>& length, std::string_view name) {
    if (!length) return;
    const auto value = static_cast<double>(*length);
    for (Reference& line : chart.at_y) {
      if (line.value != value) continue;
      line.name = fmt::format("{} and {}", name, line.name);
      return;
    }
    chart.at_y.push_back({value, fmt::format("{} {}", name, whole_text(*length))});
  };
  add(limits.lengths.configured, "configured");
  add(limits.lengths.trained, "trained");
  if (limits.horizon != limits.lengths.configured) add(limits.horizon, "asked for");
}

std::string description_of(const AngleFacts& angle, const LimitFacts& limits) {
  if (!angle.incomplete_pairs)
    return "No length is stated, so nothing is known of which angles were trained on.";
  std::string text =
      fmt::format("{} of {} pairs that turn never complete one inside the {} {} tokens",
                  *angle.incomplete_pairs, angle.pairs, limits.angle_basis, whole_text(*limits.angle_length));
  if (angle.leaves_from)
    text +=
        fmt::format("; angles that training never saw begin at position {}", whole_text(*angle.leaves_from));
  return text + ".";
}

void draw_rotation(Markup& page, const Facts& facts, const PositionFacts& entry, const AngleFacts& angle) {
  const auto& rotation = std::get<Rotation>(*entry.plan);
  const LimitFacts& limits = facts.limits;
  const std::string stack = entry.stack == Stack::decoder ? "" : fmt::format("{} ", name_of(entry.stack));
  Chart chart;
  chart.title = fmt::format("How fast the pairs of {}layers {} turn ({})", stack, layers_text(entry.layers),
                            entry.mechanism);
  chart.description = description_of(angle, limits);
  chart.x_label = "pair, the fastest first";
  chart.y_label = "tokens a turn, log scale";
  chart.y_scale = Scale::log;
  Series complete{.name = "completes a turn", .marks = {Mark::dots}, .tone = Tone::main};
  Series incomplete{.name = "never completes one", .marks = {Mark::rings}, .tone = Tone::other};
  Table table{.caption = chart.title,
              .columns = {"pair", "radians a token", "tokens a turn", "turns inside", "completes one"}};
  const bool axes = !rotation.axis.empty();
  if (axes) table.columns.emplace_back("position axis");
  const double last = limits.angle_length ? static_cast<double>(*limits.angle_length - 1) : 0;
  std::size_t still = 0;
  for (std::size_t i = 0; i < rotation.inv_freq.size(); ++i) {
    const double frequency = std::abs(rotation.inv_freq[i]);
    const double turns = frequency * last / kTurn;
    const bool done = !limits.angle_length || turns >= 1;
    std::vector<std::string> row{std::to_string(i)};
    if (frequency > 0) {
      Series& into = done ? complete : incomplete;
      into.x.push_back(static_cast<double>(i));
      into.y.push_back(kTurn / frequency);
      row.insert(row.end(), {number_text(frequency, 7), number_text(kTurn / frequency, 7)});
    } else {
      ++still;
      row.insert(row.end(), {"0", "stands still"});
    }
    row.insert(row.end(), {limits.angle_length ? number_text(turns) : "", !limits.angle_length ? "not known"
                                                                          : frequency > 0 && done ? "yes"
                                                                                                  : "no"});
    if (axes) row.push_back(std::to_string(rotation.axis[i]));
    table.rows.push_back(std::move(row));
  }
  if (still > 0) chart.description += fmt::format(" {} pairs stand still and are not drawn.", still);
  if (!limits.angle_length) complete.name = "a pair";
  const std::vector<double> plain = plain_ladder(entry, rotation);
  if (!plain.empty()) {
    Series ladder{.name = "the ladder without its schedule", .marks = {Mark::dashes}, .tone = Tone::quiet};
    for (std::size_t i = 0; i < plain.size(); ++i) ladder.x.push_back(static_cast<double>(i));
    ladder.y = plain;
    chart.series.push_back(std::move(ladder));
  }
  if (!complete.x.empty()) chart.series.push_back(std::move(complete));
  if (!incomplete.x.empty()) chart.series.push_back(std::move(incomplete));
  add_lengths(chart, limits);
  chart.numbers = std::move(table);
  draw(page, chart);
}

}  // namespace

void write_rotations(Markup& page, const Facts& facts) {
  std::size_t index = 0;
  std::size_t drawn = 0;
  for (const PositionFacts& entry : facts.positions) {
    if (!entry.plan || !std::holds_alternative<Rotation>(*entry.plan)) continue;
    const AngleFacts angle = index < facts.limits.angles.size() ? facts.limits.angles[index] : AngleFacts{};
    ++index;
    if (index == 1) page.element("h3", {}, "Which dimensions turn, and how fast");
    if (angle.pairs == 0 || ++drawn > kMostCharts) continue;
    draw_rotation(page, facts, entry, angle);
  }
  if (drawn > kMostCharts)
    page.element("p", {{"class", "small"}},
                 fmt::format("{} more plans are not drawn; `locant inspect --json` has their frequencies.",
                             drawn - kMostCharts));
}

}  // namespace locant::html

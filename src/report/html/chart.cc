// SPDX-License-Identifier: Apache-2.0
// Places along x are shares of the width and places along y are pixels, so that text keeps its size at any
// width. Lines are paths of a nested picture that is stretched, their strokes are not. Space for ticks is the
// padding of the outer picture.
#include "report/html/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "report/html/numbers.h"

namespace locant::html {
namespace {

constexpr double kHeight = 220;       // px of the area
constexpr double kUnits = 1000;       // of a stretched path, across
constexpr std::size_t kHovered = 80;  // points of a series that answer the pointer
constexpr std::size_t kRows = 48;     // of a table made of series
constexpr double kLine = 15;          // px, of text

std::string_view class_of(Tone tone) {
  constexpr std::array<std::string_view, 3> kNames = {"main", "other", "quiet"};
  return kNames[static_cast<std::size_t>(tone)];
}

bool is_line(Mark mark) {
  return mark == Mark::line || mark == Mark::dashes;
}

struct Area {
  Axis x;
  Axis y;

  [[nodiscard]] double across(double value) const { return x.share(value); }
  [[nodiscard]] double down(double value) const { return kHeight * (1 - y.share(value)); }
};

Area area_of(const Chart& chart) {
  std::vector<double> x;
  std::vector<double> y;
  for (const Series& one : chart.series) {
    x.insert(x.end(), one.x.begin(), one.x.end());
    for (const auto* values : {&one.y, &one.low, &one.high})
      y.insert(y.end(), values->begin(), values->end());
  }
  for (const Reference& line : chart.at_x) x.push_back(line.value);
  for (const Reference& line : chart.at_y) y.push_back(line.value);
  return {Axis(chart.x_scale, x), Axis(chart.y_scale, y)};
}

std::string pixels(double value) {
  return fmt::format("{:.1f}", value);
}

void draw_ticks(Markup& page, const Chart& chart, const Area& area) {
  constexpr std::size_t kMostAcross = 8;
  constexpr std::size_t kMostDown = 6;
  for (const double value : area.y.ticks(kMostDown)) {
    const std::string y = pixels(area.down(value));
    page.empty("line", {{"class", "grid"}, {"x1", "0"}, {"x2", "100%"}, {"y1", y}, {"y2", y}});
    page.element("text", {{"class", "tick end"}, {"x", "-8"}, {"y", y}, {"dy", "0.32em"}}, tick_text(value));
  }
  const std::vector<double> across = area.x.ticks(kMostAcross);
  for (std::size_t i = 0; i < across.size(); ++i) {
    const std::string x = percent(area.across(across[i]));
    // every second one makes room on narrow screens
    const char* const css = across.size() > 5 && i % 2 == 1 ? "tick middle spare" : "tick middle";
    page.empty("line", {{"class", "grid"}, {"x1", x}, {"x2", x}, {"y1", "0"}, {"y2", pixels(kHeight)}});
    page.element("text", {{"class", css}, {"x", x}, {"y", pixels(kHeight + 18)}}, tick_text(across[i]));
  }
  page.empty(
      "line",
      {{"class", "axis"}, {"x1", "0"}, {"x2", "100%"}, {"y1", pixels(kHeight)}, {"y2", pixels(kHeight)}});
  page.element("text", {{"class", "label middle"}, {"x", "50%"}, {"y", pixels(kHeight + 38)}}, chart.x_label);
  page.element("text", {{"class", "label"}, {"x", "-48"}, {"y", "-12"}}, chart.y_label);
}

/// Names of lines across, one below the other where they would meet.
void draw_references(Markup& page, const Chart& chart, const Area& area) {
  std::vector<double> taken;
  std::vector<Reference> down = chart.at_y;
  std::sort(down.begin(), down.end(), [](const auto& a, const auto& b) { return a.value > b.value; });
  for (const Reference& line : down) {
    const double y = area.down(line.value);
    double text = std::max(y - 4, kLine - 4);
    while (std::any_of(taken.begin(), taken.end(), [&](double at) { return std::abs(at - text) < kLine; }))
      text += 1;
    taken.push_back(text);
    page.empty("line",
               {{"class", "reference"}, {"x1", "0"}, {"x2", "100%"}, {"y1", pixels(y)}, {"y2", pixels(y)}});
    page.element("text", {{"class", "name end"}, {"x", "100%"}, {"dx", "-4"}, {"y", pixels(text)}},
                 line.name);
  }
  std::size_t level = 0;
  for (const Reference& line : chart.at_x) {
    const double share = area.across(line.value);
    const std::string x = percent(share);
    const bool left = share > 0.5;
    page.empty("line", {{"class", "reference"}, {"x1", x}, {"x2", x}, {"y1", "0"}, {"y2", pixels(kHeight)}});
    page.element("text",
                 {{"class", left ? "name end" : "name"},
                  {"x", x},
                  {"dx", left ? "-5" : "5"},
                  {"y", pixels(kLine - 3 + kLine * static_cast<double>(level++))}},
                 line.name);
  }
}

/// Path of a line, or of points: strokes of no length with round or square ends.
std::string path_of(const Series& series, const Area& area, Mark mark) {
  std::string path;
  bool pen = false;
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (!std::isfinite(series.x[i]) || !std::isfinite(series.y[i])) {
      pen = false;
      continue;
    }
    const std::string place =
        fmt::format("{:.5g} {:.4g}", kUnits * area.across(series.x[i]), area.down(series.y[i]));
    if (is_line(mark)) {
      path += (pen ? "L" : "M") + place;
      pen = true;
    } else {
      path += "M" + place + "h0";
    }
  }
  return path;
}

void draw_series(Markup& page, const Series& series, const Area& area) {
  const std::string tone(class_of(series.tone));
  for (std::size_t i = 0; i < series.low.size() && i < series.high.size(); ++i) {
    if (!std::isfinite(series.low[i]) || !std::isfinite(series.high[i])) continue;
    const std::string x = percent(area.across(series.x[i]));
    page.empty("line", {{"class", "interval " + tone},
                        {"x1", x},
                        {"x2", x},
                        {"y1", pixels(area.down(series.low[i]))},
                        {"y2", pixels(area.down(series.high[i]))}});
  }
  {
    const Inside stretched(page, "svg",
                           {{"class", "stretched"},
                            {"width", "100%"},
                            {"height", pixels(kHeight)},
                            {"viewBox", fmt::format("0 0 {} {}", kUnits, kHeight)},
                            {"preserveAspectRatio", "none"}});
    for (const Mark mark : series.marks) {
      const std::string path = path_of(series, area, mark);
      const auto stroke = [&](std::string_view css) {
        page.empty("path", {{"class", fmt::format("{} {}", css, tone)}, {"d", path}});
      };
      switch (mark) {
        case Mark::line:
          stroke("line");
          break;
        case Mark::dashes:
          stroke("line dashes");
          break;
        case Mark::dots:
          stroke("dots");
          break;
        case Mark::rings:
          stroke("dots ring");
          stroke("dots hole");
          break;
        case Mark::squares:
          stroke("squares ring");
          stroke("squares hole");
          break;
      }
    }
  }
  if (series.x.size() > kHovered) return;
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (!std::isfinite(series.y[i])) continue;
    const Inside point(page, "circle",
                       {{"class", "hover"},
                        {"cx", percent(area.across(series.x[i]))},
                        {"cy", pixels(area.down(series.y[i]))},
                        {"r", "6"}});
    page.element(
        "title", {},
        fmt::format("{} at {}: {}", series.name, number_text(series.x[i], 6), number_text(series.y[i], 6)));
  }
}

/// The key: a sample of each mark beside its name.
void write_key(Markup& page, const Chart& chart) {
  const Inside key(page, "ul", {{"class", "key"}});
  for (const Series& one : chart.series) {
    const Inside entry(page, "li");
    {
      const Inside sample(page, "svg",
                          {{"aria-hidden", "true"}, {"width", "28"}, {"height", "12"}, {"class", "sample"}});
      const std::string tone(class_of(one.tone));
      for (const Mark mark : one.marks) {
        if (is_line(mark)) {
          page.empty("path",
                     {{"class", fmt::format("line {}{}", mark == Mark::dashes ? "dashes " : "", tone)},
                      {"d", "M1 6H27"}});
          continue;
        }
        const std::string shape = mark == Mark::squares ? "squares" : "dots";
        const bool hollow = mark != Mark::dots;
        page.empty("path",
                   {{"class", fmt::format("{}{} {}", shape, hollow ? " ring" : "", tone)}, {"d", "M14 6h0"}});
        if (hollow) page.empty("path", {{"class", fmt::format("{} hole", shape)}, {"d", "M14 6h0"}});
      }
    }
    page.text(one.name);
  }
}

Table table_of(const Chart& chart) {
  Table table{.caption = chart.title, .columns = {chart.x_label}};
  std::vector<double> x;
  for (const Series& one : chart.series) {
    table.columns.push_back(one.name);
    if (!one.low.empty()) table.columns.push_back(one.name + ", from and to");
    x.insert(x.end(), one.x.begin(), one.x.end());
  }
  std::sort(x.begin(), x.end());
  x.erase(std::unique(x.begin(), x.end()), x.end());
  const std::size_t step = (x.size() + kRows - 1) / kRows;
  for (std::size_t i = 0; i < x.size(); i += step) {
    std::vector<std::string> row{number_text(x[i], 7)};
    for (const Series& one : chart.series) {
      const auto at = static_cast<std::size_t>(std::find(one.x.begin(), one.x.end(), x[i]) - one.x.begin());
      const bool there = at < one.x.size() && !std::isnan(one.y[at]);
      row.push_back(there ? number_text(one.y[at], 7) : "");
      if (one.low.empty()) continue;
      row.push_back(there ? fmt::format("{} to {}", number_text(one.low[at]), number_text(one.high[at]))
                          : "");
    }
    table.rows.push_back(std::move(row));
  }
  if (step > 1) table.note = fmt::format("One in {} of {} is listed.", step, x.size());
  return table;
}

}  // namespace

std::string percent(double share) {
  return fmt::format("{:.5g}%", 100 * share);
}

void open_picture(Markup& page, std::string_view css_class, const std::string& title,
                  const std::string& description) {
  const std::string name = page.id("t");
  const std::string more = page.id("d");
  page.open("svg", {{"class", std::string(css_class)},
                    {"role", "img"},
                    {"aria-labelledby", name},
                    {"aria-describedby", more}});
  page.element("title", {{"id", name}}, title);
  page.element("desc", {{"id", more}}, description);
}

void draw(Markup& page, const Chart& chart) {
  const Area area = area_of(chart);
  const Inside figure(page, "figure");
  {
    const Inside caption(page, "figcaption");
    page.element("span", {{"class", "title"}}, chart.title);
    if (!chart.description.empty()) page.element("p", {}, chart.description);
  }
  write_key(page, chart);
  open_picture(page, "chart", chart.title, chart.description);
  draw_ticks(page, chart, area);
  draw_references(page, chart, area);
  for (const Series& one : chart.series) draw_series(page, one, area);
  page.close();
  write_folded(page, "The numbers", chart.numbers.rows.empty() ? table_of(chart) : chart.numbers);
}

}  // namespace locant::html

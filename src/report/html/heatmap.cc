// SPDX-License-Identifier: Apache-2.0
#include "report/html/heatmap.h"

#include <fmt/format.h>

#include <algorithm>

namespace locant::html {
namespace {

constexpr double kCell = 44;  // px

std::string pixels(double value) {
  return fmt::format("{:.1f}", value);
}

void draw_cell(Markup& page, const HeatCell& cell, std::size_t columns) {
  const double width = 1 / static_cast<double>(columns);
  const double left = static_cast<double>(cell.column) * width;
  const double top = kCell * static_cast<double>(cell.row);
  const double filled = (kCell - 4) * std::clamp(cell.share, 0.0, 1.0);
  const auto box = [&](const char* css, double y, double height) {
    page.empty("rect", {{"class", css},
                        {"x", percent(left + 0.02 * width)},
                        {"y", pixels(y)},
                        {"width", percent(0.96 * width)},
                        {"height", pixels(height)}});
  };
  const Inside group(page, "g");
  page.element("title", {}, cell.hover);
  box("cell frame", top + 2, kCell - 4);
  box("cell part", top + kCell - 2 - filled, filled);
  const std::string middle = percent(left + width / 2);
  page.element("text", {{"class", "middle strong"}, {"x", middle}, {"y", pixels(top + kCell / 2 - 2)}},
               cell.text);
  page.element("text", {{"class", "tick middle"}, {"x", middle}, {"y", pixels(top + kCell / 2 + 14)}},
               cell.small);
}

}  // namespace

void draw(Markup& page, const HeatMap& map) {
  if (map.rows.empty() || map.columns.empty()) return;
  const Inside figure(page, "figure");
  {
    const Inside caption(page, "figcaption");
    page.element("span", {{"class", "title"}}, map.title);
    page.element("p", {}, map.description);
  }
  const double height = kCell * static_cast<double>(map.rows.size());
  {
    const Inside box(page, "div",
                     {{"class", "scroll"}, {"role", "region"}, {"tabindex", "0"}, {"aria-label", map.title}});
    const std::string name = page.id("t");
    const std::string more = page.id("d");
    const Inside picture(page, "svg",
                         {{"class", "heat"},
                          {"role", "img"},
                          {"height", pixels(height + 80)},
                          {"style", fmt::format("min-width: {}px", 90 + 62 * map.columns.size())},
                          {"aria-labelledby", name},
                          {"aria-describedby", more}});
    page.element("title", {{"id", name}}, map.title);
    page.element("desc", {{"id", more}}, map.description);
    page.element("text", {{"class", "label"}, {"x", "-84"}, {"y", "-10"}}, map.row_label);
    for (std::size_t row = 0; row < map.rows.size(); ++row)
      page.element(
          "text",
          {{"class", "tick end"}, {"x", "-8"}, {"y", pixels(kCell * (static_cast<double>(row) + 0.5) + 4)}},
          map.rows[row]);
    for (std::size_t column = 0; column < map.columns.size(); ++column)
      page.element(
          "text",
          {{"class", "tick middle"},
           {"x", percent((static_cast<double>(column) + 0.5) / static_cast<double>(map.columns.size()))},
           {"y", pixels(height + 16)}},
          map.columns[column]);
    page.element("text", {{"class", "label middle"}, {"x", "50%"}, {"y", pixels(height + 34)}},
                 map.column_label);
    for (const HeatCell& cell : map.cells) draw_cell(page, cell, map.columns.size());
  }
  write_folded(page, "The numbers", map.numbers);
}

}  // namespace locant::html

// SPDX-License-Identifier: Apache-2.0
#include "report/html/ladder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "report/html/numbers.h"

namespace locant::html {
namespace {

constexpr double kRung = 40;  // px of a row
constexpr double kBar = 10;
constexpr double kStrip = 48;

std::string pixels(double value) {
  return fmt::format("{:.1f}", value);
}

void draw_rung(Markup& page, const Rung& rung, const Axis& axis, double top) {
  page.element("text", {{"class", rung.strong ? "rung strong" : "rung"}, {"x", "0"}, {"y", pixels(top + 16)}},
               rung.name);
  {
    const Inside value(
        page, "text",
        {{"class", rung.value ? "value end" : "value end absent"}, {"x", "100%"}, {"y", pixels(top + 16)}});
    page.text(rung.text);
    if (!rung.more.empty()) page.element("tspan", {{"class", "spare"}}, fmt::format(" ({})", rung.more));
  }
  if (!rung.value) {
    page.empty("line", {{"class", "absent"},
                        {"x1", "0"},
                        {"x2", "100%"},
                        {"y1", pixels(top + 22 + kBar / 2)},
                        {"y2", pixels(top + 22 + kBar / 2)}});
    return;
  }
  const std::string width = rung.without_end ? "100%" : percent(axis.share(*rung.value));
  page.empty("rect", {{"class", rung.strong ? "bar strong" : "bar"},
                      {"x", "0"},
                      {"y", pixels(top + 22)},
                      {"width", width},
                      {"height", pixels(kBar)},
                      {"rx", "2"}});
}

}  // namespace

void draw(Markup& page, const LadderChart& chart) {
  std::vector<double> values{1};
  Table table{.caption = chart.title, .columns = {"length", chart.unit, "in words"}};
  for (const Rung& rung : chart.rungs) {
    if (rung.value) values.push_back(*rung.value);
    table.rows.push_back({rung.name, rung.value && !rung.without_end ? number_text(*rung.value, 9) : "",
                          rung.more.empty() ? rung.text : fmt::format("{} ({})", rung.text, rung.more)});
  }
  const Axis axis(Scale::log, values);
  const Inside figure(page, "figure");
  {
    const Inside caption(page, "figcaption");
    page.element("span", {{"class", "title"}}, chart.title);
    if (!chart.description.empty()) page.element("p", {}, chart.description);
  }
  const double height = kRung * static_cast<double>(chart.rungs.size());
  {
    const std::string name = page.id("t");
    const std::string more = page.id("d");
    const Inside picture(page, "svg",
                         {{"class", "ladder"},
                          {"role", "img"},
                          {"height", pixels(height + 44)},
                          {"aria-labelledby", name},
                          {"aria-describedby", more}});
    page.element("title", {{"id", name}}, chart.title);
    page.element("desc", {{"id", more}}, chart.description);
    const std::vector<double> ticks = axis.ticks(8);
    for (std::size_t i = 0; i < ticks.size(); ++i) {
      const double value = ticks[i];
      const std::string x = percent(axis.share(value));
      page.empty("line", {{"class", "grid"}, {"x1", x}, {"x2", x}, {"y1", "0"}, {"y2", pixels(height + 4)}});
      page.element("text",
                   {{"class", ticks.size() > 5 && i % 2 == 1 ? "tick middle spare" : "tick middle"},
                    {"x", x},
                    {"y", pixels(height + 20)}},
                   tick_text(value));
    }
    page.element("text", {{"class", "label middle"}, {"x", "50%"}, {"y", pixels(height + 38)}},
                 chart.unit + ", log scale");
    double top = 0;
    for (const Rung& rung : chart.rungs) {
      draw_rung(page, rung, axis, top);
      top += kRung;
    }
  }
  write_folded(page, "The numbers", table);
}

void draw(Markup& page, const Strip& strip) {
  const Inside figure(page, "figure");
  {
    const Inside caption(page, "figcaption");
    page.element("span", {{"class", "title"}}, strip.title);
    if (!strip.description.empty()) page.element("p", {}, strip.description);
  }
  constexpr std::array<std::string_view, 3> kTones = {"main", "other", "quiet"};
  {
    const Inside key(page, "ul", {{"class", "key"}});
    for (std::size_t k = 0; k < strip.kinds.size(); ++k) {
      const StripKind& kind = strip.kinds[k];
      const Inside entry(page, "li");
      {
        const Inside sample(
            page, "svg", {{"aria-hidden", "true"}, {"width", "14"}, {"height", "14"}, {"class", "sample"}});
        page.empty("rect",
                   {{"class", kind.outlined ? "cell outlined" : fmt::format("cell {}", kTones[k % 3])},
                    {"x", "1"},
                    {"y", pixels(1 + 12 * (1 - kind.height))},
                    {"width", "12"},
                    {"height", pixels(12 * kind.height)}});
      }
      page.text(kind.name);
    }
  }
  open_picture(page, "strip", strip.title, strip.description);
  const auto count = static_cast<double>(std::max<std::int64_t>(strip.layers, 1));
  const double gap = strip.layers > 64 ? 0.06 : 0.12;
  Table table{.caption = strip.title, .columns = {"kind", "layers"}};
  for (std::size_t k = 0; k < strip.kinds.size(); ++k) {
    const StripKind& kind = strip.kinds[k];
    for (const std::int64_t layer : kind.layers) {
      const Inside cell(page, "rect",
                        {{"class", kind.outlined ? "cell outlined" : fmt::format("cell {}", kTones[k % 3])},
                         {"x", percent((static_cast<double>(layer) + gap / 2) / count)},
                         {"y", pixels(kStrip * (1 - kind.height))},
                         {"width", percent((1 - gap) / count)},
                         {"height", pixels(kStrip * kind.height)}});
      page.element("title", {}, fmt::format("layer {}: {}", layer, kind.name));
    }
    table.rows.push_back({kind.name, layers_text(kind.layers)});
  }
  const std::int64_t step = std::max<std::int64_t>(1, (strip.layers + 7) / 8);
  for (std::int64_t layer = 0; layer < strip.layers; layer += step) {
    page.element("text",
                 {{"class", "tick middle"},
                  {"x", percent((static_cast<double>(layer) + 0.5) / count)},
                  {"y", pixels(kStrip + 18)}},
                 std::to_string(layer));
  }
  page.element("text", {{"class", "label middle"}, {"x", "50%"}, {"y", pixels(kStrip + 38)}}, "layer");
  page.close();
  write_folded(page, "The layers", table);
}

}  // namespace locant::html

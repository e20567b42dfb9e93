// SPDX-License-Identifier: Apache-2.0
// Which layers see how far back, and what the cache of keys and values takes at which length.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <variant>

#include "report/html/chart.h"
#include "report/html/ladder.h"
#include "report/html/numbers.h"
#include "report/html/parts.h"

namespace locant::html {
namespace {

std::string kind_text(const AttentionSpec& attention) {
  std::string text(name_of(attention.kind));
  if (attention.kind != AttentionKind::full)
    text += fmt::format(" of {} tokens", whole_text(attention.window));
  if (attention.softcap != 0) text += fmt::format(", softcap {}", number_text(attention.softcap, 6));
  if (attention.sinks) text += ", with sinks";
  if (attention.bidirectional) text += ", both directions";
  return text + fmt::format(", scale {}", number_text(attention.scale, 6));
}

double height_of(AttentionKind kind) {
  return kind == AttentionKind::full ? 1 : kind == AttentionKind::window ? 0.55 : 0.35;
}

void draw_stack(Markup& page, const Facts& facts, Stack stack) {
  Strip strip;
  strip.title = fmt::format("What each layer of the {} sees", name_of(stack));
  strip.description = "Tall cells see everything before them, low ones a window or a chunk.";
  std::set<std::int64_t> attending;
  for (const AttentionFacts& entry : facts.attention) {
    if (entry.stack != stack) continue;
    strip.kinds.push_back({kind_text(entry.attention), height_of(entry.attention.kind), false, entry.layers});
    attending.insert(entry.layers.begin(), entry.layers.end());
  }
  const std::int64_t last = attending.empty() ? -1 : *attending.rbegin();
  strip.layers = stack == Stack::decoder ? std::max(facts.model.layers, last + 1) : last + 1;
  StripKind other{.name = "no attention", .height = 1, .outlined = true, .layers = {}};
  for (std::int64_t layer = 0; layer < strip.layers; ++layer) {
    if (attending.count(layer) == 0) other.layers.push_back(layer);
  }
  if (!other.layers.empty()) strip.kinds.push_back(std::move(other));
  draw(page, strip);
}

/// Elements of a key in a layer: a rotation knows the width of its own heads.
double head_dim_at(const Facts& facts, Stack stack, std::int64_t layer) {
  for (const PositionFacts& entry : facts.positions) {
    const auto* const rotation = entry.plan ? std::get_if<Rotation>(&*entry.plan) : nullptr;
    if (rotation != nullptr && entry.stack == stack &&
        std::binary_search(entry.layers.begin(), entry.layers.end(), layer))
      return static_cast<double>(rotation->head_dim);
  }
  return static_cast<double>(facts.model.head_dim);
}

double bytes_at(const Facts& facts, double length) {
  double bytes = 0;
  const Stack main = facts.attention.front().stack;
  for (const AttentionFacts& entry : facts.attention) {
    if (entry.stack != main) continue;
    const AttentionSpec& attention = entry.attention;
    const bool bounded = attention.kind != AttentionKind::full && attention.window > 0;
    const double kept = bounded ? std::min(length, static_cast<double>(attention.window)) : length;
    for (const std::int64_t layer : entry.layers)
      bytes += 2 * static_cast<double>(facts.model.kv_heads) * head_dim_at(facts, main, layer) *
               static_cast<double>(size_of(facts.limits.memory.dtype)) * kept;
  }
  return bytes;
}

}  // namespace

void write_attention(Markup& page, const Facts& facts) {
  if (facts.attention.empty()) return;
  page.element("h3", {}, "Attention");
  std::set<Stack> stacks;
  for (const AttentionFacts& entry : facts.attention) stacks.insert(entry.stack);
  for (const Stack stack : stacks) draw_stack(page, facts, stack);
}

void write_memory(Markup& page, const Facts& facts) {
  const MemoryFacts& memory = facts.limits.memory;
  if (!memory.kv_bytes_per_token || facts.attention.empty()) return;
  const std::int64_t longest = std::max<std::int64_t>(
      {facts.limits.lengths.configured.value_or(0), facts.limits.horizon.value_or(0), 4096});
  std::set<std::int64_t> lengths;
  for (std::int64_t length = 1024; length < longest && length > 0; length *= 2) lengths.insert(length);
  lengths.insert(longest);
  for (const auto& length :
       {facts.limits.lengths.configured, facts.limits.lengths.trained, facts.limits.horizon}) {
    if (length) lengths.insert(*length);
  }
  page.element("h3", {}, "Memory");
  Chart chart;
  chart.title = fmt::format("Keys and values of one sequence, in {}", name_of(memory.dtype));
  chart.description = "Layers that see a window or a chunk keep no more than that.";
  chart.x_label = "tokens, log scale";
  chart.y_label = "MiB, log scale";
  chart.x_scale = chart.y_scale = Scale::log;
  Series series{.name = "memory", .marks = {Mark::line, Mark::dots}};
  Table table{.caption = chart.title, .columns = {"tokens", "memory"}};
  for (const std::int64_t length : lengths) {
    const double bytes = bytes_at(facts, static_cast<double>(length));
    series.x.push_back(static_cast<double>(length));
    series.y.push_back(bytes / (1024.0 * 1024.0));
    table.rows.push_back({whole_text(length), bytes_text(bytes)});
  }
  chart.series = {std::move(series)};
  if (facts.limits.lengths.configured)
    chart.at_x.push_back({static_cast<double>(*facts.limits.lengths.configured), "configured"});
  chart.numbers = std::move(table);
  draw(page, chart);
}

}  // namespace locant::html

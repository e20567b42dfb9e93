// SPDX-License-Identifier: Apache-2.0
// B103 to B108: what is visible in recorded scores, against mask, window, chunk and documents.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "check/curves.h"
#include "check/scores.h"

namespace locant::check_room {
namespace {

namespace names = trace_names;
using names::Layer;

struct Leak {
  std::string_view rule;
  std::string text;
  std::int64_t count = 0;
  Place where;
  std::int64_t query = 0;
  std::int64_t key = 0;
  Curve curve{};
};

void add_leak(std::map<std::string_view, Leak>& leaks, std::string_view rule, std::string text,
              const Trace& trace, const Pass& pass, std::int64_t layer, std::int64_t row, std::int64_t token,
              const Key& query, const Key& key) {
  Leak& leak = leaks[rule];
  if (leak.count++ > 0) return;
  leak.rule = rule;
  leak.text = std::move(text);
  leak.query = query.position;
  leak.key = key.position;
  leak.where.file = trace.path;
  leak.where.tensor = pass.prefix + names::layer(layer, Layer::scores);
  leak.where.layer = layer;
  leak.where.step = pass.step;
  leak.where.row = row;
  leak.where.token = token;
}

void note_leak(std::map<std::string_view, Leak>& leaks, bool shown, const AttentionSpec& attention,
               const Key& query, const Key& key, const Trace& trace, const Pass& pass, std::int64_t layer,
               std::int64_t row, std::int64_t token) {
  if (!shown) {
    add_leak(leaks, "B108", "a key that ought to be visible is hidden", trace, pass, layer, row, token, query,
             key);
  } else if (!key.content) {
    add_leak(leaks, "B103", "padding is visible", trace, pass, layer, row, token, query, key);
  } else if (!attention.bidirectional && key.column > query.column) {
    add_leak(leaks, "B104", "a later token is visible", trace, pass, layer, row, token, query, key);
  } else if (key.document != query.document) {
    add_leak(leaks, "B106", "a token of another document is visible", trace, pass, layer, row, token, query,
             key);
  } else {
    add_leak(leaks, "B105",
             fmt::format("a key outside the {} of {} tokens is visible", name_of(attention.kind),
                         attention.window),
             trace, pass, layer, row, token, query, key);
  }
}

}  // namespace

void MaskRules::check(const Trace& trace, const Pass& pass, std::int64_t layer,
                      const AttentionSpec& attention, const Values& scores,
                      const std::vector<std::vector<Key>>& keys) {
  const bool padded = std::find(pass.content.begin(), pass.content.end(), false) != pass.content.end();
  if (!all_shown(scores)) masked_.insert(layer);
  for (const std::string_view rule : {"B107", "B108"}) book_.asked(rule);
  if (padded) book_.asked("B103");
  if (!attention.bidirectional && pass.tokens > 1) book_.asked("B104");
  if (attention.window > 0) book_.asked("B105");
  if (!pass.document.empty()) book_.asked("B106");
  std::map<std::string_view, Leak> leaks;
  const std::int64_t heads = scores.extent(1);
  const std::int64_t columns = scores.extent(3);
  const std::int64_t cached = pass.width - pass.tokens;
  std::int64_t shown = 0;
  for (std::int64_t row = 0; row < pass.rows; ++row) {
    const std::vector<Key>& list = keys[static_cast<std::size_t>(row)];
    Curve counts{.name = fmt::format("Keys that each token of row {} sees in layer {}", row, layer),
                 .x_label = "token",
                 .y_label = "keys"};
    for (std::int64_t token = 0; token < pass.tokens; ++token) {
      if (!pass.content[pass.at(row, token)]) continue;
      const Key query = query_of(pass, list, row, token, cached);
      std::int64_t seen = 0;
      std::int64_t ought = 0;
      for (std::int64_t column = 0; column < columns; ++column) {
        const Key& key = list[static_cast<std::size_t>(column)];
        // one head stands for all: masks do not depend on it
        const float score =
            scores.data[static_cast<std::size_t>(((row * heads) * pass.tokens + token) * columns + column)];
        const bool is = score > kHidden;
        seen += is ? 1 : 0;
        const bool due = visible(attention, query, key);
        ought += due ? 1 : 0;
        if (is == due) continue;
        if (is) ++shown;
        note_leak(leaks, is, attention, query, key, trace, pass, layer, row, token);
      }
      if (seen == 0)
        add_leak(leaks, "B107", "a token sees nothing at all", trace, pass, layer, row, token, query, query);
      add_point(counts, static_cast<double>(token), static_cast<double>(ought), static_cast<double>(seen));
    }
    for (auto& [rule, leak] : leaks) {
      if (leak.where.row == row) leak.curve = counts;
    }
  }
  // Scores recorded before the mask is added show everything: nothing is said about visibility then.
  if (shown > 0 && all_shown(scores) && !masked_.contains(layer)) return;
  for (auto& [rule, leak] : leaks) {
    if (!said_.insert(fmt::format("{}{}", rule, leak.text)).second) continue;
    Finding finding;
    finding.severity = find_rule(rule).severity;
    finding.where = leak.where;
    finding.message = fmt::format(
        "scores of layer {}: {}; first row {}, token {} and the key of position {}, {} in "
        "all",
        layer, leak.text, *leak.where.row, *leak.where.token, leak.key, leak.count);
    finding.hypotheses = {{leak.text, {{"pairs", static_cast<double>(leak.count)}}, 0, 0}};
    finding.curves = {leak.curve};
    book_.add(rule, Depth::scores, std::move(finding), leak.text);
  }
}

}  // namespace locant::check_room

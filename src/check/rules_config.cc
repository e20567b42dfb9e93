// SPDX-License-Identifier: Apache-2.0
// C: what the readers of a config and the facts under a recipe noted, as findings.
#include <algorithm>

#include "check/book.h"

namespace locant::check_room {

void check_config(const Evidence& evidence, Book& book) {
  if (!evidence.facts) return;
  for (const Rule& rule : config_rules()) book.asked(rule.id);
  for (const Note& note : evidence.facts->notes) {
    const auto known = [&](const Rule& rule) { return rule.id == note.rule; };
    if (std::none_of(config_rules().begin(), config_rules().end(), known)) continue;
    const Severity usual = find_rule(note.rule).severity;
    // what weighs less than its rule is a remark of inspect, not a fault
    if (note.severity.value_or(usual) < usual) continue;
    Finding finding;
    finding.severity = usual;
    finding.message = note.text;
    finding.where.file = evidence.spec->path;
    finding.where.key = note.key;
    book.add(note.rule, Depth::config, std::move(finding));
  }
}

}  // namespace locant::check_room

// SPDX-License-Identifier: Apache-2.0
// `locant list`: what Locant knows, by name.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ostream>

#include "cli/answer.h"
#include "cli/commands.h"
#include "locant/check.h"
#include "locant/model.h"
#include "locant/positions.h"
#include "locant/recipe.h"
#include "locant/spec.h"

namespace locant::cli {
namespace {

struct Entry {
  std::string name;
  std::string text;
  OrderedJson json;
};
struct Section {
  std::string_view name;
  std::vector<Entry> entries;
};

Section mechanism_section() {
  Section section{"mechanisms", {}};
  for (const Mechanism& mechanism : mechanisms()) {
    std::vector<std::string> aliases(mechanism.aliases.begin(), mechanism.aliases.end());
    OrderedJson json = {{"name", mechanism.name},
                        {"aliases", aliases},
                        {"site", name_of(mechanism.site)},
                        {"summary", mechanism.summary}};
    section.entries.push_back({std::string(mechanism.name),
                               fmt::format("{:<12} {}", name_of(mechanism.site), mechanism.summary),
                               std::move(json)});
  }
  return section;
}

Section family_section() {
  Section section{"families", {}};
  const std::vector<std::string_view> runnable = runnable_families();
  for (const std::string_view family : families()) {
    const bool runs = std::find(runnable.begin(), runnable.end(), family) != runnable.end();
    OrderedJson json = {{"name", family}, {"runs", runs}};
    section.entries.push_back({std::string(family), runs ? "runs" : "", std::move(json)});
  }
  return section;
}

Section recipe_section() {
  Section section{"recipes", {}};
  for (const Recipe& recipe : recipes()) {
    OrderedJson json = {
        {"name", recipe.name}, {"summary", recipe.summary}, {"deviations", recipe.deviations.size()}};
    section.entries.push_back({std::string(recipe.name), std::string(recipe.summary), std::move(json)});
  }
  return section;
}

Section rule_section() {
  Section section{"rules", {}};
  for (const Rule& rule : rules()) {
    OrderedJson json = {{"id", rule.id},
                        {"name", rule.name},
                        {"severity", name_of(rule.severity)},
                        {"needs", rule.needs},
                        {"summary", rule.summary}};
    section.entries.push_back({fmt::format("{} {}", rule.id, rule.name),
                               fmt::format("{:<7}  {}", name_of(rule.severity), rule.summary),
                               std::move(json)});
  }
  return section;
}

void write_text(const Section& section, Answer& answer) {
  std::ostream& out = answer.stream();
  out << answer.style().bold << section.name << answer.style().off << '\n';
  std::size_t width = 0;
  for (const Entry& entry : section.entries) width = std::max(width, entry.name.size());
  for (const Entry& entry : section.entries) {
    out << (entry.text.empty() ? fmt::format("  {}\n", entry.name)
                               : fmt::format("  {:<{}}  {}\n", entry.name, width, entry.text));
  }
}

}  // namespace

int list_command(Args args, Host& host) {
  CommonFlags common;
  std::string what;
  Arguments arguments("list", "Lists the mechanisms, families, recipes and rules that Locant knows.",
                      {"locant list", "locant list mechanisms --json"});
  arguments.positional("WHAT", what, "mechanisms, families, recipes or rules (all)");
  arguments.add_common(common);
  arguments.parse(args);
  if (!what.empty()) require_one_of("list: WHAT", what, {"mechanisms", "families", "recipes", "rules"});

  Answer answer(host, common);
  OrderedJson json = json_envelope("list");
  bool first = true;
  for (const Section& section : {mechanism_section(), family_section(), recipe_section(), rule_section()}) {
    if (!what.empty() && section.name != what) continue;
    json[std::string(section.name)] = OrderedJson::array();
    for (const Entry& entry : section.entries) json[std::string(section.name)].push_back(entry.json);
    if (common.json) continue;
    if (!first) answer.stream() << '\n';
    first = false;
    write_text(section, answer);
  }
  if (common.json) answer.write_json(json);
  answer.finish();
  return 0;
}

}  // namespace locant::cli

// SPDX-License-Identifier: Apache-2.0
// `locant explain`: the page of a mechanism, a recipe or a rule, from the descriptions that the library uses.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ostream>

#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/suggest.h"
#include "locant/check.h"
#include "locant/positions.h"
#include "locant/recipe.h"
#include "locant/spec.h"

namespace locant::cli {
namespace {

std::string indented(std::string_view text) {
  std::string out = "  ";
  for (const char c : text) {
    out += c;
    if (c == '\n') out += "  ";
  }
  return out;
}

void heading(std::string_view text, Answer& answer) {
  answer.stream() << '\n' << answer.style().bold << text << answer.style().off << '\n';
}

void write_mechanism(const Mechanism& mechanism, Answer& answer) {
  std::ostream& out = answer.stream();
  out << fmt::format("{}{}{}: {}\n", answer.style().bold, mechanism.name, answer.style().off,
                     mechanism.summary);
  out << fmt::format("site: {}\n", name_of(mechanism.site));
  if (!mechanism.aliases.empty()) out << fmt::format("also called: {}\n", fmt::join(mechanism.aliases, ", "));
  heading("formula", answer);
  out << indented(mechanism.formula) << '\n';
  if (!mechanism.parameters.empty()) heading("parameters", answer);
  for (const ParameterDescription& parameter : mechanism.parameters) {
    out << fmt::format(
        "  {} [{}], {}\n      {}\n", parameter.name, parameter.unit,
        parameter.default_text.empty() ? "required" : fmt::format("default {}", parameter.default_text),
        parameter.meaning);
    if (!parameter.config_keys.empty()) out << fmt::format("      config keys: {}\n", parameter.config_keys);
  }
  heading("source", answer);
  out << indented(mechanism.paper) << '\n';
}

OrderedJson mechanism_json(const Mechanism& mechanism) {
  OrderedJson parameters = OrderedJson::array();
  for (const ParameterDescription& parameter : mechanism.parameters) {
    parameters.push_back(
        {{"name", parameter.name},
         {"unit", parameter.unit},
         {"default", parameter.default_text.empty() ? OrderedJson() : OrderedJson(parameter.default_text)},
         {"config_keys", parameter.config_keys},
         {"meaning", parameter.meaning}});
  }
  return {{"name", mechanism.name},
          {"aliases", std::vector<std::string>(mechanism.aliases.begin(), mechanism.aliases.end())},
          {"site", name_of(mechanism.site)},
          {"summary", mechanism.summary},
          {"formula", mechanism.formula},
          {"parameters", std::move(parameters)},
          {"paper", mechanism.paper}};
}

std::string_view name_of_angle(AngleNumerics angle) {
  switch (angle) {
    case AngleNumerics::f64:
      return "f64";
    case AngleNumerics::f32_product:
      return "f32_product";
    case AngleNumerics::f32_running:
      return "f32_running";
  }
  return "";
}

void write_recipe(const Recipe& recipe, Answer& answer) {
  std::ostream& out = answer.stream();
  out << fmt::format("{}{}{}: {}\n", answer.style().bold, recipe.name, answer.style().off, recipe.summary);
  heading("numerics", answer);
  const Numerics& numerics = recipe.numerics;
  out << fmt::format("  frequencies in {}, angles in {}, tables in {}\n", name_of(numerics.frequency),
                     name_of_angle(numerics.angle), name_of(numerics.table));
  heading("differences from exact", answer);
  if (recipe.deviations.empty()) out << "  none\n";
  for (const Deviation& deviation : recipe.deviations) {
    out << fmt::format("  {}: {}\n      {} ({})\n", name_of(deviation.touches), deviation.what,
                       deviation.evidence,
                       deviation.tested_live ? "tested against it" : "read in its source");
  }
}

OrderedJson recipe_json(const Recipe& recipe) {
  OrderedJson deviations = OrderedJson::array();
  for (const Deviation& deviation : recipe.deviations) {
    deviations.push_back({{"touches", name_of(deviation.touches)},
                          {"what", deviation.what},
                          {"evidence", deviation.evidence},
                          {"tested_live", deviation.tested_live}});
  }
  return {{"name", recipe.name},
          {"summary", recipe.summary},
          {"numerics",
           {{"frequency", name_of(recipe.numerics.frequency)},
            {"angle", name_of_angle(recipe.numerics.angle)},
            {"table", name_of(recipe.numerics.table)}}},
          {"deviations", std::move(deviations)}};
}

void write_rule(const Rule& rule, Answer& answer) {
  std::ostream& out = answer.stream();
  out << fmt::format("{}{} {}{} ({}): {}\n", answer.style().bold, rule.id, rule.name, answer.style().off,
                     name_of(rule.severity), rule.summary);
  out << fmt::format("needs: {}\n", rule.needs);
  heading("example", answer);
  out << indented(rule.example) << '\n';
  heading("what it cannot tell", answer);
  out << indented(rule.cannot_tell) << '\n';
  heading("fix", answer);
  out << indented(rule.fix) << '\n';
}

OrderedJson rule_json(const Rule& rule) {
  return {{"id", rule.id},
          {"name", rule.name},
          {"severity", name_of(rule.severity)},
          {"summary", rule.summary},
          {"needs", rule.needs},
          {"example", rule.example},
          {"cannot_tell", rule.cannot_tell},
          {"fix", rule.fix}};
}

const Mechanism* mechanism_named(const std::string& name) {
  for (const Mechanism& mechanism : mechanisms()) {
    const auto& aliases = mechanism.aliases;
    if (mechanism.name == name || std::find(aliases.begin(), aliases.end(), name) != aliases.end())
      return &mechanism;
  }
  return nullptr;
}

const Recipe* recipe_named(const std::string& name) {
  const auto all = recipes();
  const auto it =
      std::find_if(all.begin(), all.end(), [&](const Recipe& recipe) { return recipe.name == name; });
  return it == all.end() ? nullptr : &*it;
}

/// By id or name.
const Rule* rule_named(const std::string& name) {
  const auto all = rules();
  const auto it = std::find_if(all.begin(), all.end(),
                               [&](const Rule& rule) { return rule.id == name || rule.name == name; });
  return it == all.end() ? nullptr : &*it;
}

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const Mechanism& mechanism : mechanisms()) {
    names.emplace_back(mechanism.name);
    names.insert(names.end(), mechanism.aliases.begin(), mechanism.aliases.end());
  }
  for (const Recipe& recipe : recipes()) names.emplace_back(recipe.name);
  for (const Rule& rule : rules()) {
    names.emplace_back(rule.id);
    names.emplace_back(rule.name);
  }
  return names;
}

}  // namespace

int explain_command(Args args, Host& host) {
  CommonFlags common;
  std::string name;
  Arguments arguments("explain", "Prints the page of a mechanism, a recipe or a rule.",
                      {"locant explain rope", "locant explain C107 --json"});
  arguments.positional("NAME", name, "name, alias or rule id, as `locant list` prints them");
  arguments.add_common(common);
  arguments.parse(args);
  if (name.empty()) throw UsageError("explain: give a name, as `locant list` prints them");
  const Mechanism* mechanism = mechanism_named(name);
  const Recipe* recipe = recipe_named(name);
  const Rule* rule = rule_named(name);
  if (mechanism == nullptr && recipe == nullptr && rule == nullptr) {
    throw UsageError(fmt::format("explain: there is no mechanism, recipe or rule {}{}", in_quotes(name),
                                 did_you_mean(name, known_names())));
  }
  Answer answer(host, common);
  if (common.json) {
    OrderedJson json = json_envelope("explain");
    if (mechanism != nullptr) json["mechanism"] = mechanism_json(*mechanism);
    if (recipe != nullptr) json["recipe"] = recipe_json(*recipe);
    if (rule != nullptr) json["rule"] = rule_json(*rule);
    answer.write_json(json);
  } else {
    if (mechanism != nullptr) write_mechanism(*mechanism, answer);
    if (mechanism != nullptr && recipe != nullptr) answer.stream() << '\n';
    if (recipe != nullptr) write_recipe(*recipe, answer);
    if (rule != nullptr) write_rule(*rule, answer);
  }
  answer.finish();
  return 0;
}

}  // namespace locant::cli

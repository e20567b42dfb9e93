// SPDX-License-Identifier: Apache-2.0
// A model's spec under another schedule, or with tables of the rows that its weights hold.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "locant/trust.h"

namespace locant {
namespace {

constexpr std::array<std::string_view, 6> kMethods = {"none", "linear", "ntk", "dynamic", "yarn", "llama3"};

/// What every rotation states, whatever its schedule.
bool of_every_rotation(const std::string& name) {
  const auto& parameters = find_mechanism("rope").parameters;
  return std::any_of(parameters.begin(), parameters.end(),
                     [&](const ParameterDescription& known) { return known.name == name; });
}

PositionSpec scheduled(const PositionSpec& from, const Extension& extension, std::int64_t trained) {
  PositionSpec to{.mechanism = "rope", .parameters = {}};
  for (const Parameter& parameter : from.parameters) {
    // sections and the like are the model's own, a schedule's numbers are not
    if (of_every_rotation(parameter.name) && parameter.name != "partial_read")
      to.parameters.push_back(parameter);
  }
  const std::string key = "--extend";
  if (extension.method == "none") return to;
  if (extension.method == "linear") {
    to.mechanism = "linear";
    to.set("factor", extension.factor, key);
  } else if (extension.method == "ntk") {
    to.mechanism = "ntk";
    to.set("alpha", extension.factor, key);
  } else if (extension.method == "dynamic") {
    to.mechanism = "dynamic_ntk";
    to.set("factor", extension.factor, key);
    to.set("max_positions", trained, key);
  } else if (extension.method == "yarn") {
    to.mechanism = "yarn";
    to.set("factor", extension.factor, key);
    to.set("original_length", trained, key);
    if (extension.beta_fast) to.set("beta_fast", *extension.beta_fast, "--beta-fast");
  } else {
    to.mechanism = "llama3";
    to.set("factor", extension.factor, key);
    to.set("original_length", trained, key);
  }
  return to;
}

void require_method(const Extension& extension) {
  if (std::find(kMethods.begin(), kMethods.end(), extension.method) == kMethods.end())
    throw SpecError(fmt::format("trust: an extension is one of {}, got \"{}\"", fmt::join(kMethods, ", "),
                                extension.method));
  if (extension.method == "none") return;
  if (!(extension.factor >= 1 && extension.factor <= 1e6))
    throw SpecError(
        fmt::format("trust: the factor of {} is from 1 to 1e6, got {}", extension.method, extension.factor));
  if (extension.beta_fast && extension.method != "yarn")
    throw SpecError(fmt::format("trust: only yarn has a beta_fast, {} was given one", extension.method));
}

}  // namespace

ModelSpec extended_spec(const ModelSpec& spec, const Extension& extension, std::int64_t trained) {
  require_method(extension);
  ModelSpec extended = spec;
  bool any = false;
  for (std::vector<PositionSpec>& layer : extended.positions.layers) {
    for (PositionSpec& position : layer) {
      const Mechanism& mechanism = find_mechanism(position.mechanism);
      if (mechanism.site != Site::rotation) continue;
      const bool plain = mechanism.name == "rope";
      if (!plain && extension.method != "none")
        throw SpecError(fmt::format("trust: a schedule is put on a plain rope, {} has {} already",
                                    spec.family, mechanism.name));
      if (plain && extension.method == "none")
        throw SpecError(fmt::format("trust: {} has a plain rope already, there is no schedule to take away",
                                    spec.family));
      position = scheduled(position, extension, trained);
      any = true;
    }
  }
  if (!any) throw SpecError(fmt::format("trust: an extension changes a rotation, {} has none", spec.family));
  return extended;
}

DrivingRules driving_rules(const ModelSpec& spec, const std::string& recipe) {
  DrivingRules rules;
  for (const PositionFacts& entry : facts_of(spec, {.recipe = recipe}).positions)
    rules.follows_length = rules.follows_length || entry.length_rule != LengthRule::none;
  for (const PositionSpec& position : spec.positions.embedding)
    rules.absolute = rules.absolute || position.mechanism != "token_types";
  return rules;
}

ModelSpec with_stored_rows(const ModelSpec& spec, const StaticTrust& facts) {
  ModelSpec stored = spec;
  for (PositionSpec& position : stored.positions.embedding) {
    const Parameter* const rows = position.find("rows");
    if (position.mechanism != "learned" || rows == nullptr) continue;
    const std::optional<double> declared = position.number("rows");
    for (const TableTrust& table : facts.tables) {
      if (declared && static_cast<double>(table.declared) == *declared && table.rows != table.declared)
        position.set("rows", table.rows, table.tensor);
    }
  }
  return stored;
}

}  // namespace locant

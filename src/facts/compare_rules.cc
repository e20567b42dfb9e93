// SPDX-License-Identifier: Apache-2.0
// All differences by rule, the lengths between which they hold, and the rows of recipes that they rest on: a
// row without which the difference would not be, or would be another one.
#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "facts/compare_parts.h"

namespace locant {
namespace {

std::vector<RuleDifference> all_rules(const SideReading& a, const SideReading& b, const Extents& extents) {
  std::vector<RuleDifference> found;
  spec_rules(a, b, found);
  position_rules(a, b, extents, found);
  id_rules(a, b, found);
  return found;
}

/// Whether the field of a rule differs after that many tokens.
bool holds_after(const SideReading& a, const SideReading& b, const Extents& extents,
                 const RuleDifference& rule, std::int64_t seen) {
  const auto one_layer = [&](const SideReading& reading) {
    const StackPositions& positions = stacks_of(*reading.spec).at(rule.stack).positions;
    StackPositions one{.stack = positions.stack, .embedding = positions.embedding, .layers = {}};
    if (!rule.said.layers.empty())
      one.layers = {positions.layers.at(static_cast<std::size_t>(rule.said.layers.front()))};
    return plan(one, reading.by_rule(), extents.at(seen));
  };
  std::vector<PlanDifference> found;
  try {
    found = differences(one_layer(a), one_layer(b));
  } catch (const SpecError&) {
    return true;  // another mechanism of the layer is refused
  }
  return std::any_of(found.begin(), found.end(), [&](const PlanDifference& one) {
    return field_of(one.what) == rule.said.what && name_of(one.site) == rule.said.site;
  });
}

/// The first length past `without` at which it is as after `with` tokens; the order may be either.
template <class Holds>
std::int64_t turn(std::int64_t without, std::int64_t with, const Holds& holds) {
  while (std::max(without, with) - std::min(without, with) > 1) {
    const std::int64_t middle = without + (with - without) / 2;
    (holds(middle) ? with : without) = middle;
  }
  return with;
}

void read_seen(const SideReading& a, const SideReading& b, const Extents& extents, RuleDifference& rule) {
  if (!rule.of_positions) return;
  const auto holds = [&](std::int64_t seen) { return holds_after(a, b, extents, rule, seen); };
  std::vector<bool> at;
  for (const std::int64_t seen : extents.seen) at.push_back(holds(seen));
  const auto first = std::find(at.begin(), at.end(), true);
  if (first == at.end() || std::find(at.begin(), at.end(), false) == at.end()) return;
  const auto i = static_cast<std::size_t>(first - at.begin());
  rule.said.seen_from = i == 0 ? extents.seen[0] : turn(extents.seen[i - 1], extents.seen[i], holds);
  std::size_t last = at.size() - 1;
  while (!at[last]) --last;
  if (last + 1 < at.size()) rule.said.seen_to = turn(extents.seen[last + 1], extents.seen[last], holds);
  rule.said.inside = *rule.said.seen_from <= extents.distance;
}

/// A reading whose recipe lacks one row.
class Lacking {
 public:
  Lacking(const SideReading& reading, std::size_t row) : reading_(reading) {
    for (std::size_t i = 0; i < reading.recipe.deviations.size(); ++i) {
      if (i != row) rows_.push_back(reading.recipe.deviations[i]);
    }
    reading_.recipe.deviations = rows_;
  }
  [[nodiscard]] const SideReading& reading() const noexcept { return reading_; }

 private:
  SideReading reading_;
  std::vector<Deviation> rows_;
};

DifferenceEvidence evidence_of(const SideReading& reading, const Deviation& row) {
  return {.recipe = std::string(reading.recipe.name),
          .what = std::string(row.what),
          .evidence = std::string(row.evidence),
          .tested_live = row.tested_live};
}

/// Whose tables a row about numbers speaks of.
std::optional<Site> numbers_of(const Deviation& row) {
  const bool dtypes = row.quirk == Quirk::table_in_run_dtype || row.quirk == Quirk::bias_in_run_dtype;
  if (row.touches != Touches::positions || (row.quirk != Quirk::none && !dtypes)) return std::nullopt;
  if (row.what.find("sinusoid") != std::string_view::npos) return Site::embedding;
  return row.what.find("alibi") != std::string_view::npos ? Site::bias : Site::rotation;
}

std::set<std::string> keys_of(const SideReading& a, const SideReading& b, const Extents& extents) {
  std::set<std::string> keys;
  for (const RuleDifference& rule : all_rules(a, b, extents)) keys.insert(rule.key());
  return keys;
}

}  // namespace

std::string RuleDifference::key() const {
  return fmt::format("{}|{}|{}|{}|{}", said.site, said.what, stack, layers_text(said), sentence);
}

std::vector<RuleDifference> rules_that_differ(const SideReading& a, const SideReading& b,
                                              const Extents& extents) {
  std::vector<RuleDifference> found = all_rules(a, b, extents);
  for (RuleDifference& rule : found) read_seen(a, b, extents, rule);
  return found;
}

void add_evidence(const SideReading& a, const SideReading& b, const Extents& extents,
                  std::vector<RuleDifference>& rules) {
  if (rules.empty() || a.recipe.name == b.recipe.name) return;
  for (const bool of_a : {true, false}) {
    const SideReading& reading = of_a ? a : b;
    for (std::size_t row = 0; row < reading.recipe.deviations.size(); ++row) {
      if (reading.recipe.deviations[row].quirk == Quirk::none) continue;
      const Lacking lacking(reading, row);
      std::set<std::string> left;
      try {
        left = of_a ? keys_of(lacking.reading(), b, extents) : keys_of(a, lacking.reading(), extents);
      } catch (const SpecError&) {
        continue;  // without this row neither has a plan
      }
      for (RuleDifference& rule : rules) {
        if (left.count(rule.key()) == 0)
          rule.said.evidence.push_back(evidence_of(reading, reading.recipe.deviations[row]));
      }
    }
  }
}

std::vector<DifferenceEvidence> numeric_rows(const SideReading& reading, Site site) {
  std::vector<DifferenceEvidence> rows;
  for (const Deviation& row : reading.recipe.deviations) {
    if (numbers_of(row) == site) rows.push_back(evidence_of(reading, row));
  }
  return rows;
}

}  // namespace locant

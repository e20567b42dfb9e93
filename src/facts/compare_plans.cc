// SPDX-License-Identifier: Apache-2.0
// What plans differ in by rule, at every length that a schedule may turn at, and while how many tokens are
// seen.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "facts/compare_parts.h"

namespace locant {
namespace {

/// Mechanisms that a recipe has no plan for, and its sentence.
using Refusals = std::map<std::string, std::string>;

Refusals refusals_of(const StackPositions& positions, const Recipe& recipe, const Extent& extent) {
  Refusals refused;
  const auto ask = [&](const PositionSpec& spec) {
    try {
      (void)find_mechanism(spec.mechanism).plan(spec, recipe, extent);
    } catch (const SpecError& error) {
      refused.emplace(spec.mechanism, error.what());
    }
  };
  for (const PositionSpec& spec : positions.embedding) ask(spec);
  std::set<const void*> asked;
  for (const auto& layer : positions.layers) {
    for (const PositionSpec& spec : layer) ask(spec);
  }
  return refused;
}

StackPositions without(const StackPositions& positions, const Refusals& a, const Refusals& b) {
  StackPositions kept = positions;
  const auto drop = [&](std::vector<PositionSpec>& specs) {
    std::erase_if(specs, [&](const PositionSpec& spec) {
      return a.count(spec.mechanism) > 0 || b.count(spec.mechanism) > 0;
    });
  };
  drop(kept.embedding);
  for (auto& layer : kept.layers) drop(layer);
  return kept;
}

std::vector<std::int64_t> layers_with(const StackPositions& positions, const std::string& mechanism) {
  std::vector<std::int64_t> layers;
  for (std::size_t layer = 0; layer < positions.layers.size(); ++layer) {
    const auto& specs = positions.layers[layer];
    if (std::any_of(specs.begin(), specs.end(),
                    [&](const PositionSpec& spec) { return spec.mechanism == mechanism; }))
      layers.push_back(static_cast<std::int64_t>(layer));
  }
  return layers;
}

struct TwoStacks {
  std::size_t index = 0;
  StackPositions a;
  StackPositions b;
};

void refused_rules(const SideReading& refuser, const SideReading& other, const TwoStacks& stacks,
                   const Refusals& refused, const Refusals& also, std::vector<RuleDifference>& found) {
  for (const auto& [mechanism, sentence] : refused) {
    if (also.count(mechanism) > 0) {
      throw SpecError(fmt::format("compare: neither {} nor {} has a plan for this model, {}", refuser.name,
                                  other.name, sentence));
    }
    RuleDifference rule;
    rule.stack = stacks.index;
    rule.sentence = sentence;
    rule.said.what = "refused";
    rule.said.site = std::string(name_of(find_mechanism(mechanism).site));
    rule.said.stack = stacks.a.stack;
    rule.said.layers = layers_with(stacks.a, mechanism);
    rule.said.message =
        fmt::format("{} has no plan for {} that {} has: {}", refuser.name, mechanism, other.name, sentence);
    found.push_back(std::move(rule));
  }
}

std::vector<PlanDifference> plan_differences(const SideReading& a, const SideReading& b,
                                             const TwoStacks& stacks, const Extent& extent) {
  return differences(plan(stacks.a, a.by_rule(), extent), plan(stacks.b, b.by_rule(), extent));
}

std::vector<PlanDifference> at_extent(const SideReading& a, const SideReading& b, const TwoStacks& stacks,
                                      const Extent& extent) {
  std::vector<PlanDifference> found = plan_differences(a, b, stacks, extent);
  // The sizes of the models say so, and a file's order of channels is no meaning: file_order_notes().
  const bool two_formats = a.spec->format != b.spec->format;
  std::erase_if(found, [&](const PlanDifference& one) {
    const std::string field = field_of(one.what);
    return field == "the number of layers" ||
           (two_formats && (field == "pairing" || field == "write_pairing"));
  });
  // Another number of pairs follows from another width.
  std::erase_if(found, [&](const PlanDifference& one) {
    return field_of(one.what) == "inv_freq" && one.index < 0 &&
           std::any_of(found.begin(), found.end(), [&](const PlanDifference& width) {
             return field_of(width.what) == "rotary_dim" && width.layers == one.layers;
           });
  });
  return found;
}

RuleDifference rule_of(const PlanDifference& one, const TwoStacks& stacks, std::int64_t seen) {
  RuleDifference rule;
  rule.stack = stacks.index;
  rule.seen = seen;
  rule.index = one.index;
  rule.of_positions = true;
  rule.sentence = one.what.substr(0, one.what.find("; angles part"));
  rule.said.what = field_of(one.what);
  rule.said.site = std::string(name_of(one.site));
  rule.said.stack = stacks.a.stack;
  rule.said.layers = one.layers;
  return rule;
}

/// The tokens that stand for the compared length come first, then shorter texts, then longer ones.
std::vector<std::int64_t> by_weight(const Extents& extents) {
  std::vector<std::int64_t> order = extents.seen;
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t x, std::int64_t y) {
    const auto rank = [&](std::int64_t seen) {
      if (seen == extents.distance) return std::pair<std::int64_t, std::int64_t>(0, 0);
      return seen < extents.distance ? std::pair<std::int64_t, std::int64_t>(1, -seen)
                                     : std::pair<std::int64_t, std::int64_t>(2, seen);
    };
    return rank(x) < rank(y);
  });
  return order;
}

void stack_rules(const SideReading& a, const SideReading& b, const Extents& extents, TwoStacks stacks,
                 std::vector<RuleDifference>& found) {
  const Extent extent = extents.at(extents.distance);
  const Refusals of_a = refusals_of(stacks.a, a.by_rule(), extent);
  const Refusals of_b = refusals_of(stacks.b, b.by_rule(), extent);
  refused_rules(a, b, stacks, of_a, of_b, found);
  refused_rules(b, a, stacks, of_b, {}, found);
  stacks.a = without(stacks.a, of_a, of_b);
  stacks.b = without(stacks.b, of_a, of_b);
  std::set<std::string> said;
  for (const std::int64_t seen : by_weight(extents)) {
    for (const PlanDifference& one : at_extent(a, b, stacks, extents.at(seen))) {
      RuleDifference rule = rule_of(one, stacks, seen);
      const std::string place =
          fmt::format("{}|{}|{}", rule.said.site, rule.said.what, layers_text(rule.said));
      if (said.insert(place).second) found.push_back(std::move(rule));
    }
  }
}

}  // namespace

std::string field_of(std::string_view what) {
  if (what.find("pairs follow another axis") != std::string_view::npos) return "axis";
  if (what.ends_with("only in the second") || what.ends_with(" is missing")) return "site";
  std::size_t end = what.size();
  for (const std::string_view verb : {" is ", " differs at ", " has "}) end = std::min(end, what.find(verb));
  return std::string(what.substr(0, end));
}

Extents extents_of(const SideReading& a, const SideReading& b, std::int64_t distance, std::int64_t capacity) {
  std::set<std::int64_t> seen{1, distance};
  for (const SideReading* const reading : {&a, &b}) {
    for (const StackView& stack : stacks_of(*reading->spec)) {
      for (const auto& layer : stack.positions.layers) {
        for (const PositionSpec& spec : layer) {
          for (const char* const name : {"original_length", "max_positions"}) {
            const std::optional<double> length = spec.number(name);
            if (!length || !(*length >= 1) || !(*length < 0x1p31)) continue;
            seen.insert(static_cast<std::int64_t>(*length));
            seen.insert(static_cast<std::int64_t>(*length) + 1);
          }
        }
      }
    }
  }
  seen.insert(2 * *seen.rbegin());
  return {.seen = {seen.begin(), seen.end()}, .distance = distance, .capacity = capacity};
}

void position_rules(const SideReading& a, const SideReading& b, const Extents& extents,
                    std::vector<RuleDifference>& found) {
  const std::vector<StackView> of_a = stacks_of(*a.spec);
  const std::vector<StackView> of_b = stacks_of(*b.spec);
  for (std::size_t i = 0; i < std::min(of_a.size(), of_b.size()); ++i)
    stack_rules(a, b, extents, {i, of_a[i].positions, of_b[i].positions}, found);
  if (of_a.size() == of_b.size()) return;
  RuleDifference rule;
  rule.said.what = "stacks";
  rule.said.site = "model";
  rule.said.a = static_cast<double>(of_a.size());
  rule.said.b = static_cast<double>(of_b.size());
  rule.sentence = rule.said.message =
      fmt::format("{} has {} stacks of layers, {} has {}", b.name, of_b.size(), a.name, of_a.size());
  found.push_back(std::move(rule));
}

std::vector<std::string> file_order_notes(const SideReading& a, const SideReading& b,
                                          const Extents& extents) {
  if (a.spec->format == b.spec->format) return {};
  const std::vector<StackView> of_a = stacks_of(*a.spec);
  const std::vector<StackView> of_b = stacks_of(*b.spec);
  const Extent extent = extents.at(extents.distance);
  for (std::size_t i = 0; i < std::min(of_a.size(), of_b.size()); ++i) {
    std::vector<PlanDifference> found;
    try {
      found = plan_differences(a, b, {i, of_a[i].positions, of_b[i].positions}, extent);
    } catch (const SpecError&) {
      continue;  // said among the differences
    }
    for (const PlanDifference& one : found) {
      if (field_of(one.what) != "pairing") continue;
      return {
          fmt::format("{} under {}, where the format of the file has the rows of q and k in that order too: "
                      "not counted, the logits tell whether they are",
                      one.what, b.name)};
    }
  }
  return {};
}

LayerPositions layer_plan(const SideReading& reading, std::size_t stack, std::int64_t layer,
                          const Extent& extent) {
  const StackPositions& positions = stacks_of(*reading.spec).at(stack).positions;
  const StackPositions one{.stack = positions.stack,
                           .embedding = {},
                           .layers = {positions.layers.at(static_cast<std::size_t>(layer))}};
  return plan(one, reading.recipe, extent).kinds.at(0);
}

std::vector<PositionEmbedding> embedding_plan(const SideReading& reading, std::size_t stack,
                                              const Extent& extent) {
  const StackPositions& positions = stacks_of(*reading.spec).at(stack).positions;
  const StackPositions one{.stack = positions.stack, .embedding = positions.embedding, .layers = {}};
  return plan(one, reading.recipe, extent).embedding;
}

}  // namespace locant

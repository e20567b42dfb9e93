// SPDX-License-Identifier: Apache-2.0
// What the runtime of a recipe refuses (C109) or reads otherwise than the published formula (C110). Rounding
// does not count: the rules of the recipe are compared in the numbers of `exact`.
#include <fmt/format.h>

#include <algorithm>

#include "facts/parts.h"
#include "spec/config_rules.h"

namespace locant {
namespace {

void note_refusals(const Recipe& recipe, Facts& facts) {
  for (const PositionFacts& entry : facts.positions) {
    if (entry.refused.empty()) continue;
    const std::string sentence = fmt::format("{} has no plan here, {}", recipe.name, entry.refused);
    const bool said = std::any_of(facts.notes.begin(), facts.notes.end(),
                                  [&](const Note& note) { return note.text == sentence; });
    if (!said) facts.notes.push_back({.text = sentence, .rule = std::string(rules::kRecipeLacksSchedule)});
  }
}

/// " of 32 layers", " of 12 encoder layers", " of the encoder".
std::string where(const PlanDifference& difference, Stack stack) {
  const std::string_view of_stack = stack == Stack::decoder ? "" : name_of(stack);
  if (difference.layers.empty()) return of_stack.empty() ? "" : fmt::format(" of the {}", of_stack);
  return fmt::format(" of {} {}{}layer{}", difference.layers.size(), of_stack, of_stack.empty() ? "" : " ",
                     difference.layers.size() == 1 ? "" : "s");
}

}  // namespace

void note_recipe(const ModelSpec& spec, const Recipe& recipe, const Extent& extent, Facts& facts) {
  note_refusals(recipe, facts);
  const Recipe& exact = find_recipe("exact");
  if (recipe.name == exact.name) return;
  Recipe by_rule = recipe;
  by_rule.numerics = exact.numerics;
  for (const StackView& stack : stacks_of(spec)) {
    const bool refused =
        std::any_of(facts.positions.begin(), facts.positions.end(), [&](const PositionFacts& entry) {
          return entry.stack == stack.positions.stack && !entry.refused.empty();
        });
    if (refused) continue;
    for (const PlanDifference& difference :
         differences(plan(stack.positions, exact, extent), plan(stack.positions, by_rule, extent))) {
      facts.notes.push_back({.text = fmt::format("{} reads the {}{} otherwise than exact: {}", recipe.name,
                                                 name_of(difference.site),
                                                 where(difference, stack.positions.stack), difference.what),
                             .rule = std::string(rules::kRecipeReadsOtherwise)});
    }
  }
}

}  // namespace locant

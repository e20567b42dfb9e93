// SPDX-License-Identifier: Apache-2.0
// Which rule of counting a family has under a recipe: padded rows without stated positions, and what follows
// images and videos.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "core/nearest.h"
#include "locant/positions.h"

namespace locant {
namespace {

struct FamilySteps {
  std::string_view family;
  TimeSteps steps;
};
constexpr std::array kSteps = {
    FamilySteps{"qwen2_vl", TimeSteps::counted},  FamilySteps{"qwen2_5_vl", TimeSteps::scaled},
    FamilySteps{"qwen3_vl", TimeSteps::separate}, FamilySteps{"qwen3_vl_moe", TimeSteps::separate},
    FamilySteps{"qwen3_5", TimeSteps::separate},  FamilySteps{"qwen3_5_moe", TimeSteps::separate},
    FamilySteps{"glm4v", TimeSteps::separate},
};

// Families that count over the mask or the padding id whoever runs them; padding has the row before the
// first.
constexpr std::array<std::string_view, 8> kCountContent = {
    "camembert", "clap", "clap_text_model", "m2m_100", "opt", "roberta", "xlm-roberta", "xlm-roberta-xl"};

}  // namespace

MropeRules mrope_rules(std::string_view family, const Recipe& recipe) {
  constexpr std::string_view kText = "_text";
  std::string_view name = family;
  if (name.ends_with(kText)) name.remove_suffix(kText.size());
  std::array<std::string_view, kSteps.size()> names{};
  for (std::size_t i = 0; i < kSteps.size(); ++i) {
    names[i] = kSteps[i].family;
    if (name != names[i]) continue;
    const bool sides = recipe.has(Quirk::next_position_ignores_time);
    return {.after = sides ? AfterVision::longest_side : AfterVision::largest_position,
            .steps = kSteps[i].steps};
  }
  const std::string near = nearest_name(name, names);
  throw SpecError(fmt::format("mrope_rules: a family has three position axes, got \"{}\"{}", family,
                              near.empty() ? std::string() : fmt::format(", did you mean \"{}\"", near)));
}

PaddingRule padding_rule(std::string_view family, const Recipe& recipe) {
  if (std::find(kCountContent.begin(), kCountContent.end(), family) != kCountContent.end()) {
    return {.pad_value = -1};
  }
  return {.counting = recipe.has(Quirk::padding_counted) ? Counting::columns : Counting::content};
}

void padded_positions(View<const std::int64_t, 2> mask, std::int64_t start, const PaddingRule& rule,
                      View<std::int64_t, 2> out) {
  masked_positions(mask, start, rule.pad_value, out);
  if (rule.counting == Counting::content) return;
  for (std::int64_t b = 0; b < out.extent(0); ++b) {
    for (std::int64_t t = 0; t < out.extent(1); ++t) out(b, t) = start + t;
  }
}

}  // namespace locant

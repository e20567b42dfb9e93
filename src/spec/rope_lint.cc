// SPDX-License-Identifier: Apache-2.0
#include "spec/rope_lint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "spec/config_rules.h"

namespace locant {
namespace {

using namespace std::string_view_literals;

struct Schedule {
  std::string_view word;  ///< as configs write it
  std::string_view mechanism;
};
constexpr std::array kSchedules = {
    Schedule{"default", "rope"},      Schedule{"mrope", "rope"},
    Schedule{"linear", "linear"},     Schedule{"dynamic", "dynamic_ntk"},
    Schedule{"ntk_alpha", "ntk"},     Schedule{"xdrope", "ntk"},
    Schedule{"yarn", "yarn"},         Schedule{"deepseek_yarn", "yarn"},
    Schedule{"longrope", "longrope"}, Schedule{"su", "longrope"},
    Schedule{"llama3", "llama3"},     Schedule{"proportional", "proportional"},
};

std::int64_t pairs_of(const PositionSpec& rope) {
  for (const std::string_view name : {"rotary_dim"sv, "head_dim"sv}) {
    const Parameter* const found = rope.find(name);
    const auto* const width = found == nullptr ? nullptr : std::get_if<std::int64_t>(&found->value);
    if (width != nullptr) return *width / 2;
  }
  return 0;
}

const std::vector<double>* list_of(const PositionSpec& rope, std::string_view name) {
  const Parameter* const found = rope.find(name);
  return found == nullptr ? nullptr : std::get_if<std::vector<double>>(&found->value);
}

}  // namespace

std::string_view schedule_of(std::string_view word) {
  const auto* const found = std::find_if(kSchedules.begin(), kSchedules.end(),
                                         [&](const Schedule& schedule) { return schedule.word == word; });
  return found == kSchedules.end() ? std::string_view() : found->mechanism;
}

void note_conflict(const Config& here, std::string_view key, const Config& there, std::string_view other) {
  if (!here.tolerant() || here.by_default() || there.by_default()) return;
  if (here.value(key).is_null() || there.value(other).is_null()) return;
  if (here.value(key) == there.value(other)) return;
  here.odd(rules::kConflictingKeys, key,
           fmt::format("and {} name the same thing and must agree, got {} and {}", there.full_key(other),
                       json_text(here.value(key)), json_text(there.value(other))));
}

void make_plain(PositionSpec& rope) {
  constexpr std::array kOfSchedules = {"alpha"sv,
                                       "attention_factor"sv,
                                       "beta_fast"sv,
                                       "beta_slow"sv,
                                       "declared"sv,
                                       "factor"sv,
                                       "high_freq_factor"sv,
                                       "long_factor"sv,
                                       "extrapolation_factor"sv,
                                       "long_mscale"sv,
                                       "low_freq_factor"sv,
                                       "max_positions"sv,
                                       "mscale"sv,
                                       "mscale_all_dim"sv,
                                       "original_length"sv,
                                       "proportion"sv,
                                       "short_factor"sv,
                                       "short_mscale"sv,
                                       "truncate"sv};
  rope.mechanism = "rope";
  std::erase_if(rope.parameters, [&](const Parameter& parameter) {
    return std::find(kOfSchedules.begin(), kOfSchedules.end(), parameter.name) != kOfSchedules.end();
  });
}

void judge_nulls_of_block(const Config& block, const PositionSpec& rope) {
  const auto null = [&](std::string_view key) { return block.has(key) && block.value(key).is_null(); };
  const auto judge = [&](std::string_view key) {
    if (null(key)) block.odd(rules::kNullValue, key, "is null, readers take different values for it");
  };
  if (!block.has("type") || null("type")) judge("rope_type");
  const Parameter* const theta = rope.find("theta");
  if (theta != nullptr && theta->key.empty()) judge("rope_theta");
  if (rope.mechanism == "rope") return;
  for (const std::string_view key :
       {"factor"sv, "high_freq_factor"sv, "long_factor"sv, "low_freq_factor"sv, "short_factor"sv}) {
    judge(key);
  }
}

void judge_lists(const Config& config, PositionSpec& rope) {
  const std::int64_t pairs = pairs_of(rope);
  const auto odd = [&](std::string_view name, const std::string& what) {
    const std::string& key = rope.find(name)->key;
    config.note({.text = fmt::format("{}: {} {}", config.path(), key.empty() ? name : key, what),
                 .rule = std::string(rules::kWrongListLength),
                 .key = key});
  };
  bool fits = true;
  for (const std::string_view name : {"short_factor"sv, "long_factor"sv}) {
    const std::vector<double>* const list = list_of(rope, name);
    if (list == nullptr || static_cast<std::int64_t>(list->size()) == pairs) continue;
    odd(name, fmt::format("has {} numbers for {} pairs", list->size(), pairs));
    fits = false;
  }
  if (!fits) make_plain(rope);
  const std::vector<double>* const sections = list_of(rope, "sections");
  if (sections == nullptr) return;
  double sum = 0;
  for (const double size : *sections) sum += size;
  const bool whole = std::all_of(sections->begin(), sections->end(),
                                 [](double size) { return size >= 0 && size == std::floor(size); });
  if (sum == static_cast<double>(pairs) && whole && sections->size() > 1) return;
  odd("sections", fmt::format("has {} sections that add up to {} of {} pairs", sections->size(), sum, pairs));
  std::erase_if(rope.parameters, [](const Parameter& parameter) {
    return parameter.name == "sections" || parameter.name == "axis_layout";
  });
}

void judge_two_blocks(const Config& scaling, const Config& parameters) {
  if (scaling.by_default() || parameters.by_default() || scaling.members().empty() ||
      parameters.members().empty())
    return;
  for (const std::string& key : scaling.members()) {
    if (key != "type" && key != "rope_type") note_conflict(scaling, key, parameters, key);
  }
  const auto word = [](const Config& block) {
    const Json& type = block.value(block.has("rope_type") ? "rope_type" : "type");
    return schedule_of(type.is_string() ? type.get<std::string>() : "default");
  };
  if (word(scaling) == word(parameters)) return;
  scaling.odd(rules::kConflictingKeys, scaling.has("rope_type") ? "rope_type" : "type",
              fmt::format("names another schedule than {}", parameters.full_key("rope_type")));
}

}  // namespace locant

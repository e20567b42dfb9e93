// SPDX-License-Identifier: Apache-2.0
// Position ids: where text goes on behind a video (Wang et al. 2024, Qwen2-VL, section 2.1), and how padding
// is counted where a call states no positions.
#include <fmt/format.h>

#include "facts/compare_parts.h"

namespace locant {
namespace {

constexpr std::int64_t kFrames = 10;
constexpr std::int64_t kSide = 4;    // patches after merging
constexpr std::int64_t kBefore = 5;  // tokens of text

/// The position of the text behind a video of kFrames frames of kSide x kSide, which begins at kBefore;
/// nothing for a family with one position axis.
std::optional<std::int64_t> behind_video(const SideReading& reading) {
  MropeRules rules;
  try {
    rules = mrope_rules(reading.spec->family, reading.recipe);
  } catch (const SpecError&) {
    return std::nullopt;
  }
  std::vector<std::int64_t> kinds(static_cast<std::size_t>(kBefore), 0);
  for (std::int64_t frame = 0; frame < kFrames; ++frame) {
    if (frame > 0 && rules.steps == TimeSteps::separate) kinds.push_back(0);
    kinds.insert(kinds.end(), static_cast<std::size_t>(kSide * kSide), 2);
  }
  kinds.push_back(0);
  const VisionGrid video{.time = kFrames, .height = kSide * rules.merge, .width = kSide * rules.merge};
  const auto tokens = static_cast<std::int64_t>(kinds.size());
  const MropePositions found =
      mrope_positions({.kinds = View<const std::int64_t, 2>(kinds.data(), {1, tokens}),
                       .mask = {},
                       .images = {},
                       .videos = std::span(&video, 1)},
                      rules);
  return found.ids.at(kinds.size() - 1);
}

}  // namespace

void id_rules(const SideReading& a, const SideReading& b, std::vector<RuleDifference>& found) {
  const std::optional<std::int64_t> of_a = behind_video(a);
  const std::optional<std::int64_t> of_b = behind_video(b);
  if (!of_a || !of_b || *of_a == *of_b) return;
  RuleDifference rule;
  rule.said.what = "after_video";
  rule.said.site = "position_ids";
  rule.said.a = static_cast<double>(*of_a);
  rule.said.b = static_cast<double>(*of_b);
  rule.sentence = rule.said.message = fmt::format(
      "text behind a video goes on at another position: {} frames of {} x {} patches that begin at {} are "
      "followed by {} under {} and {} under {}",
      kFrames, kSide, kSide, kBefore, *of_b, b.name, *of_a, a.name);
  found.push_back(std::move(rule));
}

std::vector<std::string> padding_notes(const SideReading& a, const SideReading& b) {
  const PaddingRule of_a = padding_rule(a.spec->family, a.recipe);
  const PaddingRule of_b = padding_rule(b.spec->family, b.recipe);
  if (of_a.counting == of_b.counting) return {};
  const bool first = of_a.counting == Counting::columns;
  return {
      fmt::format("a padded batch that is fed without position ids counts its padding under {} and its "
                  "content under {}; no other call is touched",
                  first ? a.name : b.name, first ? b.name : a.name)};
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// One entry per distinct plan and site; layers without any site share one entry.
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "facts/parts.h"

namespace locant {
namespace {

constexpr std::int64_t kFar = 1LL << 30;  // tokens; past every length that a config states
constexpr std::string_view kNone = "none";

bool plans_as_published(const StackPositions& positions, const Extent& extent) {
  try {
    (void)plan(positions, find_recipe("exact"), extent);
  } catch (const SpecError&) {
    return false;
  }
  return true;
}

std::optional<double> theta_of(const PositionSpec& spec, const Mechanism& mechanism) {
  if (mechanism.site != Site::rotation) return std::nullopt;
  if (const std::optional<double> stated = spec.number("theta")) return stated;
  for (const ParameterDescription& parameter : mechanism.parameters) {
    if (parameter.name != "theta" || parameter.default_text.empty()) continue;
    return std::strtod(std::string(parameter.default_text).c_str(), nullptr);
  }
  return std::nullopt;
}

LengthRule length_rule(const PositionSpec& spec, const Mechanism& mechanism, const Recipe& recipe) {
  const SitePlan base = mechanism.plan(spec, recipe, {.seen = 1, .capacity = 1});
  const bool by_seen = mechanism.plan(spec, recipe, {.seen = kFar, .capacity = 1}) != base;
  const bool by_capacity = mechanism.plan(spec, recipe, {.seen = 1, .capacity = kFar}) != base;
  if (by_seen && by_capacity) return LengthRule::both;
  if (by_seen) return LengthRule::seen;
  return by_capacity ? LengthRule::capacity : LengthRule::none;
}

bool same_values(const std::vector<Parameter>& a, const std::vector<Parameter>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Parameter& x, const Parameter& y) {
    return x.name == y.name && x.value == y.value && x.key == y.key;
  });
}

class StackEntries {
 public:
  StackEntries(const StackPositions& positions, const Recipe& recipe, const Extent& extent)
      : positions_(positions), recipe_(recipe), extent_(extent) {
    // A layer with two mechanisms of one site is refused. What only this recipe refuses is a fact.
    try {
      (void)plan(positions, recipe, extent);
    } catch (const SpecError&) {
      if (!plans_as_published(positions, extent)) throw;
    }
  }

  std::vector<PositionFacts> take() {
    for (const PositionSpec& spec : positions_.embedding) entries_.push_back(entry_of(spec));
    for (std::size_t layer = 0; layer < positions_.layers.size(); ++layer) {
      const auto& specs = positions_.layers[layer];
      if (specs.empty()) add_none(static_cast<std::int64_t>(layer));
      for (const PositionSpec& spec : specs) add(spec, static_cast<std::int64_t>(layer));
    }
    return std::move(entries_);
  }

 private:
  PositionFacts entry_of(const PositionSpec& spec) const {
    const Mechanism& mechanism = find_mechanism(spec.mechanism);
    PositionFacts entry;
    entry.stack = positions_.stack;
    entry.mechanism = mechanism.name;
    entry.parameters = spec.parameters;
    entry.theta = theta_of(spec, mechanism);
    try {
      entry.plan = mechanism.plan(spec, recipe_, extent_);
      entry.length_rule = length_rule(spec, mechanism, recipe_);
    } catch (const SpecError& error) {
      entry.refused = error.what();
    }
    return entry;
  }

  // Layers repeat a few specs: each is planned once.
  void add(const PositionSpec& spec, std::int64_t layer) {
    for (const Seen& seen : seen_) {
      if (seen.spec->mechanism != spec.mechanism || !same_values(seen.spec->parameters, spec.parameters))
        continue;
      entries_[seen.entry].layers.push_back(layer);
      return;
    }
    PositionFacts entry = entry_of(spec);
    const auto same = [&](const PositionFacts& other) {
      return !other.layers.empty() && other.mechanism == entry.mechanism && other.plan == entry.plan &&
             other.length_rule == entry.length_rule && other.refused == entry.refused;
    };
    const auto found = std::find_if(entries_.begin(), entries_.end(), same);
    seen_.push_back({&spec, static_cast<std::size_t>(found - entries_.begin())});
    if (found != entries_.end()) {
      found->layers.push_back(layer);
    } else {
      entry.layers = {layer};
      entries_.push_back(std::move(entry));
    }
  }

  void add_none(std::int64_t layer) {
    const auto found = std::find_if(entries_.begin(), entries_.end(),
                                    [](const PositionFacts& entry) { return entry.mechanism == kNone; });
    if (found != entries_.end()) {
      found->layers.push_back(layer);
      return;
    }
    PositionFacts none;
    none.stack = positions_.stack;
    none.layers = {layer};
    none.mechanism = kNone;
    entries_.push_back(std::move(none));
  }

  struct Seen {
    const PositionSpec* spec;
    std::size_t entry;
  };
  const StackPositions& positions_;
  const Recipe& recipe_;
  const Extent& extent_;
  std::vector<PositionFacts> entries_;
  std::vector<Seen> seen_;
};

}  // namespace

std::vector<StackView> stacks_of(const ModelSpec& spec) {
  std::vector<StackView> stacks{{spec.positions, spec.attention}};
  for (const StackSpec& other : spec.others) stacks.push_back({other.positions, other.attention});
  return stacks;
}

std::string_view site_of(const PositionFacts& facts) noexcept {
  if (!facts.plan) {
    for (const Mechanism& mechanism : mechanisms()) {
      if (mechanism.name == facts.mechanism) return name_of(mechanism.site);
    }
    return kNone;
  }
  if (std::holds_alternative<PositionEmbedding>(*facts.plan)) return name_of(Site::embedding);
  if (std::holds_alternative<Rotation>(*facts.plan)) return name_of(Site::rotation);
  return name_of(std::holds_alternative<Bias>(*facts.plan) ? Site::bias : Site::query_scale);
}

std::string_view name_of(LengthRule rule) noexcept {
  switch (rule) {
    case LengthRule::none:
      return "none";
    case LengthRule::seen:
      return "seen";
    case LengthRule::capacity:
      return "capacity";
    case LengthRule::both:
      return "both";
  }
  return "none";
}

std::vector<PositionFacts> position_facts(const ModelSpec& spec, const Recipe& recipe, const Extent& extent) {
  std::vector<PositionFacts> all;
  for (const StackView& stack : stacks_of(spec)) {
    std::vector<PositionFacts> entries = StackEntries(stack.positions, recipe, extent).take();
    std::move(entries.begin(), entries.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace locant

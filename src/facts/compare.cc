// SPDX-License-Identifier: Apache-2.0
// Two readings of what models say, side by side: rules first, then the arithmetic of their tables.
#include "locant/compare.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "facts/compare_parts.h"

namespace locant {
namespace {

SideReading reading_of(const CompareSide& side, DType run_dtype) {
  const std::string usual = side.spec->format == "gguf" ? "llama.cpp" : "hf";
  SideReading reading;
  reading.name = side.name;
  reading.spec = side.spec;
  reading.recipe = find_recipe(side.recipe.empty() ? usual : side.recipe);
  reading.numerics = numerics_of(reading.recipe, run_dtype);
  return reading;
}

void require_known(const CompareSide& a, const CompareSide& b) {
  for (const CompareSide* const side : {&a, &b}) {
    if (!side->spec->generic) continue;
    throw SpecError(fmt::format("compare: the recipes know families by name, and {} is none of them, got {}",
                                side->spec->family.empty() ? "this model" : side->spec->family,
                                side->spec->path));
  }
}

/// Position that the shortest table of both sides ends at.
std::optional<std::int64_t> table_end(const SideReading& a, const SideReading& b) {
  std::optional<std::int64_t> end;
  for (const SideReading* const reading : {&a, &b}) {
    const std::vector<PositionFacts> positions = position_facts(*reading->spec, reading->recipe, {});
    const LimitFacts limits = limit_facts(*reading->spec, positions, reading->recipe, {});
    if (!limits.last_position) continue;
    end = end ? std::min(*end, *limits.last_position) : *limits.last_position;
  }
  return end;
}

/// The shorter of two stated lengths.
const LengthSpec* shorter(const ModelSpec& a, const ModelSpec& b) {
  if (!a.lengths.configured) return b.lengths.configured ? &b.lengths : nullptr;
  const bool other = b.lengths.configured && *b.lengths.configured < *a.lengths.configured;
  return other ? &b.lengths : &a.lengths;
}

void read_lengths(const SideReading& a, const SideReading& b, const CompareQuery& query, Comparison& out) {
  if (query.distance && *query.distance < 1)
    throw SpecError(fmt::format("compare: a distance is at least 1 token, got {}", *query.distance));
  if (query.capacity && *query.capacity < 1)
    throw SpecError(fmt::format("compare: a capacity is at least 1 token, got {}", *query.capacity));
  const std::optional<std::int64_t> last = table_end(a, b);
  if (query.distance) {
    if (last && *query.distance - 1 > *last) {
      throw SpecError(fmt::format("compare: the position table ends at position {}, got a distance of {}",
                                  *last, *query.distance));
    }
    out.distance = *query.distance;
    out.distance_basis = "given";
  } else {
    const LengthSpec* const stated = shorter(*a.spec, *b.spec);
    out.distance = stated != nullptr ? *stated->configured : kDefaultDistance;
    out.distance_basis = stated != nullptr ? stated->configured_key : "assumed";
    if (out.distance_basis.empty()) out.distance_basis = "the family's default";
    if (last && out.distance - 1 > *last) {
      out.distance = *last + 1;
      out.distance_basis = "the end of the position table";
    }
  }
  out.capacity = query.capacity.value_or(out.distance);
  if (out.capacity < out.distance) {
    throw SpecError(
        fmt::format("compare: a runtime that was opened for {} tokens sees no more, got a distance of {}",
                    out.capacity, out.distance));
  }
}

void read_run_dtype(const CompareSide& a, const CompareQuery& query, Comparison& out) {
  out.run_dtype = query.run_dtype.value_or(a.dtype.value_or(DType::f32));
  out.run_dtype_basis = query.run_dtype ? "given" : a.dtype ? "config" : "assumed";
}

}  // namespace

std::string_view name_of(DifferenceKind kind) noexcept {
  return kind == DifferenceKind::rule ? "rule" : "arithmetic";
}

Recipe SideReading::by_rule() const {
  Recipe same = recipe;
  same.numerics = find_recipe("exact").numerics;
  return same;
}

bool differs(const Comparison& comparison) noexcept {
  return std::any_of(comparison.differences.begin(), comparison.differences.end(),
                     [](const Difference& one) { return one.inside; });
}

Comparison compare(const CompareSide& a, const CompareSide& b, const CompareQuery& query) {
  Comparison out;
  out.a = a.name;
  out.b = b.name;
  read_run_dtype(a, query, out);
  const SideReading first = reading_of(a, out.run_dtype);
  const SideReading second = reading_of(b, out.run_dtype);
  require_known(a, b);
  read_lengths(first, second, query, out);
  const Extents extents = extents_of(first, second, out.distance, out.capacity);
  std::vector<RuleDifference> rules = rules_that_differ(first, second, extents);
  for (RuleDifference& rule : rules) measure(first, second, extents, rule);
  add_evidence(first, second, extents, rules);
  for (RuleDifference& rule : rules) out.differences.push_back(std::move(rule.said));
  for (Difference& one : arithmetic_differences(first, second, extents)) {
    std::vector<Difference>& into = one.first_bf16 ? out.differences : out.within_rounding;
    into.push_back(std::move(one));
  }
  out.notes = padding_notes(first, second);
  for (std::string& note : file_order_notes(first, second, extents)) out.notes.push_back(std::move(note));
  if (!a.weights.empty() && !b.weights.empty() && a.weights != b.weights) compare_weights(a, b, out);
  return out;
}

std::string layers_text(const Difference& difference) {
  if (!difference.stack) return {};
  const std::string stack =
      *difference.stack == Stack::decoder ? "" : fmt::format(" of the {}", name_of(*difference.stack));
  if (difference.layers.empty()) return difference.site == "embedding" ? "added rows" + stack : stack;
  std::string ranges;
  const std::vector<std::int64_t>& layers = difference.layers;
  for (std::size_t first = 0; first < layers.size();) {
    std::size_t last = first;
    while (last + 1 < layers.size() && layers[last + 1] == layers[last] + 1) ++last;
    if (!ranges.empty()) ranges += ',';
    ranges +=
        first == last ? std::to_string(layers[first]) : fmt::format("{}-{}", layers[first], layers[last]);
    first = last + 1;
  }
  return fmt::format("layer{} {}{}", layers.size() == 1 ? "" : "s", ranges, stack);
}

}  // namespace locant

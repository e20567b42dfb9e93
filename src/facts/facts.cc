// SPDX-License-Identifier: Apache-2.0
// What a model's config and the headers of its weights say, under one recipe.
#include "locant/facts.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "facts/parts.h"
#include "spec/under_recipe.h"

namespace locant {
namespace {

/// Whose meaning a file of this format was made for.
std::string_view default_recipe(const ModelSpec& spec) {
  return spec.format == "gguf" ? "llama.cpp" : "hf";
}

void check_query(const FactsQuery& query) {
  if (query.distance && *query.distance < 0)
    throw SpecError(fmt::format("facts: a distance is at least 0 tokens, got {}", *query.distance));
  if (query.capacity && *query.capacity < 1)
    throw SpecError(fmt::format("facts: a capacity is at least 1 token, got {}", *query.capacity));
}

ModelFacts model_facts(const ModelSpec& spec) {
  ModelFacts model;
  model.path = spec.path;
  model.format = spec.format;
  model.family = spec.family;
  model.generic = spec.generic;
  model.layers = spec.layers;
  model.hidden = spec.hidden;
  model.heads = spec.heads;
  model.kv_heads = spec.kv_heads;
  model.head_dim = spec.head_dim;
  model.vocab = spec.vocab;
  return model;
}

void add_note(Facts& facts, std::string text) {
  facts.notes.push_back({.text = std::move(text)});
}

void note_length_rules(Facts& facts) {
  std::vector<std::string_view> said;
  for (const PositionFacts& entry : facts.positions) {
    if (entry.length_rule == LengthRule::none) continue;
    if (std::find(said.begin(), said.end(), entry.mechanism) != said.end()) continue;
    said.push_back(entry.mechanism);
    const bool by_seen = entry.length_rule != LengthRule::capacity;
    const std::optional<std::int64_t>& given = by_seen ? facts.distance : facts.capacity;
    add_note(facts, fmt::format("{} follows the {} under recipe {}: this is its plan {}", entry.mechanism,
                                by_seen ? "tokens seen" : "length the runtime was opened for", facts.recipe,
                                given ? fmt::format("for {} tokens", *given)
                                      : (by_seen ? "at the start of a text" : "where none is stated")));
  }
}

void note_tables(Facts& facts) {
  if (!facts.limits.hard || !facts.limits.last_position) return;
  if (*facts.limits.last_position + 1 == *facts.limits.hard) return;
  add_note(facts,
           fmt::format("the shortest position table has {} rows, of which the last stands for position {}",
                       *facts.limits.hard, *facts.limits.last_position));
}

}  // namespace

std::string_view name_of(ScaleRounding rounding) noexcept {
  return rounding == ScaleRounding::run_dtype ? "run_dtype" : "none";
}

EmbeddingFacts embedding_facts(const ModelSpec& spec, const Recipe& recipe) {
  EmbeddingFacts facts;
  facts.rows = spec.embedding.rows;
  facts.width = spec.embedding.width;
  facts.scale = spec.embedding.scale;
  const bool exact = recipe.numerics.frequency == DType::f64 && recipe.deviations.empty();
  const bool rounds =
      spec.embedding.scale_in_run_dtype && !exact && !recipe.has(Quirk::embedding_scale_unrounded);
  facts.scale_rounding = rounds ? ScaleRounding::run_dtype : ScaleRounding::none;
  if (spec.embedding.normed) facts.norm = spec.norm.kind;
  facts.factorised_width = spec.embedding.factorised_width;
  facts.token_types = spec.embedding.token_types;
  facts.padding_id = spec.embedding.padding_id;
  return facts;
}

HeadFacts head_facts(const ModelSpec& spec, const Recipe& recipe) {
  HeadFacts head;
  head.tied = spec.head.tied || (spec.head.tied_regardless && recipe.has(Quirk::head_tied_whatever_stated));
  head.tied_key = spec.head.tied_key;
  head.rows = spec.vocab;
  head.bias = spec.head.bias;
  head.scale = under_recipe(spec, recipe).head.scale;
  head.softcap = spec.head.softcap;
  return head;
}

Facts facts_of(const ModelSpec& spec, const FactsQuery& query) {
  check_query(query);
  const Recipe& recipe =
      find_recipe(query.recipe.empty() ? default_recipe(spec) : std::string_view(query.recipe));
  const Extent extent{.seen = query.distance.value_or(0), .capacity = query.capacity.value_or(0)};
  Facts facts;
  facts.recipe = recipe.name;
  facts.distance = query.distance;
  facts.capacity = query.capacity;
  facts.model = model_facts(spec);
  facts.embedding = embedding_facts(spec, recipe);
  facts.head = head_facts(spec, recipe);
  facts.positions = position_facts(spec, recipe, extent);
  facts.attention = attention_facts(spec);
  facts.limits = limit_facts(spec, facts.positions, recipe, query);
  read_weight_headers(query.weights, spec, facts);
  facts.notes.insert(facts.notes.end(), spec.notes.begin(), spec.notes.end());
  note_recipe(spec, recipe, extent, facts);
  note_length_rules(facts);
  note_tables(facts);
  if (!facts.limits.memory.why_not.empty())
    add_note(facts, fmt::format("memory is not told: {}", facts.limits.memory.why_not));
  if (facts.limits.lengths.configured)
    add_note(facts, "a configured length is what the config offers; it is not proven quality");
  return facts;
}

}  // namespace locant

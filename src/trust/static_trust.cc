// SPDX-License-Identifier: Apache-2.0
// The static part: what config and weights say about lengths, and what follows from it up to a horizon.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trust/parts.h"

namespace locant {
namespace {

using namespace trust_room;

constexpr std::int64_t kUnstated = 1024;  // horizon where nothing states a length
constexpr std::int64_t kMost = std::int64_t{1} << 40;
constexpr double kBlurred = 0.5;  // of the fastest pair's step

void require_length(std::string_view what, const std::optional<std::int64_t>& tokens) {
  if (tokens && (*tokens < 2 || *tokens > kMost))
    throw SpecError(fmt::format("trust: {} is from 2 to {} tokens, got {}", what, kMost, *tokens));
}

std::int64_t horizon(const StaticTrustQuery& query, StaticTrust& trust) {
  if (query.to) {
    trust.to_basis = "user";
    return *query.to;
  }
  if (trust.declared.tokens) {
    trust.to_basis = "declared";
    return std::max<std::int64_t>(*trust.declared.tokens, 2);
  }
  if (query.trained) {
    trust.to_basis = "twice the trained length";
    return 2 * *query.trained;
  }
  trust.to_basis = "no length is stated";
  return kUnstated;
}

/// The user's word, then rows that learned where they are fewer than the config says, then a field, then the
/// declared length.
StatedLength trained_length(const StaticTrustQuery& query, const StaticTrust& trust) {
  if (query.trained) return {query.trained, LengthSource::user, "--trained"};
  const LengthSpec& lengths = query.spec->lengths;
  for (const TableTrust& table : trust.tables) {
    const bool shorter = table.learned < table.declared && table.learned < trust.to;
    if (shorter || (!table.evidence.empty() && table.learned < table.positions))
      return {table.learned, LengthSource::weights, table.tensor};
  }
  if (lengths.trained) return {lengths.trained, LengthSource::field, lengths.trained_basis};
  if (lengths.configured) return {lengths.configured, LengthSource::assumed, lengths.configured_key};
  return {};
}

class Findings {
 public:
  explicit Findings(StaticTrust& trust) : trust_(trust) {}

  /// What could not be read stands before what was.
  void read(const ModelSpec& spec, const Facts& facts) {
    if (spec.generic) {
      add(FindingKind::risk, "family-unknown",
          fmt::format(
              "the recipes know families by name, and {} is none of them: what stands here was read by the "
              "keys that most families share",
              spec.family.empty() ? "this model" : spec.family));
    }
    for (const PositionFacts& entry : facts.positions) {
      if (entry.refused.empty()) continue;
      add(FindingKind::fault, "recipe-refuses",
          fmt::format("{} has no plan for this model, {}", facts.recipe, entry.refused));
    }
  }

  void judge() {
    for (const TableTrust& table : trust_.tables) judge_table(table);
    for (const RotationTrust& rotation : trust_.rotations) judge_rotation(rotation);
    judge_lengths();
  }

 private:
  void add(FindingKind kind, std::string name, std::string text) {
    const bool said = std::any_of(trust_.findings.begin(), trust_.findings.end(),
                                  [&](const TrustFinding& one) { return one.text == text; });
    if (!said) trust_.findings.push_back({kind, std::move(name), std::move(text)});
  }

  void judge_table(const TableTrust& table) {
    if (table.rows < table.declared) {
      add(FindingKind::fault, "table-shorter-than-declared",
          fmt::format("the config speaks of {} rows, {} has {}", table.declared, table.tensor, table.rows));
    }
    if (!table.evidence.empty() && table.learned < table.positions) {
      add(FindingKind::fault, "rows-never-learned",
          fmt::format("{} has {} positions, {} of them learned: {}", table.tensor, table.positions,
                      table.learned, table.evidence));
    }
  }

  void judge_rotation(const RotationTrust& rotation) {
    if (rotation.first_position) {
      add(FindingKind::risk, "angles-out-of-range",
          fmt::format("pair {} leaves the angles of training at distance {}; below {} tokens {:.1f} % of the "
                      "(pair, distance) cells were not seen, the farthest by {:.2f} rad",
                      *rotation.first_pair, *rotation.first_position, trust_.to, 100 * rotation.unseen,
                      rotation.excess));
    }
    if (rotation.fastest_plain > 0 && rotation.fastest_step < kBlurred * rotation.fastest_plain) {
      add(FindingKind::risk, "neighbours-blurred",
          fmt::format(
              "the fastest pair turns {:.4g} rad a token in place of {:.4g}: neighbours are harder to "
              "tell apart, at every length",
              rotation.fastest_step, rotation.fastest_plain));
    }
    if (rotation.sum_negative_from) {
      add(FindingKind::risk, "cosine-sum-negative",
          fmt::format(
              "B(m) is negative from distance {} on: like tokens may score below unlike ones there (Men "
              "et al. 2024); models that break this are known to work",
              *rotation.sum_negative_from));
    }
  }

  void judge_lengths() {
    if (trust_.hard && *trust_.hard < trust_.to && trust_.to_basis != "declared") {
      add(FindingKind::fault, "horizon-past-table",
          fmt::format("{} tokens are past the position table, which ends at {}", trust_.to, *trust_.hard));
    }
    if (trust_.trained.tokens && trust_.declared.tokens && *trust_.trained.tokens < *trust_.declared.tokens &&
        trust_.trained.source != LengthSource::weights) {
      add(FindingKind::risk, "declared-past-trained",
          fmt::format("{} tokens are declared, training saw {} ({}: {})", *trust_.declared.tokens,
                      *trust_.trained.tokens, name_of(trust_.trained.source), trust_.trained.basis));
    }
  }

  StaticTrust& trust_;
};

void read_hard_end(const Facts& facts, StaticTrust& trust) {
  if (facts.limits.last_position) trust.hard = *facts.limits.last_position + 1;
  for (const TableTrust& table : trust.tables) {
    // a table that holds its last row has no end
    if (!facts.limits.last_position) break;
    trust.hard = trust.hard ? std::min(*trust.hard, table.positions) : table.positions;
  }
}

/// Losses are of tokens that are predicted from those before them alone.
std::string unmeasurable(const ModelSpec& spec) {
  if (!spec.others.empty()) return fmt::format("{} reads an encoder beside the text", spec.family);
  for (const AttentionSpec& attention : spec.attention) {
    if (attention.attends && attention.bidirectional)
      return fmt::format("a token of {} sees those behind it", spec.family);
  }
  return {};
}

}  // namespace

std::string_view name_of(LengthSource source) noexcept {
  switch (source) {
    case LengthSource::none:
      return "none";
    case LengthSource::field:
      return "field";
    case LengthSource::user:
      return "user";
    case LengthSource::weights:
      return "weights";
    case LengthSource::assumed:
      return "assumed";
  }
  return "none";
}

StaticTrust static_trust(const StaticTrustQuery& query) {
  require_length("the horizon", query.to);
  require_length("the trained length", query.trained);
  const ModelSpec& spec = *query.spec;
  StaticTrust trust;
  if (spec.lengths.configured)
    trust.declared = {spec.lengths.configured, LengthSource::field, spec.lengths.configured_key};
  trust.to = horizon(query, trust);
  ModelSpec at_horizon = spec;
  at_horizon.lengths.configured = trust.to;  // what memory and angles are counted for
  const FactsQuery asked{
      .recipe = query.recipe, .distance = trust.to, .capacity = trust.to, .weights = query.weights};
  const Facts facts = facts_of(at_horizon, asked);
  const Recipe& recipe = find_recipe(facts.recipe);
  trust.recipe = facts.recipe;
  trust.tables = table_trust(facts, query.weights);
  read_hard_end(facts, trust);
  trust.trained = trained_length(query, trust);
  for (const PositionFacts& entry : facts.positions) {
    if (!entry.plan || !std::holds_alternative<Rotation>(*entry.plan)) continue;
    trust.rotations.push_back(rotation_trust({.entry = &entry,
                                              .recipe = &recipe,
                                              .trained = trust.trained.tokens.value_or(trust.to),
                                              .to = trust.to}));
  }
  trust.reach = reach_trust(spec, facts);
  trust.memory_per_token = facts.limits.memory.kv_bytes_per_token;
  trust.memory = facts.limits.memory.at_configured;
  Findings findings(trust);
  findings.read(spec, facts);
  findings.judge();
  trust.unmeasurable = unmeasurable(spec);
  return trust;
}

}  // namespace locant

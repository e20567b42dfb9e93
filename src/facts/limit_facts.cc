// SPDX-License-Identifier: Apache-2.0
// Where lengths end: stated lengths, tables that end, and the angles of pairs too slow for a full turn. A
// pair of frequency w sees angles up to w0 (L - 1) inside L, w0 its frequency on the plain ladder, and leaves
// them at the first p with w p > w0 (L - 1).
#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/checked.h"
#include "facts/parts.h"

namespace locant {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

/// First position whose angle on `frequency` is past `most`; nothing when none below 2^62 is.
std::optional<std::int64_t> first_past(double frequency, double most) {
  constexpr double kMost = 0x1p62;
  const double position = std::floor(most / frequency) + 1;
  if (!(position < kMost)) return std::nullopt;
  return static_cast<std::int64_t>(position);
}

AngleFacts angle_facts(const PositionFacts& entry, const LimitFacts& limits, const Recipe& recipe) {
  const auto& rotation = std::get<Rotation>(*entry.plan);
  AngleFacts facts;
  facts.stack = entry.stack;
  facts.layers = entry.layers;
  const Rotation plain = plain_rotation(entry, recipe);
  if (limits.angle_length) facts.incomplete_pairs = 0;
  if (limits.angle_length && limits.horizon) facts.leaving_pairs = 0;
  for (std::size_t i = 0; i < rotation.inv_freq.size(); ++i) {
    const double frequency = rotation.inv_freq[i];
    if (!(frequency > 0)) continue;
    const double wavelength = kTurn / frequency;
    ++facts.pairs;
    facts.longest_wavelength = std::max(facts.longest_wavelength, wavelength);
    facts.shortest_wavelength =
        facts.pairs == 1 ? wavelength : std::min(facts.shortest_wavelength, wavelength);
    if (!limits.angle_length) continue;
    const auto last = static_cast<double>(*limits.angle_length - 1);
    if (frequency * last >= kTurn) continue;
    ++*facts.incomplete_pairs;
    const double trained = (plain.inv_freq[i] > 0 ? plain.inv_freq[i] : frequency) * last;
    if (trained >= kTurn) continue;  // slowed: the whole turn was seen on the plain ladder
    const std::optional<std::int64_t> from =
        plain.inv_freq[i] == frequency ? limits.angle_length : first_past(frequency, trained);
    if (!from) continue;
    facts.leaves_from = facts.leaves_from ? std::min(*facts.leaves_from, *from) : *from;
    if (facts.leaving_pairs && *from < *limits.horizon) ++*facts.leaving_pairs;
  }
  return facts;
}

void read_tables(const std::vector<PositionFacts>& positions, LimitFacts& limits) {
  for (const PositionFacts& entry : positions) {
    const auto* const embedding = entry.plan ? std::get_if<PositionEmbedding>(&*entry.plan) : nullptr;
    if (embedding == nullptr || embedding->form == EmbeddingForm::token_types) continue;
    if (embedding->rows == 0 || embedding->past_end != PastEnd::refuse) continue;
    limits.hard = limits.hard ? std::min(*limits.hard, embedding->rows) : embedding->rows;
    const std::optional<std::int64_t> last = checked_add(embedding->rows - 1, -embedding->offset);
    if (!last) continue;
    limits.last_position = limits.last_position ? std::min(*limits.last_position, *last) : *last;
  }
}

}  // namespace

Rotation plain_rotation(const PositionFacts& entry, const Recipe& recipe) {
  const auto& scheduled = std::get<Rotation>(*entry.plan);
  if (entry.mechanism == "rope") return scheduled;
  const Mechanism& rope = find_mechanism("rope");
  PositionSpec spec{.mechanism = "rope", .parameters = {}};
  for (const Parameter& parameter : entry.parameters) {
    const bool known = std::any_of(rope.parameters.begin(), rope.parameters.end(),
                                   [&](const ParameterDescription& d) { return d.name == parameter.name; });
    if (known) spec.parameters.push_back(parameter);
  }
  Rotation plain = std::get<Rotation>(rope.plan(spec, recipe, {}));
  return plain.inv_freq.size() == scheduled.inv_freq.size() ? plain : scheduled;
}

LimitFacts limit_facts(const ModelSpec& spec, const std::vector<PositionFacts>& positions,
                       const Recipe& recipe, const FactsQuery& query) {
  LimitFacts limits;
  limits.lengths = spec.lengths;
  const LengthSpec& lengths = spec.lengths;
  if (lengths.trained || lengths.configured) {
    limits.angle_length = lengths.trained ? lengths.trained : lengths.configured;
    limits.angle_basis = lengths.trained ? "trained" : "configured";
  }
  limits.horizon = query.distance ? query.distance : lengths.configured;
  read_tables(positions, limits);
  for (const PositionFacts& entry : positions) {
    if (entry.plan && std::holds_alternative<Rotation>(*entry.plan))
      limits.angles.push_back(angle_facts(entry, limits, recipe));
  }
  limits.memory = memory_facts(spec, positions);
  return limits;
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// A difference by rule in numbers: the tables of both readings, apart in the one field that it is about, and
// its sentence.
#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "facts/compare_parts.h"

namespace locant {
namespace {

/// `a` with one field of `b`; nothing where the field is not one that tables of equal shape tell.
std::optional<Rotation> with_field(Rotation a, const Rotation& b, std::string_view field) {
  if (a.inv_freq.size() != b.inv_freq.size()) return std::nullopt;
  if (field == "inv_freq") {
    a.inv_freq = b.inv_freq;
  } else if (field == "amplitude") {
    a.amplitude = b.amplitude;
  } else if (field == "axis") {
    a.axis = b.axis;
  } else if (field == "sign") {
    a.sign = b.sign;
  } else {
    return std::nullopt;
  }
  return a;
}

QueryScale with_field(QueryScale a, const QueryScale& b, std::string_view field) {
  if (field == "scale") a.scale = b.scale;
  if (field == "floor") a.floor = b.floor;
  if (field == "shift") a.shift = b.shift;
  if (field == "form") a.form = b.form;
  return a;
}

PositionEmbedding with_field(PositionEmbedding a, const PositionEmbedding& b, std::string_view field) {
  if (field == "inv_freq") a.inv_freq = b.inv_freq;
  if (field == "first_position") a.first_position = b.first_position;
  if (field == "offset") a.offset = b.offset;
  if (field == "scale") a.scale = b.scale;
  if (field == "columns") a.columns = b.columns;
  if (field == "cos_first") a.cos_first = b.cos_first;
  if (field == "zero_row") a.zero_row = b.zero_row;
  if (field == "arithmetic") a.arithmetic = b.arithmetic;
  return a;
}

struct Measuring {
  const SideReading& a;
  const SideReading& b;
  const Extent extent;
  std::int64_t distance;
  RuleDifference& rule;

  [[nodiscard]] const std::string& field() const { return rule.said.what; }
};

std::vector<std::int64_t> differing(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<std::int64_t> at;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i] != b[i]) at.push_back(static_cast<std::int64_t>(i));
  }
  return at;
}

/// The layers' plans in the numbers of `exact`.
LayerPositions ruled(const Measuring& m, const SideReading& reading) {
  SideReading same = reading;
  same.recipe = reading.by_rule();
  return layer_plan(same, m.rule.stack, m.rule.said.layers.front(), m.extent);
}

/// Channels that one side turns and the other does not, or pairs otherwise: told against standing still.
void measure_shape(const Measuring& m, const std::optional<Rotation>& a, const std::optional<Rotation>& b) {
  const bool first = a && (!b || a->inv_freq.size() >= b->inv_freq.size());
  const Rotation& turning = first ? *a : *b;
  const Numerics& numerics = first ? m.a.numerics : m.b.numerics;
  Rotation still = turning;
  std::fill(still.inv_freq.begin(), still.inv_freq.end(), 0.0);
  scan(rotation_gaps({still, numerics}, {turning, numerics}, {}, AnglesBy::frequencies), m.distance,
       m.rule.said);
}

void measure_rotation(const Measuring& m, const LayerPositions& a, const LayerPositions& b) {
  if (!a.rotation || !b.rotation) return measure_shape(m, a.rotation, b.rotation);
  const std::optional<Rotation> other = with_field(*a.rotation, *b.rotation, m.field());
  if (!other) return measure_shape(m, a.rotation, b.rotation);
  Difference& said = m.rule.said;
  if (m.field() == "inv_freq")
    said.pairs = differing(ruled(m, m.a).rotation->inv_freq, ruled(m, m.b).rotation->inv_freq);
  if (m.field() == "axis") {
    const auto axis_of = [](const Rotation& r, std::size_t i) { return i < r.axis.size() ? r.axis[i] : 0; };
    for (std::size_t i = 0; i < other->inv_freq.size(); ++i) {
      if (axis_of(*a.rotation, i) != axis_of(*b.rotation, i))
        said.pairs.push_back(static_cast<std::int64_t>(i));
    }
  }
  if (m.field() == "amplitude") {
    said.a = a.rotation->amplitude;
    said.b = b.rotation->amplitude;
  }
  const AnglesBy angles = m.field() == "axis" ? AnglesBy::tables : AnglesBy::frequencies;
  scan(rotation_gaps({*a.rotation, m.a.numerics}, {*other, m.b.numerics}, said.pairs, angles), m.distance,
       said);
}

void measure_bias(const Measuring& m, const LayerPositions& a, const LayerPositions& b) {
  if (!a.bias || !b.bias || a.bias->slopes.empty() || a.bias->slopes.size() != b.bias->slopes.size()) return;
  if (m.field() != "slopes") return;
  m.rule.said.pairs = differing(ruled(m, m.a).bias->slopes, ruled(m, m.b).bias->slopes);
  Bias other = *a.bias;
  other.slopes = b.bias->slopes;
  scan(slope_gaps({*a.bias, m.a.numerics}, {other, m.b.numerics}), m.distance, m.rule.said);
}

void measure_factor(const Measuring& m, const LayerPositions& a, const LayerPositions& b) {
  if (!a.query_scale && !b.query_scale) return;
  // Without the mechanism the factor is 1, as with a scale of 0.
  const auto or_none = [](const std::optional<QueryScale>& one, const QueryScale& like) {
    QueryScale none = like;
    none.scale = 0;
    return one.value_or(none);
  };
  const QueryScale of_a = or_none(a.query_scale, b.query_scale.value_or(QueryScale{}));
  const QueryScale of_b = or_none(b.query_scale, of_a);
  const bool one_alone = !a.query_scale || !b.query_scale;
  scan(factor_gaps(of_a, one_alone ? of_b : with_field(of_a, of_b, m.field())), m.distance, m.rule.said);
}

void measure_rows(const Measuring& m) {
  const std::vector<PositionEmbedding> a = embedding_plan(m.a, m.rule.stack, m.extent);
  const std::vector<PositionEmbedding> b = embedding_plan(m.b, m.rule.stack, m.extent);
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const bool rows = a[i].form == EmbeddingForm::sinusoid && b[i].form == EmbeddingForm::sinusoid;
    if (!rows || a[i] == b[i] || a[i].width != b[i].width) continue;
    scan(row_gaps({a[i], m.a.numerics}, {with_field(a[i], b[i], m.field()), m.b.numerics}), m.distance,
         m.rule.said);
    return;
  }
}

std::string position_text(const Gap& gap) {
  return fmt::format("at position {}", gap.position);
}

std::string rotation_sentence(const Measuring& m) {
  const Difference& said = m.rule.said;
  if (said.what == "amplitude" && said.a && said.b) {
    const double ratio = *said.b / *said.a;
    return fmt::format(
        "cos and sin are multiplied by {:.6g} under {} and {:.6g} under {}, so that scores are "
        "{:.6g} times as large",
        *said.b, m.b.name, *said.a, m.a.name, ratio * ratio);
  }
  if (said.what == "inv_freq" && said.at_distance && said.at_distance->radians && !said.pairs.empty()) {
    return fmt::format("under {} {} under {}; the angles of a pair part by up to {:.4g} rad {}", m.b.name,
                       m.rule.sentence, m.a.name, *said.at_distance->radians,
                       position_text(*said.at_distance));
  }
  return {};
}

std::string seen_text(const Difference& said) {
  if (!said.seen_from) return {};
  if (!said.seen_to)
    return *said.seen_from > 1 ? fmt::format(", once {} tokens are seen", *said.seen_from) : "";
  return *said.seen_from == *said.seen_to
             ? fmt::format(", while exactly {} tokens are seen", *said.seen_from)
             : fmt::format(", while {} to {} tokens are seen", *said.seen_from, *said.seen_to);
}

std::string sentence_of(const Measuring& m) {
  const Difference& said = m.rule.said;
  if (said.what == "site") {
    const bool missing = m.rule.sentence.ends_with("missing");
    return fmt::format("{} has a {} here that {} has not", missing ? m.a.name : m.b.name, said.site,
                       missing ? m.b.name : m.a.name);
  }
  std::string text = said.site == "rotation" ? rotation_sentence(m) : "";
  if (text.empty()) text = fmt::format("under {} {} under {}", m.b.name, m.rule.sentence, m.a.name);
  if (said.site == "query_scale" && said.at_distance)
    text += fmt::format("; the factor on queries is {:.4g} apart {}", said.at_distance->difference,
                        position_text(*said.at_distance));
  if (said.site == "bias" && said.at_distance)
    text += fmt::format("; scores are up to {:.4g} apart {}", said.at_distance->difference,
                        position_text(*said.at_distance));
  if (said.site == "embedding" && said.at_distance)
    text += fmt::format("; an element is up to {:.4g} apart {}", said.at_distance->difference,
                        position_text(*said.at_distance));
  return text;
}

}  // namespace

void measure(const SideReading& a, const SideReading& b, const Extents& extents, RuleDifference& rule) {
  if (!rule.of_positions) return;
  Difference& said = rule.said;
  const std::int64_t usual = said.inside ? extents.distance : rule.seen;
  const Measuring m{a, b, extents.at(rule.seen), std::min(usual, said.seen_to.value_or(usual)), rule};
  try {
    if (said.layers.empty()) {
      if (said.site == "embedding") measure_rows(m);
    } else {
      const LayerPositions of_a = layer_plan(a, rule.stack, said.layers.front(), m.extent);
      const LayerPositions of_b = layer_plan(b, rule.stack, said.layers.front(), m.extent);
      if (said.site == "rotation") measure_rotation(m, of_a, of_b);
      if (said.site == "bias") measure_bias(m, of_a, of_b);
      if (said.site == "query_scale") measure_factor(m, of_a, of_b);
    }
  } catch (const SpecError&) {
    // Another mechanism of this layer is refused, which is told as a difference of its own.
  }
  said.message = sentence_of(m) + seen_text(said);
  const bool by_position = said.at_distance && said.what != "axis";
  if (by_position && !said.first_f32) said.inside = false;
}

}  // namespace locant

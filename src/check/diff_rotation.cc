// SPDX-License-Identifier: Apache-2.0
// Rotations that differ: each side's turns are read off its own tensors before and after (or its own tables).
// The first side's ladder of frequencies is the plan, or fitted; the second's turns are explained against it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "check/diff_explain.h"
#include "check/diff_turned.h"
#include "check/explain.h"
#include "check/fitted.h"

namespace locant::check_room {
namespace {

namespace names = trace_names;

constexpr std::int64_t kTokens = 512;
constexpr std::int64_t kMostValues = 8LL << 20;

StackPositions plain_rope(const Suspect& suspect, const Geometry& geometry, std::int64_t head_dim) {
  PositionSpec rope{.mechanism = "rope"};
  rope.set("theta", 10000.0);
  rope.set("head_dim", head_dim);
  rope.set("rotary_dim", geometry.width);
  rope.set("rotary_offset", geometry.offset);
  rope.set("pairing", std::string(name_of(geometry.read)));
  StackPositions positions;
  positions.stack = suspect.pair.want.trace->stack;
  positions.layers.assign(static_cast<std::size_t>(std::max<std::int64_t>(suspect.name.layer, 0)) + 1,
                          {rope});
  return positions;
}

/// A plain ladder with a round base, where one reproduces the turns.
std::optional<Ladder> plain_ladder(const Turns& turns, const CandidateQuery& query, const TokenPositions& due,
                                   const Ladder& shape, DType dtype) {
  const auto fits = [&](const Ladder& ladder) {
    return residual(turns, ladder, due) <= budget(turns, ladder, due, dtype);
  };
  for (Ladder& ladder : fitted_ladders(turns, query, due, shape)) {
    if (ladder.cause != Cause::theta) continue;
    const double theta = ladder.parameters.front().second;
    for (int digits = 1; digits <= 5; ++digits) {
      const double step = std::pow(10.0, std::floor(std::log10(theta)) + 1 - digits);
      std::optional<Ladder> round = changed(query, "theta", std::round(theta / step) * step);
      if (!round || !fits(*round)) continue;
      round->axis.clear();
      round->cause = Cause::theta;
      return round;
    }
    if (fits(ladder)) return ladder;
  }
  return std::nullopt;
}

double theta_of(const Ladder& ladder) {
  for (const auto& [name, value] : ladder.parameters) {
    if (name == "theta") return value;
  }
  return 0;
}

/// What stands where a shift of positions explains: constant, or token by token.
void tell_positions(const Excerpt& excerpt, const TokenPositions& due, const std::vector<std::int64_t>& at,
                    Hypothesis& hypothesis) {
  std::optional<std::int64_t> shift;
  std::size_t first = 0;
  bool constant = true;
  for (std::size_t n = 0; n < at.size(); ++n) {
    const std::int64_t away = at[n] - due.values[n];
    if (!shift && away == 0) continue;
    if (!shift) {
      shift = away;
      first = n;
    }
    constant = constant && away == *shift;
  }
  if (!shift) return;
  const std::int64_t token = excerpt.begin + static_cast<std::int64_t>(first);
  if (constant && first + 1 < at.size()) {
    hypothesis.cause = fmt::format("positions are {} too {} from token {} of row {} on: {} where {} is due",
                                   std::abs(*shift), *shift > 0 ? "high" : "low", token, excerpt.row,
                                   at[first], due.values[first]);
  } else {
    hypothesis.cause = fmt::format("token {} of row {} stands at position {} where {} is due", token,
                                   excerpt.row, at[first], due.values[first]);
  }
  hypothesis.parameters = {{"shift", static_cast<double>(*shift)}};
}

/// Turns of both sides under one geometry, and where the first side's ladder comes from.
struct Both {
  const Suspect& suspect;
  const Excerpt& excerpt;
  const Turns& want;
  const Turns& got;
  Geometry geometry;
  std::int64_t head_dim = 0;
  bool table = false;
};

const StackPositions* positions_of_spec(const Suspect& suspect) {
  if (suspect.spec == nullptr) return nullptr;
  const Stack stack = suspect.pair.want.trace->stack;
  if (suspect.spec->positions.stack == stack || suspect.spec->others.empty()) return &suspect.spec->positions;
  for (const StackSpec& other : suspect.spec->others) {
    if (other.positions.stack == stack) return &other.positions;
  }
  return nullptr;
}

void add_amplitude(const Both& both, std::vector<Hypothesis>& causes) {
  const AmplitudeFit want = fit_amplitude(both.want);
  const AmplitudeFit got = fit_amplitude(both.got);
  const double allowed = 6 * half_step(both.suspect.dtype);
  if (std::abs(got.mean - want.mean) <= allowed * want.mean) return;
  // what is left once the second's factors are brought to the first's length
  double left = 0;
  double total = 0;
  for (std::size_t i = 0; i < both.got.factor.size(); ++i) {
    const double weight = both.got.weight[i];
    left += weight * std::norm(both.got.factor[i] * (want.mean / got.mean) - both.want.factor[i]);
    total += weight * std::norm(both.want.factor[i]);
  }
  causes.push_back({fmt::format("the amplitude is {:.6g} where {:.6g} is due", got.mean, want.mean),
                    {{"amplitude", got.mean}},
                    total > 0 ? std::sqrt(left / total) : 0,
                    allowed});
}

/// One token tells no frequencies, but a whole number of times.
void add_times(const Both& both, std::vector<Hypothesis>& causes) {
  const auto left_by = [&](auto expected) {
    double left = 0;
    double total = 0;
    for (std::size_t i = 0; i < both.got.factor.size(); ++i) {
      const double weight = both.got.weight[i] * std::norm(both.got.factor[i]);
      const std::complex<double> is = both.got.factor[i] / std::max(std::abs(both.got.factor[i]), 0x1p-1000);
      const std::complex<double> due =
          both.want.factor[i] / std::max(std::abs(both.want.factor[i]), 0x1p-1000);
      left += weight * std::norm(is - expected(due));
      total += weight;
    }
    return total > 0 ? std::sqrt(left / total) : 0;
  };
  using C = std::complex<double>;
  const double allowed = 12 * half_step(both.suspect.dtype);
  causes.push_back({"no rotation is applied", {}, left_by([](C) { return C(1, 0); }), allowed});
  causes.push_back({"the rotation is applied twice, or positions are doubled",
                    {},
                    left_by([](C due) { return due * due; }),
                    allowed});
  causes.push_back(
      {"the rotation turns the other way", {}, left_by([](C due) { return std::conj(due); }), allowed});
}

void add_verdict(const Both& both, const CandidateQuery& query, const Rotation& planned, const Ladder* plain,
                 std::vector<Hypothesis>& causes) {
  const TokenPositions due = positions_of(both.got, both.excerpt.pass, both.excerpt.pass.due, 1);
  const DType dtype = both.suspect.dtype;
  const Verdict verdict = explain({.turns = both.got,
                                   .query = query,
                                   .planned = planned,
                                   .due = due,
                                   .dtype = dtype,
                                   // of a decoded token the rotation of the prompt is known to be there
                                   .turned_before = both.suspect.first.step > 0,
                                   .table = both.table});
  if (verdict.fine) return;
  const std::optional<Ladder> other =
      plain == nullptr ? std::nullopt : plain_ladder(both.got, query, due, ladder_of(planned), dtype);
  if (other && theta_of(*other) != theta_of(*plain)) {
    causes.push_back({fmt::format("theta is {:.6g} where {:.6g} is due", theta_of(*other), theta_of(*plain)),
                      {{"theta", theta_of(*other)}},
                      residual(both.got, *other, due),
                      budget(both.got, *other, due, dtype)});
  }
  bool leading = true;
  for (const Hypothesis& one : verdict.hypotheses) {
    if (other && one.cause.starts_with("a plain ladder")) continue;  // said above with both bases
    Hypothesis told = one;
    if (leading && verdict.positions) tell_positions(both.excerpt, due, *verdict.positions, told);
    if (told.cause == "as planned") told.cause = "as the other trace turns";
    causes.push_back(std::move(told));
    leading = false;
  }
}

std::vector<Hypothesis> ladder_causes(const Both& both) {
  std::vector<Hypothesis> causes;
  const Suspect& suspect = both.suspect;
  add_amplitude(both, causes);
  const TokenPositions due = positions_of(both.want, both.excerpt.pass, both.excerpt.pass.due, 1);
  const StackPositions* const stated = positions_of_spec(suspect);
  const std::int64_t layer = std::max<std::int64_t>(suspect.name.layer, 0);
  if (stated != nullptr) {
    const PositionSpec* const spec = rotation_spec(*stated, layer);
    const std::optional<Rotation> planned =
        spec == nullptr ? std::nullopt
                        : rotation_of(*spec, *suspect.recipe, {.seen = both.excerpt.pass.seen});
    if (planned && planned->inv_freq.size() == static_cast<std::size_t>(both.want.pairs) &&
        planned->axis.empty()) {
      const CandidateQuery query{*stated, *suspect.recipe, layer, both.excerpt.pass.seen,
                                 suspect.spec->lengths.configured.value_or(0)};
      const Ladder ladder = ladder_of(*planned);
      if (residual(both.want, ladder, due) <= budget(both.want, ladder, due, suspect.dtype)) {
        Ladder base = ladder;
        base.parameters = {{"theta", spec->number("theta").value_or(0)}};
        const bool plain = spec->mechanism == "rope" && theta_of(base) > 0;
        add_verdict(both, query, *planned, plain ? &base : nullptr, causes);
        return causes;
      }
    }
  }
  const StackPositions rope = plain_rope(suspect, both.geometry, both.head_dim);
  const CandidateQuery query{rope, *suspect.recipe, layer, both.excerpt.pass.seen, 0};
  std::optional<Rotation> planned = rotation_of(rope.layers[static_cast<std::size_t>(layer)].front(),
                                                *suspect.recipe, {.seen = both.excerpt.pass.seen});
  const std::vector<double> inv_freq = fit_frequencies(both.want, due);
  if (!planned || inv_freq.empty()) {
    add_times(both, causes);
    return causes;
  }
  const std::optional<Ladder> plain = plain_ladder(both.want, query, due, ladder_of(*planned), suspect.dtype);
  planned->inv_freq = plain ? plain->inv_freq : inv_freq;
  planned->amplitude = fit_amplitude(both.want).mean;
  // the plan of a round base is what its candidates are changed from
  StackPositions based = rope;
  if (plain) based.layers[static_cast<std::size_t>(layer)].front().set("theta", theta_of(*plain));
  const CandidateQuery from{based, *suspect.recipe, layer, both.excerpt.pass.seen, 0};
  add_verdict(both, from, *planned, plain ? &*plain : nullptr, causes);
  return causes;
}

std::vector<Hypothesis> tensor_causes(const Suspect& suspect, const Excerpt& excerpt, std::string_view word) {
  const std::optional<Turned> turned = read_turned(suspect, excerpt, word);
  if (!turned) return {};
  const double allowed = misfit_budget(suspect.dtype) * (suspect.dtype == DType::bf16 ? 2 : 1);
  if (stands(turned->want, allowed) != stands(turned->got, allowed)) {
    const bool missing = stands(turned->got, allowed);
    return {{missing ? "no rotation is applied" : "a rotation is applied where none is due", {}, 0, allowed}};
  }
  std::optional<Geometry> want = geometry_seen(turned->want, allowed);
  std::optional<Geometry> got = geometry_seen(turned->got, allowed);
  if (!want && word == "k") {
    // one head of keys leaves the pairing open, queries tell it
    if (const std::optional<Turned> q = read_turned(suspect, excerpt, "q"))
      want = geometry_seen(q->want, allowed);
  }
  const std::int64_t head_dim = turned->want.before.extent(3);
  if (!want && turned->want.before.extent(2) < 2)
    want = Geometry{Pairing::half, Pairing::half, 0, head_dim - head_dim % 2, 0};
  if (!want) return {};
  const Turns want_turns = turns_of(excerpt.pass, turned->want.before, turned->want.after, *want);
  const Turns got_turns = turns_of(excerpt.pass, turned->got.before, turned->got.after, *want);
  if (got_turns.misfit > allowed) {
    if (got) {
      const Turns own = turns_of(excerpt.pass, turned->got.before, turned->got.after, *got);
      return {{fmt::format("{} where {} are due", geometry_text(*got), geometry_text(*want)),
               {},
               own.misfit,
               allowed},
              {geometry_text(*want), {}, got_turns.misfit, allowed}};
    }
    Rotation planned;
    planned.read = want->read;
    planned.write = want->write;
    planned.head_dim = head_dim;
    planned.offset = want->offset;
    planned.width = want->width;
    const TokenPositions due = positions_of(want_turns, excerpt.pass, excerpt.pass.due, 1);
    planned.inv_freq = fit_frequencies(want_turns, due);
    std::vector<Hypothesis> causes;
    if (!planned.inv_freq.empty()) {
      const bool half = want->read == Pairing::half;
      const double left =
          crossed_residual(excerpt.pass, turned->got, planned, ladder_of(planned), excerpt.pass.due);
      const double rounding = 2 * allowed + budget(want_turns, ladder_of(planned), due, suspect.dtype);
      causes.push_back({fmt::format("cos and sin are laid out for {} pairs, the rotation takes {} pairs",
                                    half ? "interleaved" : "half", half ? "half" : "interleaved"),
                        {},
                        left,
                        rounding});
    }
    causes.push_back({"what happens to the tensor is no rotation of pairs that its heads share",
                      {},
                      got_turns.misfit,
                      allowed});
    return causes;
  }
  return ladder_causes({suspect, excerpt, want_turns, got_turns, *want, head_dim, false});
}

/// Without what came in: the second is the first, turned further.
std::vector<Hypothesis> further_causes(const Suspect& suspect, const Excerpt& excerpt) {
  std::optional<Values> want = values_in(suspect.pair.want, excerpt, suspect.name, {});
  std::optional<Values> got =
      values_in(suspect.pair.got, excerpt, suspect.name, suspect.comparer.order_of(suspect.name));
  if (!want || !got || want->shape.size() != 4 || want->shape != got->shape) return {};
  const Tensor tensor{"", suspect.name.bare, std::move(*want), std::move(*got)};
  const double allowed = misfit_budget(suspect.dtype) * (suspect.dtype == DType::bf16 ? 4 : 2);
  const std::optional<Geometry> geometry = geometry_seen(tensor, allowed);
  if (!geometry) return {};
  const Turns turns = turns_of(excerpt.pass, tensor.before, tensor.after, *geometry);
  const StackPositions* const stated = positions_of_spec(suspect);
  const PositionSpec* const spec = stated == nullptr ? nullptr : rotation_spec(*stated, suspect.name.layer);
  const std::optional<Rotation> planned =
      spec == nullptr ? std::nullopt : rotation_of(*spec, *suspect.recipe, {.seen = excerpt.pass.seen});
  if (planned && planned->axis.empty() && planned->inv_freq.size() == static_cast<std::size_t>(turns.pairs)) {
    const TokenPositions none{1, std::vector<std::int64_t>(turns.count(), 0)};
    const Ladder ladder = ladder_of(*planned);
    if (const auto shifts = fit_positions(turns, ladder, none, suspect.dtype)) {
      const TokenPositions at{1, *shifts};
      Hypothesis moved{"", {}, residual(turns, ladder, at), budget(turns, ladder, at, suspect.dtype)};
      std::vector<std::int64_t> where = excerpt.pass.due;
      for (std::size_t n = 0; n < where.size(); ++n) where[n] += (*shifts)[n];
      tell_positions(excerpt, {1, excerpt.pass.due}, where, moved);
      if (!moved.cause.empty()) return {moved};
    }
  }
  return {
      {fmt::format(
           "the second is the first turned further, {}: other positions or frequencies ({}_pre would tell)",
           geometry_text(*geometry), suspect.name.part.substr(0, 1)),
       {},
       turns.misfit,
       allowed}};
}

std::vector<Hypothesis> table_causes(const Suspect& suspect, const Excerpt& excerpt) {
  const std::string stem = suspect.name.bare.substr(0, suspect.name.bare.size() - 3);
  const FlowName cos = flow_of(stem + "cos");
  const FlowName sin = flow_of(stem + "sin");
  const auto turns = [&](const Side& side) -> std::optional<Turns> {
    const std::optional<Values> c = table_in(side, excerpt, cos);
    const std::optional<Values> s = table_in(side, excerpt, sin);
    if (!c || !s || c->shape != s->shape) return std::nullopt;
    std::vector<Turns> all = turns_of_tables(excerpt.pass, *c, *s, c->extent(2));
    if (all.empty()) return std::nullopt;
    return std::move(all.front());
  };
  const std::optional<Turns> want = turns(suspect.pair.want);
  const std::optional<Turns> got = turns(suspect.pair.got);
  if (!want || !got || want->pairs != got->pairs) return {};
  const Geometry geometry{Pairing::half, Pairing::half, 0, 2 * want->pairs, 0};
  return ladder_causes({suspect, excerpt, *want, *got, geometry, 2 * want->pairs, true});
}

}  // namespace

std::vector<Hypothesis> rotation_causes(const Suspect& suspect) {
  const bool table = suspect.name.axes == Axes::table;
  const std::string& part = suspect.name.part;
  const bool q = part == "q" || part == "q_in";
  const bool k = part == "k" || part == "k_in" || part == "cache.k";
  if (!table && !q && !k) return {};
  const Pass& of = suspect.pair.want.pass(suspect.pass);
  const TensorRef tensor = of.find(suspect.name.bare);
  const std::int64_t width =
      std::max<std::int64_t>(1, tensor.size() / std::max<std::int64_t>(1, of.rows * of.tokens));
  const Excerpt excerpt = excerpt_of(suspect, std::clamp<std::int64_t>(kMostValues / width, 2, kTokens));
  if (excerpt.count() == 0) return {};
  if (table) return table_causes(suspect, excerpt);
  std::vector<Hypothesis> causes = tensor_causes(suspect, excerpt, q ? "q" : "k");
  if (causes.empty() && part != "cache.k") causes = further_causes(suspect, excerpt);
  return causes;
}

}  // namespace locant::check_room

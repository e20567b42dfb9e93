// SPDX-License-Identifier: Apache-2.0
// T: recorded cos and sin tables against the plan: base, scaling, rounding, junk, amplitude, rows that
// repeat.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "check/book.h"
#include "check/curves.h"
#include "check/explain.h"
#include "check/rotation_report.h"

namespace locant::check_room {
namespace {

namespace names = trace_names;

struct RepeatedRows {
  std::int64_t equal = 0;
  std::int64_t neighbours = 0;
  std::int64_t first = -1;  ///< position of the first row that equals the one before
};

/// Neighbouring positions that share all their angles.
RepeatedRows repeated_rows(const Turns& turns, const TokenPositions& due) {
  RepeatedRows rows;
  for (std::size_t n = 1; n < turns.count(); ++n) {
    if (turns.row[n] != turns.row[n - 1] || due.values[n] != due.values[n - 1] + 1) continue;
    ++rows.neighbours;
    bool same = true;
    for (std::int64_t p = 0; p < turns.pairs && same; ++p) same = turns.at(n, p) == turns.at(n - 1, p);
    if (!same) continue;
    ++rows.equal;
    if (rows.first < 0) rows.first = due.values[n - 1];
  }
  return rows;
}

class TableRules {
 public:
  TableRules(const Evidence& evidence, Book& book) : evidence_(evidence), book_(book) {}

  void run() {
    for (const auto& trace : evidence_.traces) {
      const StackPositions* const positions = evidence_.positions(*trace);
      if (positions == nullptr) continue;
      for (const Pass& pass : trace->passes) {
        for (const std::string& name : trace->reader.names()) {
          if (!name.starts_with(pass.prefix + "rope.") || !name.ends_with("cos")) continue;
          check_table(*trace, pass, *positions, name);
        }
      }
    }
  }

 private:
  /// The first layer that turns as the table of that kind does: the one whose plan fits it best.
  void check_table(const Trace& trace, const Pass& pass, const StackPositions& positions,
                   const std::string& name) {
    const std::string sine = name.substr(0, name.size() - 3) + "sin";
    const TensorRef cos = recorded(trace.reader, name);
    const TensorRef sin = recorded(trace.reader, sine);
    if (cos.data == nullptr || sin.data == nullptr || pass.due.empty()) return;
    const Values cos_values = values_of(cos, trace.path + ": " + name);
    const Values sin_values = values_of(sin, trace.path + ": " + sine);
    for (const std::string_view rule : {"T101", "T102", "T103", "T104", "T105"}) book_.asked(rule);
    if (report_not_finite(trace, pass, name, cos_values, sin_values)) return;
    const std::optional<Plan>& plan = pass.plan;
    const std::string bare = name.substr(pass.prefix.size());
    std::optional<Verdict> best;
    Turns best_turns;
    const Rotation* best_plan = nullptr;
    for (std::size_t kind = 0; kind < plan->kinds.size(); ++kind) {
      const std::optional<Rotation>& planned = plan->kinds[kind].rotation;
      if (!planned) continue;
      const auto layer =
          std::find(plan->layers.begin(), plan->layers.end(), static_cast<std::int64_t>(kind)) -
          plan->layers.begin();
      std::vector<Turns> all = turns_of_tables(pass, cos_values, sin_values, planned->width / 2);
      if (all.empty()) continue;
      // Several axes: each is the table of one; the first carries time.
      Turns turns = std::move(all.front());
      Rotation own = *planned;
      if (all.size() > 1) own.axis.clear();
      // A direction may sit in the sine or in how it is applied, which a table does not show.
      if (own.sign < 0 && !turns_back(turns)) own.sign = 1;
      const CandidateQuery query{positions, *evidence_.recipe, layer, pass.seen,
                                 evidence_.spec->lengths.configured.value_or(0)};
      const TokenPositions due = positions_of(turns, pass, pass.due, pass.axes);
      std::optional<TokenPositions> stated;
      if (pass.stated_axes > 0) stated = positions_of(turns, pass, pass.stated, pass.stated_axes);
      Verdict verdict = explain({.turns = turns,
                                 .query = query,
                                 .planned = own,
                                 .due = due,
                                 .dtype = cos.dtype,
                                 .stated = stated ? &*stated : nullptr,
                                 .found = book_.found_in(trace),
                                 .turned_before = turned_.contains(bare),
                                 .table = true});
      if (best && rank(verdict) <= rank(*best)) continue;
      best = std::move(verdict);
      best_turns = std::move(turns);
      best_plan = &*planned;
      if (best->fine) break;
    }
    if (!best) return;
    if (best->ladder && best->ladder->cause != Cause::planned) book_.found(trace, *best->ladder);
    if (best->tells && (best->fine || best->as_stated || best->positions)) turned_.insert(bare);
    judge(trace, pass, name, *best, best_turns, *best_plan);
  }

  /// Of several kinds of layers a table belongs to the one that explains it most simply.
  static int rank(const Verdict& verdict) {
    if (verdict.fine) return 4;
    if (verdict.as_stated) return 3;
    if (!verdict.ladder) return 0;
    return verdict.ladder->cause == Cause::planned ? 2 : 1;
  }

  /// Of content alone: rows of padding may hold anything.
  static std::int64_t not_finite(const Pass& pass, const Values& table) {
    const std::size_t rank = table.shape.size();
    if (rank < 2 || table.shape[rank - 2] != pass.tokens) return 0;
    const auto columns = static_cast<std::size_t>(table.shape[rank - 1]);
    const auto tokens = static_cast<std::size_t>(pass.tokens);
    const bool by_row = rank > 2 && table.shape[rank - 3] == pass.rows;
    std::int64_t count = 0;
    for (std::size_t i = 0; i < table.data.size(); ++i) {
      const std::size_t line = i / columns;
      const std::size_t row = by_row ? line / tokens % static_cast<std::size_t>(pass.rows) : 0;
      if (!by_row || pass.content[row * tokens + line % tokens])
        count += std::isfinite(table.data[i]) ? 0 : 1;
    }
    return count;
  }

  bool report_not_finite(const Trace& trace, const Pass& pass, const std::string& name, const Values& cos,
                         const Values& sin) {
    const std::int64_t count = not_finite(pass, cos) + not_finite(pass, sin);
    if (count == 0) return false;
    if (!once("T104", "not finite")) return true;
    Finding finding;
    finding.message = fmt::format("{}: {} numbers of cos and sin are not finite", name, count);
    finding.where.file = trace.path;
    finding.where.tensor = name;
    finding.where.step = pass.step;
    finding.expected = 0.0;
    finding.observed = static_cast<double>(count);
    book_.add("T104", Depth::tables, std::move(finding), "not finite");
    return true;
  }

  void judge(const Trace& trace, const Pass& pass, const std::string& name, const Verdict& verdict,
             const Turns& turns, const Rotation& plan) {
    const Ladder planned = ladder_of(plan);
    Place where;
    where.file = trace.path;
    where.tensor = name;
    where.step = pass.step;
    const TokenPositions due = positions_of(turns, pass, pass.due, pass.axes);
    const AmplitudeFit amplitude = fit_amplitude(turns);
    const double allowed = 6 * unit_roundoff(recorded(trace.reader, name).dtype);
    const std::string bare = name.substr(pass.prefix.size());
    if (std::abs(amplitude.mean - plan.amplitude) > allowed * plan.amplitude && once("T105", bare)) {
      // a schedule that is not applied takes its amplitude along
      const bool with_schedule = verdict.ladder && verdict.ladder->cause != Cause::planned &&
                                 std::abs(amplitude.mean - 1) <= allowed;
      Finding finding;
      finding.message = fmt::format("{}: the amplitude is {:.5g} where {:.5g} is due", name, amplitude.mean,
                                    plan.amplitude);
      finding.where = where;
      finding.expected = plan.amplitude;
      finding.observed = amplitude.mean;
      finding.hypotheses = {
          {"an amplitude of its own", {{"amplitude", amplitude.mean}}, amplitude.spread, allowed}};
      finding.curves = {amplitude_curve(name, turns, plan.amplitude)};
      book_.add("T105", with_schedule ? Depth::rotation : Depth::tables, std::move(finding),
                with_schedule ? verdict.ladder->text : "amplitude");
    }
    if (verdict.tells && (verdict.fine || verdict.as_stated || verdict.positions))
      observe(trace, pass, name, turns, verdict);
    if (verdict.fine || verdict.as_stated) return;
    if (verdict.positions && verdict.ladder && verdict.ladder->cause == Cause::planned) return;
    Finding finding;
    finding.where = where;
    finding.hypotheses = verdict.hypotheses;
    finding.curves = turn_curves(name, turns, planned, due);
    std::string rule = "T104";
    std::string cause = "pairs turn, but by no known ladder of frequencies and at no whole positions";
    if (verdict.ladder) {
      rule = table_rule(verdict.ladder->cause);
      cause = verdict.ladder->text;
      const Numbers numbers = numbers_of(planned, *verdict.ladder);
      finding.message = fmt::format("{}: {}{}", name, cause, numbers.text.empty() ? "" : "; " + numbers.text);
      finding.expected = numbers.expected;
      finding.observed = numbers.observed;
    } else {
      finding.message = fmt::format(
          "{}: no ladder of frequencies and no whole positions give these numbers; the "
          "plan leaves {:.3g} of them unexplained",
          name, verdict.hypotheses.empty() ? 0 : verdict.hypotheses.front().residual);
    }
    if (pass.axes == 1) {
      const RepeatedRows rows = repeated_rows(turns, due);
      if (rows.equal > 0) {
        finding.message += fmt::format("; from position {} on neighbours share a row, {} of {} do",
                                       rows.first, rows.equal, rows.neighbours);
      }
    }
    if (once(rule, bare + cause)) book_.add(rule, Depth::tables, std::move(finding), cause);
  }

  void observe(const Trace& trace, const Pass& pass, const std::string& name, const Turns& turns,
               const Verdict& verdict) {
    Observation seen;
    seen.source = name.substr(pass.prefix.size());
    seen.tensor = name;
    seen.trace = &trace;
    seen.pass = &pass;
    if (verdict.fine) {
      seen.axes = pass.axes;
      seen.positions = pass.due;
    } else if (verdict.as_stated) {
      seen.axes = pass.stated_axes;
      seen.positions = pass.stated;
    } else {
      seen.axes = 1;
      seen.positions.assign(pass.due.size(), kUnknown);
      for (std::size_t n = 0; n < turns.count(); ++n)
        seen.positions[pass.at(turns.row[n], turns.token[n])] = (*verdict.positions)[n];
    }
    book_.observe(std::move(seen));
  }

  /// Later passes that show the same again add nothing.
  bool once(const std::string& rule, const std::string& what) { return said_.insert(rule + what).second; }

  const Evidence& evidence_;
  Book& book_;
  std::set<std::string> said_;
  std::set<std::string> turned_;  ///< tables that turned as planned in a pass
};

}  // namespace

void check_tables(const Evidence& evidence, Book& book) {
  if (evidence.spec == nullptr) return;
  TableRules(evidence, book).run();
}

}  // namespace locant::check_room

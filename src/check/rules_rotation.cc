// SPDX-License-Identifier: Apache-2.0
// R: what q and k before and after the rotation say about pairing, width, frequencies, amplitude, positions.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "check/book.h"
#include "check/curves.h"
#include "check/explain.h"
#include "check/rotation_report.h"
#include "check/rotation_tensors.h"

namespace locant::check_room {
namespace {

namespace names = trace_names;
using names::Layer;

class RotationRules {
 public:
  RotationRules(const Evidence& evidence, Book& book) : evidence_(evidence), book_(book) {}

  void run() {
    for (const auto& trace : evidence_.traces) {
      const StackPositions* const positions = evidence_.positions(*trace);
      if (positions == nullptr) continue;
      for (const Pass& pass : trace->passes) check_pass(*trace, pass, *positions);
    }
    report();
  }

 private:
  void check_pass(const Trace& trace, const Pass& pass, const StackPositions& positions) {
    const std::optional<Plan>& plan = pass.plan;
    for (std::size_t layer = 0; layer < plan->layers.size(); ++layer) {
      const LayerPositions& kind = plan->kinds[static_cast<std::size_t>(plan->layers[layer])];
      const auto index = static_cast<std::int64_t>(layer);
      if (kind.rotation) {
        check_layer(trace, pass, positions, index, *kind.rotation);
      } else {
        check_still(trace, pass, index);
      }
    }
  }

  /// A layer without rotation: q and k pass unchanged.
  void check_still(const Trace& trace, const Pass& pass, std::int64_t layer) {
    const TensorRef shape = pass.find(names::layer(layer, Layer::q));
    if (shape.data == nullptr || shape.rank != 4) return;
    const std::optional<Tensor> q = read_tensor(pass, layer, Layer::q_pre, Layer::q, "q", shape.shape[3]);
    if (!q) return;
    book_.asked("R110");
    double left = 0;
    double total = 0;
    for (std::size_t i = 0; i < q->after.data.size(); ++i) {
      const double change = static_cast<double>(q->after.data[i]) - static_cast<double>(q->before.data[i]);
      left += change * change;
      total += static_cast<double>(q->before.data[i]) * static_cast<double>(q->before.data[i]);
    }
    const double residual = total > 0 ? std::sqrt(left / total) : 0;
    // a factor on the whole of q is a temperature, not a rotation
    if (residual <= misfit_budget(trace.dtype)) return;
    Deviation deviation;
    deviation.rule = "R110";
    deviation.text = "q is rotated in a layer that marks no positions";
    deviation.cause = deviation.text;
    deviation.where = place(trace, pass, layer, q->name);
    deviation.numbers = {0.0, residual, fmt::format("q changes by {:.3g} of its length", residual)};
    collected_.add(std::move(deviation), layer, pass.step, "q");
  }

  static Place place(const Trace& trace, const Pass& pass, std::int64_t layer, const std::string& tensor) {
    Place where;
    where.file = trace.path;
    where.tensor = tensor;
    where.layer = layer;
    where.step = pass.step;
    return where;
  }

  void check_layer(const Trace& trace, const Pass& pass, const StackPositions& positions, std::int64_t layer,
                   const Rotation& planned) {
    if (pass.due.empty()) return;
    std::vector<Tensor> tensors;
    if (planned.acts_on.q) {
      if (auto q = read_tensor(pass, layer, Layer::q_pre, Layer::q, "q", planned.head_dim))
        tensors.push_back(std::move(*q));
    }
    if (planned.acts_on.k) {
      if (auto k = read_tensor(pass, layer, Layer::k_pre, Layer::k, "k", planned.head_dim))
        tensors.push_back(std::move(*k));
    }
    if (tensors.empty()) return;
    std::vector<std::optional<Verdict>> verdicts;
    for (const Tensor& tensor : tensors) {
      if (report_not_finite(trace, pass, layer, tensor) ||
          report_unwritten(trace, pass, layer, planned, tensor)) {
        verdicts.emplace_back();
        continue;
      }
      verdicts.push_back(judge(trace, pass, positions, layer, planned, tensor));
    }
    if (verdicts.size() == 2 && verdicts[0] && verdicts[1]) compare(trace, pass, layer, tensors, verdicts);
  }

  bool report_not_finite(const Trace& trace, const Pass& pass, std::int64_t layer, const Tensor& tensor) {
    const std::int64_t before = not_finite(pass, tensor.before);
    const std::int64_t after = not_finite(pass, tensor.after);
    if (before + after == 0) return false;
    if (before > 0) return true;  // it came in so: another matter
    Deviation deviation;
    deviation.rule = "R111";
    deviation.text = "numbers are not finite after the rotation";
    deviation.cause = "not finite";
    deviation.where = place(trace, pass, layer, tensor.name);
    deviation.numbers = {0.0, static_cast<double>(after), ""};
    collected_.add(std::move(deviation), layer, pass.step, tensor.word);
    return true;
  }

  /// Rows that the rotation left as zeros.
  bool report_unwritten(const Trace& trace, const Pass& pass, std::int64_t layer, const Rotation& planned,
                        const Tensor& tensor) {
    const std::vector<std::int64_t> rows = unwritten_rows(pass, planned, tensor);
    if (rows.empty()) return false;
    Deviation deviation;
    deviation.rule = "R104";
    deviation.text = fmt::format("row {} is not written: all of it is 0", fmt::join(rows, ", "));
    deviation.cause = deviation.text;
    deviation.where = place(trace, pass, layer, tensor.name);
    deviation.where.row = rows.front();
    deviation.numbers = {0.0, static_cast<double>(rows.size()), ""};
    collected_.add(std::move(deviation), layer, pass.step, tensor.word);
    return true;
  }

  /// Nothing when the tensor is no rotation under any geometry; that is reported here.
  std::optional<Verdict> judge(const Trace& trace, const Pass& pass, const StackPositions& positions,
                               std::int64_t layer, const Rotation& planned, const Tensor& tensor) {
    for (const std::string_view rule : {"R101", "R102", "R111"}) book_.asked(rule);
    Geometry geometry = geometry_of(planned);
    Turns turns = turns_of(pass, tensor.before, tensor.after, geometry);
    TokenPositions due = positions_of(turns, pass, pass.due, pass.axes);
    if (turns.misfit > misfit_budget(trace.dtype)) {
      other_geometry(trace, pass, layer, planned, tensor, turns, due);
      return std::nullopt;
    }
    std::optional<TokenPositions> stated;
    if (pass.stated_axes > 0) stated = positions_of(turns, pass, pass.stated, pass.stated_axes);
    const CandidateQuery query{positions, *evidence_.recipe, layer, pass.seen,
                               evidence_.spec->lengths.configured.value_or(0)};
    const std::string source = fmt::format("{} of layer {}", tensor.word, layer);
    Verdict verdict = explain({.turns = turns,
                               .query = query,
                               .planned = planned,
                               .due = due,
                               .dtype = trace.dtype,
                               .stated = stated ? &*stated : nullptr,
                               .elsewhere = elsewhere(trace, pass, turns),
                               .found = book_.found_in(trace),
                               .turned_before = turned_.contains(source)});
    if (verdict.ladder && verdict.ladder->cause != Cause::planned) book_.found(trace, *verdict.ladder);
    if (verdict.tells && (verdict.fine || verdict.as_stated || verdict.positions)) turned_.insert(source);
    const auto heads = tensor.before.extent(2);
    if (heads == 1 && !verdict.fine && !verdict.ladder) {
      if (other_geometry(trace, pass, layer, planned, tensor, turns, due)) return std::nullopt;
    }
    if (verdict.tells) {
      for (const std::string_view rule : {"R102", "R103", "R104", "R105", "R106", "R107", "R110", "R112"})
        book_.asked(rule);
      if (!planned.axis.empty()) book_.asked("R113");
    }
    judge_amplitude(trace, pass, layer, planned, turns, tensor, verdict);
    observe(trace, pass, layer, turns, tensor, verdict);
    const bool moved = verdict.as_stated || verdict.positions;
    const bool another = verdict.ladder && verdict.ladder->cause != Cause::planned;
    if (!verdict.fine && (!moved || another))
      report_ladder(trace, pass, layer, ladder_of(planned), tensor, verdict,
                    turn_curves(source, turns, ladder_of(planned), due));
    return verdict;
  }

  /// Positions that the tables of this pass turned out to stand for.
  std::vector<TokenPositions> elsewhere(const Trace& trace, const Pass& pass, const Turns& turns) const {
    std::vector<TokenPositions> all;
    for (const Observation& seen : book_.observations()) {
      if (seen.trace != &trace || seen.pass != &pass || seen.layer >= 0 || seen.positions == pass.due)
        continue;
      all.push_back(positions_of(turns, pass, seen.positions, seen.axes));
    }
    return all;
  }

  bool other_geometry(const Trace& trace, const Pass& pass, std::int64_t layer, const Rotation& planned,
                      const Tensor& tensor, const Turns& own, const TokenPositions& own_due) {
    const Ladder ladder = ladder_of(planned);
    Deviation deviation;
    deviation.where = place(trace, pass, layer, tensor.name);
    deviation.curves = turn_curves(fmt::format("{} of layer {}, paired as planned", tensor.word, layer), own,
                                   ladder, own_due);
    const double allowed = misfit_budget(trace.dtype);
    const Geometry due_geometry = geometry_of(planned);
    const auto heads = tensor.before.extent(2);
    for (const Geometry& geometry : geometries(planned)) {
      const Turns turns = turns_of(pass, tensor.before, tensor.after, geometry);
      if (turns.misfit > allowed) continue;
      if (heads == 1) {  // any pairing solves one head: only the planned ladder tells
        if (geometry.width != planned.width) continue;
        const TokenPositions due = positions_of(turns, pass, pass.due, pass.axes);
        if (residual(turns, ladder, due) > budget(turns, ladder, due, trace.dtype)) continue;
      }
      const bool pairing = geometry.read != due_geometry.read && geometry.width == due_geometry.width;
      deviation.rule = pairing ? "R101" : "R102";
      deviation.text =
          fmt::format("{} where {} are due", geometry_text(geometry), geometry_text(due_geometry));
      deviation.cause = deviation.text;
      if (geometry.span > 0) {
        deviation.numbers = {static_cast<double>(planned.width) / 2, static_cast<double>(geometry.span), ""};
      } else if (pairing) {
        deviation.numbers = {std::string(name_of(due_geometry.read)), std::string(name_of(geometry.read)),
                             ""};
      } else {
        deviation.numbers = {static_cast<double>(due_geometry.width), static_cast<double>(geometry.width),
                             ""};
      }
      deviation.hypotheses = {{geometry_text(geometry), {}, turns.misfit, allowed},
                              {geometry_text(due_geometry), {}, own.misfit, allowed}};
      collected_.add(std::move(deviation), layer, pass.step, tensor.word);
      return true;
    }
    const double crossed = crossed_residual(pass, tensor, planned, ladder, pass.due);
    if (crossed <= 2 * allowed + budget_of_angles(pass, ladder)) {
      const bool half = planned.read == Pairing::half;
      deviation.rule = "R101";
      deviation.text = fmt::format("cos and sin are laid out for {} pairs, the rotation takes {} pairs",
                                   half ? "interleaved" : "half", half ? "half" : "interleaved");
      deviation.numbers = {std::string(name_of(planned.read)),
                           std::string(half ? "interleaved table" : "half table"), ""};
      deviation.hypotheses = {{deviation.text, {}, crossed, allowed},
                              {"as planned", {}, own.misfit, allowed}};
    } else {
      deviation.rule = "R111";
      deviation.text = "what happens to the tensor is no rotation of pairs that its heads share";
      deviation.numbers = {0.0, own.misfit,
                           fmt::format("{:.3g} of its length is left unexplained", own.misfit)};
      deviation.hypotheses = {{"as planned", {}, own.misfit, allowed}};
    }
    deviation.cause = deviation.text;
    collected_.add(std::move(deviation), layer, pass.step, tensor.word);
    return true;
  }

  void judge_amplitude(const Trace& trace, const Pass& pass, std::int64_t layer, const Rotation& planned,
                       const Turns& turns, const Tensor& tensor, const Verdict& verdict) {
    book_.asked("R108");
    const AmplitudeFit fit = fit_amplitude(turns);
    const double allowed = 6 * unit_roundoff(trace.dtype);
    if (std::abs(fit.mean - planned.amplitude) <= allowed * planned.amplitude) return;
    const double squared = planned.amplitude * planned.amplitude;
    const bool twice = verdict.ladder && verdict.ladder->cause == Cause::twice;
    if (twice && std::abs(fit.mean - squared) <= allowed * squared) return;  // one cause: applied twice
    Deviation deviation;
    deviation.rule = "R108";
    deviation.where = place(trace, pass, layer, tensor.name);
    std::string why = "no known cause";
    if (std::abs(fit.mean - 1) <= allowed) why = "the amplitude is not applied";
    if (std::abs(fit.mean - squared) <= allowed * squared) why = "the amplitude is applied twice";
    for (const Recipe& recipe : recipes()) {
      const PositionSpec* const spec = rotation_spec(*evidence_.positions(trace), layer);
      if (spec == nullptr || why != "no known cause") break;
      const std::optional<Rotation> rotation = rotation_of(*spec, recipe, {.seen = pass.seen});
      if (rotation && std::abs(fit.mean - rotation->amplitude) <= allowed * fit.mean)
        why = fmt::format("this is what {} does", recipe.name);
    }
    deviation.text =
        fmt::format("the amplitude is {:.5g} where {:.5g} is due: {}", fit.mean, planned.amplitude, why);
    // what differs by rounding alone is one amplitude
    for (const auto& [text, mean] : amplitudes_) {
      if (std::abs(mean - fit.mean) > allowed * mean) continue;
      deviation.text = text;
      break;
    }
    amplitudes_.emplace_back(deviation.text, fit.mean);
    // a schedule that is not applied takes its amplitude along
    const bool with_schedule =
        verdict.ladder && verdict.ladder->cause != Cause::planned && std::abs(fit.mean - 1) <= allowed;
    deviation.cause = with_schedule ? verdict.ladder->text : "amplitude";
    if (with_schedule) deviation.depth = Depth::scores;
    deviation.numbers = {planned.amplitude, fit.mean, ""};
    deviation.curves = {
        amplitude_curve(fmt::format("{} of layer {}", tensor.word, layer), turns, planned.amplitude)};
    deviation.hypotheses = {{why, {{"amplitude", fit.mean}}, fit.spread, allowed}};
    collected_.add(std::move(deviation), layer, pass.step, tensor.word);
  }

  void observe(const Trace& trace, const Pass& pass, std::int64_t layer, const Turns& turns,
               const Tensor& tensor, const Verdict& verdict) {
    if (!verdict.tells || (!verdict.fine && !verdict.as_stated && !verdict.positions)) return;
    Observation seen;
    seen.source = fmt::format("{} of layer {}", tensor.word, layer);
    seen.tensor = tensor.name;
    seen.trace = &trace;
    seen.pass = &pass;
    seen.layer = layer;
    seen.axes = pass.axes;
    if (verdict.fine) {
      seen.positions = pass.due;
    } else if (verdict.as_stated) {
      seen.axes = pass.stated_axes;
      seen.positions = pass.stated;
    } else {
      seen.positions.assign(pass.due.size(), kUnknown);
      for (std::size_t n = 0; n < turns.count(); ++n)
        seen.positions[pass.at(turns.row[n], turns.token[n])] = (*verdict.positions)[n];
    }
    book_.observe(std::move(seen));
  }

  void report_ladder(const Trace& trace, const Pass& pass, std::int64_t layer, const Ladder& planned,
                     const Tensor& tensor, const Verdict& verdict, std::vector<Curve> curves) {
    Deviation deviation;
    deviation.where = place(trace, pass, layer, tensor.name);
    deviation.curves = std::move(curves);
    deviation.hypotheses = verdict.hypotheses;
    if (verdict.ladder) {
      deviation.rule = rotation_rule(verdict.ladder->cause);
      deviation.text = verdict.ladder->text;
      deviation.numbers = numbers_of(planned, *verdict.ladder);
    } else {
      deviation.rule = "R111";
      deviation.text = "pairs turn, but by no known ladder of frequencies and at no whole positions";
    }
    deviation.cause = deviation.text;
    collected_.add(std::move(deviation), layer, pass.step, tensor.word);
  }

  void compare(const Trace& trace, const Pass& pass, std::int64_t layer, const std::vector<Tensor>& tensors,
               const std::vector<std::optional<Verdict>>& verdicts) {
    book_.asked("R109");
    const Verdict& q = *verdicts[0];
    const Verdict& k = *verdicts[1];
    if (!q.tells || !k.tells || (q.positions == k.positions && q.as_stated == k.as_stated)) return;
    const auto planned = [](const Verdict& verdict) {
      return verdict.fine || verdict.as_stated || verdict.positions.has_value();
    };
    if (!planned(q) || !planned(k)) return;
    const std::string_view odd = q.fine ? "k" : k.fine ? "q" : "q and k";
    Deviation deviation;
    deviation.rule = "R109";
    deviation.text = fmt::format("q and k stand at different positions: {} not where it is due", odd);
    deviation.cause = "positions";
    deviation.where = place(trace, pass, layer, tensors[q.fine ? 1 : 0].name);
    collected_.add(std::move(deviation), layer, pass.step, "q and k");
  }

  void report() {
    for (Deviation& deviation : collected_.all()) {
      Finding finding;
      finding.severity = deviation.severity;
      std::string steps;
      if (deviation.steps.front() > 0) steps = fmt::format(", from step {} on", deviation.steps.front());
      finding.message = fmt::format("{} in {}{}: {}{}", fmt::join(deviation.tensors, " and "),
                                    layers_text(deviation.layers), steps, deviation.text,
                                    deviation.numbers.text.empty() ? "" : "; " + deviation.numbers.text);
      finding.where = deviation.where;
      finding.expected = deviation.numbers.expected;
      finding.observed = deviation.numbers.observed;
      finding.hypotheses = deviation.hypotheses;
      finding.curves = deviation.curves;
      book_.add(deviation.rule, deviation.depth, std::move(finding), deviation.cause);
    }
  }

  const Evidence& evidence_;
  Book& book_;
  Collected collected_;
  std::vector<std::pair<std::string, double>> amplitudes_;
  std::set<std::string> turned_;  ///< tensors that turned as planned in a pass
};

}  // namespace

void check_rotation(const Evidence& evidence, Book& book) {
  if (evidence.spec == nullptr) return;
  RotationRules(evidence, book).run();
}

}  // namespace locant::check_room

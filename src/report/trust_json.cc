// SPDX-License-Identifier: Apache-2.0
#include "locant/report.h"
#include "report/json_form.h"

namespace locant {
namespace {

template <class T>
OrderedJson optional_json(const std::optional<T>& value) {
  return value ? OrderedJson(*value) : OrderedJson();
}

OrderedJson word_json(const std::string& word) {
  return word.empty() ? OrderedJson() : OrderedJson(word);
}

OrderedJson estimate_json(const Estimate& estimate) {
  return {{"mean", json_number(estimate.mean)},
          {"low", json_number(estimate.low)},
          {"high", json_number(estimate.high)}};
}

OrderedJson length_json(const StatedLength& length) {
  return {{"tokens", optional_json(length.tokens)},
          {"source", name_of(length.source)},
          {"basis", word_json(length.basis)}};
}

OrderedJson rotation_json(const RotationTrust& rotation) {
  OrderedJson pairs = OrderedJson::array();
  for (const PairAngles& pair : rotation.pairs) {
    pairs.push_back({{"pair", pair.pair},
                     {"inv_freq", json_number(pair.inv_freq)},
                     {"plain_inv_freq", json_number(pair.plain)},
                     {"wavelength", pair.wavelength > 0 ? json_number(pair.wavelength) : OrderedJson()},
                     {"turns", json_number(pair.turns)},
                     {"compression", json_number(pair.compression)},
                     {"leaves_at", optional_json(pair.leaves_at)},
                     {"unseen", json_number(pair.unseen)},
                     {"excess_rad", json_number(pair.excess)}});
  }
  return {{"stack", name_of(rotation.stack)},
          {"layers", rotation.layers},
          {"mechanism", rotation.mechanism},
          {"theta", optional_json(rotation.theta)},
          {"amplitude", json_number(rotation.amplitude)},
          {"incomplete_pairs", rotation.incomplete_pairs},
          {"first_pair", optional_json(rotation.first_pair)},
          {"first_position", optional_json(rotation.first_position)},
          {"unseen", json_number(rotation.unseen)},
          {"excess_rad", json_number(rotation.excess)},
          {"fastest_step_rad", json_number(rotation.fastest_step)},
          {"fastest_plain_rad", json_number(rotation.fastest_plain)},
          {"least_compression", json_number(rotation.least_compression)},
          {"cosine_sum",
           {{"negative_from", optional_json(rotation.sum_negative_from)},
            {"least", json_number(rotation.least_sum)},
            {"searched_to", rotation.sum_searched_to}}},
          {"critical_dimension", rotation.critical_dimension},
          {"extension_bound", optional_json(rotation.extension_bound)},
          {"table_error",
           {{"cos", json_number(rotation.table_error)}, {"position", rotation.table_error_position}}},
          {"pairs", pairs}};
}

OrderedJson static_json(const StaticTrust& facts) {
  OrderedJson out = {{"declared", length_json(facts.declared)},
                     {"trained", length_json(facts.trained)},
                     {"to", {{"tokens", facts.to}, {"basis", facts.to_basis}}},
                     {"table_end", optional_json(facts.hard)}};
  out["rotations"] = OrderedJson::array();
  for (const RotationTrust& rotation : facts.rotations) out["rotations"].push_back(rotation_json(rotation));
  out["tables"] = OrderedJson::array();
  for (const TableTrust& table : facts.tables) {
    out["tables"].push_back({{"tensor", table.tensor},
                             {"rows", table.rows},
                             {"declared_rows", table.declared},
                             {"positions", table.positions},
                             {"learned", table.learned},
                             {"evidence", word_json(table.evidence)},
                             {"norm_before", json_number(table.norm_before)},
                             {"norm_behind", json_number(table.norm_behind)},
                             {"likeness_before", json_number(table.likeness_before)},
                             {"likeness_behind", json_number(table.likeness_behind)}});
  }
  out["reach"] = OrderedJson::array();
  for (const ReachTrust& reach : facts.reach)
    out["reach"].push_back(
        {{"what", reach.what}, {"tokens", optional_json(reach.tokens)}, {"text", reach.text}});
  out["memory"] = {{"kv_bytes_per_token", optional_json(facts.memory_per_token)},
                   {"kv_bytes", optional_json(facts.memory)}};
  out["findings"] = OrderedJson::array();
  for (const TrustFinding& finding : facts.findings) {
    out["findings"].push_back({{"kind", finding.kind == FindingKind::fault ? "fault" : "risk"},
                               {"name", finding.name},
                               {"text", finding.text}});
  }
  out["unmeasurable"] = word_json(facts.unmeasurable);
  return out;
}

OrderedJson loss_json(const LossCurve& loss) {
  OrderedJson points = OrderedJson::array();
  for (const LossPoint& point : loss.points) {
    const bool measured = point.documents > 0;
    const bool compared = point.compared_with > 0;
    points.push_back({{"length", point.length},
                      {"documents", point.documents},
                      {"loss", measured ? estimate_json(point.loss) : OrderedJson()},
                      {"compared_with", compared ? OrderedJson(point.compared_with) : OrderedJson()},
                      {"difference", compared ? estimate_json(point.difference) : OrderedJson()},
                      {"no_harm", name_of(point.no_harm)},
                      {"falls", point.falls},
                      {"finite", point.finite},
                      {"why_not", word_json(point.why_not)}});
  }
  return {{"criterion",
           {{"margin_nats", json_number(loss.margin)},
            {"least_benefit_nats", json_number(loss.least_benefit)},
            {"confidence", "one-sided 95 %, bootstrap over documents"},
            {"targets", loss.targets}}},
          {"documents", loss.documents},
          {"control", {{"result", name_of(loss.control)}, {"text", loss.control_text}}},
          {"no_harm", optional_json(loss.no_harm)},
          {"first_harm", optional_json(loss.first_harm)},
          {"benefit", optional_json(loss.benefit)},
          {"to_declared", name_of(loss.to_declared)},
          {"points", points}};
}

OrderedJson retrieval_json(const Retrieval& retrieval) {
  OrderedJson cells = OrderedJson::array();
  for (const RetrievalCell& cell : retrieval.cells) {
    cells.push_back({{"length", cell.length},
                     {"distance", cell.distance},
                     {"source", cell.source},
                     {"trials", cell.trials},
                     {"right", cell.right},
                     {"rate", estimate_json(cell.rate)},
                     {"result", name_of(cell.holds)},
                     {"control", cell.control}});
  }
  return {{"criterion",
           {{"segment", retrieval.segment},
            {"scored", retrieval.scored},
            {"choices", retrieval.choices},
            {"threshold_of_base", json_number(retrieval.threshold)},
            {"control_rate", json_number(retrieval.control_rate)},
            {"confidence", "one-sided 95 %, Wilson"}}},
          {"control", {{"result", name_of(retrieval.control)}, {"base", json_number(retrieval.base)}}},
          {"length", optional_json(retrieval.length)},
          {"first_failure", optional_json(retrieval.first_failure)},
          {"to_declared", name_of(retrieval.to_declared)},
          {"text", word_json(retrieval.text)},
          {"cells", cells}};
}

OrderedJson shift_json(const ShiftTrust& shift) {
  OrderedJson points = OrderedJson::array();
  for (const ShiftPoint& point : shift.points)
    points.push_back({{"shift", point.shift}, {"difference", json_number(point.difference)}});
  return {{"result", name_of(shift.holds)},
          {"text", word_json(shift.text)},
          {"tokens", shift.tokens},
          {"bound", json_number(shift.bound)},
          {"points", points}};
}

OrderedJson scaling_json(const ScalingTrust& scaling) {
  OrderedJson points = OrderedJson::array();
  for (const ScalingPoint& point : scaling.points) {
    points.push_back({{"length", point.length},
                      {"inside_trained", point.inside},
                      {"documents", point.documents},
                      {"loss", json_number(point.loss)},
                      {"scaled", json_number(point.scaled)},
                      {"difference", estimate_json(point.difference)},
                      {"divergence_nats", json_number(point.divergence)},
                      {"agreement", json_number(point.agreement)},
                      {"harmful", point.harmful},
                      {"better", point.better}});
  }
  return {{"method", scaling.method},
          {"factor", json_number(scaling.factor)},
          {"takes_effect", scaling.takes_effect},
          {"effect", json_number(scaling.effect)},
          {"replicate", json_number(scaling.replicate)},
          {"short_lengths", name_of(scaling.short_lengths)},
          {"no_harm", optional_json(scaling.no_harm)},
          {"text", scaling.text},
          {"points", points}};
}

OrderedJson plan_json(const TrustPlan& plan) {
  OrderedJson parts = OrderedJson::array();
  for (const PlannedPart& part : plan.parts)
    parts.push_back({{"what", part.what}, {"seconds", json_number(part.seconds)}});
  return {{"budget_s", json_number(plan.budget_s)},
          {"forward", {{"tokens", plan.forward_tokens}, {"seconds", json_number(plan.forward_s)}}},
          {"lengths", plan.lengths},
          {"documents", plan.documents},
          {"parts", parts},
          {"left_out", plan.left_out},
          {"taken_s", json_number(plan.taken_s)},
          {"interrupted", plan.interrupted}};
}

}  // namespace

std::string trust_json(const TrustReport& report) {
  OrderedJson out = json_envelope("trust");
  const ModelFacts& model = report.model;
  out["model"] = {{"path", as_utf8(model.path)}, {"format", model.format},     {"family", model.family},
                  {"layers", model.layers},      {"hidden", model.hidden},     {"heads", model.heads},
                  {"kv_heads", model.kv_heads},  {"head_dim", model.head_dim}, {"vocab", model.vocab}};
  out["recipe"] = report.facts.recipe;
  out["extend"] = OrderedJson();
  if (report.extension)
    out["extend"] = {{"method", report.extension->method}, {"factor", json_number(report.extension->factor)}};
  out["static"] = static_json(report.facts);
  out["plan"] = OrderedJson();
  out["measured"] = OrderedJson();
  if (report.measured) {
    const MeasuredTrust& measured = *report.measured;
    out["plan"] = plan_json(measured.plan);
    out["measured"] = {{"runtime", measured.runtime},
                       {"seed", measured.seed},
                       {"documents", measured.documents},
                       {"loss", loss_json(measured.loss)},
                       {"retrieval", retrieval_json(measured.retrieval)},
                       {"shift", shift_json(measured.shift)},
                       {"scaling", measured.scaling ? scaling_json(*measured.scaling) : OrderedJson()}};
  }
  out["verdict"] = {{"result", name_of(report.verdict.word)},
                    {"trusted", optional_json(report.verdict.trusted)},
                    {"by", word_json(report.verdict.by)},
                    {"text", report.verdict.text}};
  return json_text_of(out);
}

}  // namespace locant

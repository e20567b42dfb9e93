// SPDX-License-Identifier: Apache-2.0
// The JSON of `locant compare`.
#include "cli/answer.h"
#include "cli/compare_report.h"

namespace locant::cli {
namespace {

OrderedJson gap_json(const std::optional<Gap>& gap) {
  if (!gap) return nullptr;
  return {{"position", gap->position},
          {"index", gap->index < 0 ? OrderedJson() : OrderedJson(gap->index)},
          {"radians", or_null(gap->radians)},
          {"difference", json_number(gap->difference)},
          {"magnitude", json_number(gap->magnitude)}};
}

OrderedJson difference_json(const Comparison& of, const Difference& one) {
  OrderedJson evidence = OrderedJson::array();
  for (const DifferenceEvidence& row : one.evidence) {
    evidence.push_back({{"recipe", row.recipe},
                        {"what", row.what},
                        {"evidence", row.evidence},
                        {"tested_live", row.tested_live}});
  }
  OrderedJson seen;
  if (one.seen_from) seen = {{"from", *one.seen_from}, {"to", or_null(one.seen_to)}};
  return {{"between", {of.a, of.b}},
          {"kind", name_of(one.kind)},
          {"what", one.what},
          {"stack", one.stack ? OrderedJson(name_of(*one.stack)) : OrderedJson()},
          {"layers", one.layers},
          {"site", one.site},
          {"pairs", one.pairs},
          {"message", one.message},
          {"a", or_null(one.a)},
          {"b", or_null(one.b)},
          {"at_distance", gap_json(one.at_distance)},
          {"first_position", {{"bf16", or_null(one.first_bf16)}, {"f32", or_null(one.first_f32)}}},
          {"seen", seen},
          {"inside", one.inside},
          {"evidence", evidence}};
}

OrderedJson change_json(const LogitChange& one) {
  return {{"between", {one.a, one.b}},
          {"tokens", one.tokens},
          {"largest", json_number(one.largest)},
          {"largest_relative", json_number(one.largest_relative)},
          {"row", one.row},
          {"token", one.token},
          {"kl", or_null(one.kl)},
          {"top1", or_null(one.top1)},
          {"loss_a", or_null(one.loss_a)},
          {"loss_b", or_null(one.loss_b)},
          {"loss_tokens", one.loss_tokens}};
}

OrderedJson effect_json(const std::optional<CompareEffect>& effect) {
  if (!effect) return nullptr;
  OrderedJson pairs = OrderedJson::array();
  for (const LogitChange& one : effect->pairs) pairs.push_back(change_json(one));
  return {{"text", effect->text},         {"of", effect->of},
          {"rows", effect->rows},         {"tokens", effect->tokens},
          {"capacity", effect->capacity}, {"pairs", std::move(pairs)},
          {"why_not", effect->why_not}};
}

/// For each side whether it differs from each other one.
OrderedJson matrix_json(const CompareReport& report) {
  OrderedJson matrix = OrderedJson::object();
  for (const std::string& side : report.sides) matrix[side] = OrderedJson::object();
  for (const Comparison& pair : report.pairs) {
    matrix[pair.a][pair.b] = differs(pair);
    matrix[pair.b][pair.a] = differs(pair);
  }
  return matrix;
}

}  // namespace

OrderedJson compare_report_json(const CompareReport& report) {
  OrderedJson out = json_envelope("compare");
  const Comparison& first = report.pairs.at(0);
  out["model"] = {{"path", report.model},
                  {"other", report.other.empty() ? OrderedJson() : OrderedJson(report.other)},
                  {"family", report.family}};
  out["recipes"] = report.recipes;
  out["sides"] = report.sides;
  out["distance"] = first.distance;
  out["distance_basis"] = first.distance_basis;
  out["capacity"] = first.capacity;
  out["run_dtype"] = name_of(first.run_dtype);
  out["run_dtype_basis"] = first.run_dtype_basis;
  out["differences"] = OrderedJson::array();
  out["within_rounding"] = OrderedJson::array();
  OrderedJson notes = OrderedJson::array();
  for (const Comparison& pair : report.pairs) {
    if (pair.a != report.sides.front()) continue;
    for (const Difference& one : pair.differences) out["differences"].push_back(difference_json(pair, one));
    for (const Difference& one : pair.within_rounding)
      out["within_rounding"].push_back(difference_json(pair, one));
    for (const std::string& note : pair.notes) notes.push_back(note);
  }
  out["differs"] = matrix_json(report);
  out["effect"] = effect_json(report.effect);
  out["same_tokenizer"] = or_null(report.same_tokenizer);
  out["notes"] = std::move(notes);
  return out;
}

}  // namespace locant::cli

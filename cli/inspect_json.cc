// SPDX-License-Identifier: Apache-2.0
// The JSON of `locant inspect`.
#include <variant>

#include "cli/inspect_report.h"

namespace locant::cli {
namespace {

OrderedJson word_or_null(const std::string& word) {
  return word.empty() ? OrderedJson() : OrderedJson(word);
}

/// A count or size that 0 says is absent.
OrderedJson above_zero(std::int64_t value) {
  return value > 0 ? OrderedJson(value) : OrderedJson();
}

OrderedJson numbers(const std::vector<double>& values) {
  OrderedJson out = OrderedJson::array();
  for (const double value : values) out.push_back(json_number(value));
  return out;
}

struct ValueJson {
  OrderedJson operator()(std::int64_t value) const { return value; }
  OrderedJson operator()(double value) const { return json_number(value); }
  OrderedJson operator()(const std::string& value) const { return value; }
  OrderedJson operator()(const std::vector<double>& values) const { return numbers(values); }
};

OrderedJson parameters_json(const PositionFacts& entry) {
  OrderedJson out = OrderedJson::object();
  for (const Parameter& parameter : entry.parameters)
    out[parameter.name] = std::visit(ValueJson{}, parameter.value);
  return out;
}

/// Adds the members of one site's plan.
struct AddPlan {
  OrderedJson& out;
  const PositionFacts& entry;

  void operator()(const Rotation& rotation) const {
    out["pairing"] = name_of(rotation.read);
    out["head_dim"] = rotation.head_dim;
    out["rotary_dim"] = rotation.width;
    out["rotary_offset"] = rotation.offset;
    out["theta"] = entry.theta ? json_number(*entry.theta) : OrderedJson();
    out["inv_freq"] = numbers(rotation.inv_freq);
    out["amplitude"] = json_number(rotation.amplitude);
    out["inverse"] = rotation.acts_on.output_inverse;
    out["axes"] = rotation.axis;
    out["parameters"] = parameters_json(entry);
    out["length_rule"] =
        entry.length_rule == LengthRule::none ? OrderedJson() : OrderedJson(name_of(entry.length_rule));
  }
  void operator()(const PositionEmbedding& embedding) const {
    out["rows"] = above_zero(embedding.rows);
    out["width"] = embedding.width;
    out["offset"] = embedding.offset;
    out["first_position"] = embedding.first_position;
    out["scale"] = json_number(embedding.scale);
    OrderedJson parameters = parameters_json(entry);
    out["dialect"] = parameters.contains("dialect") ? parameters["dialect"] : OrderedJson();
    out["parameters"] = std::move(parameters);
  }
  void operator()(const Bias& bias) const {
    out["form"] = name_of(bias.form);
    if (bias.form == BiasForm::slopes) out["slopes"] = numbers(bias.slopes);
    if (bias.form != BiasForm::slopes) out["buckets"] = above_zero(bias.buckets);
    out["max_distance"] = above_zero(bias.max_distance);
    out["heads"] = bias.heads;
    out["counts_from"] = name_of(bias.counts_from);
    out["scale_order"] = bias.scale_order == ScaleOrder::after_scale ? "after_scale" : "before_scale";
    out["bidirectional"] = bias.bidirectional;
  }
  void operator()(const QueryScale& scale) const {
    out["form"] = scale.form;
    out["parameters"] = {{"scale", json_number(scale.scale)},
                         {"floor", json_number(scale.floor)},
                         {"shift", json_number(scale.shift)}};
  }
};

OrderedJson position_json(const PositionFacts& entry) {
  OrderedJson out = {{"layers", entry.layers},
                     {"stack", name_of(entry.stack)},
                     {"site", site_of(entry)},
                     {"mechanism", entry.mechanism}};
  if (entry.plan) std::visit(AddPlan{out, entry}, *entry.plan);
  return out;
}

OrderedJson attention_json(const AttentionFacts& entry) {
  const AttentionSpec& attention = entry.attention;
  return {{"layers", entry.layers},
          {"stack", name_of(entry.stack)},
          {"kind", name_of(attention.kind)},
          {"window", attention.kind == AttentionKind::full ? OrderedJson() : above_zero(attention.window)},
          {"scale", json_number(attention.scale)},
          {"softcap", attention.softcap == 0 ? OrderedJson() : json_number(attention.softcap)},
          {"sinks", attention.sinks},
          {"bidirectional", attention.bidirectional}};
}

OrderedJson angle_json(const LimitFacts& limits) {
  OrderedJson rotations = OrderedJson::array();
  for (const AngleFacts& angle : limits.angles) {
    rotations.push_back(
        {{"stack", name_of(angle.stack)},
         {"layers", angle.layers},
         {"pairs", angle.pairs},
         {"shortest_wavelength", angle.pairs > 0 ? json_number(angle.shortest_wavelength) : OrderedJson()},
         {"longest_wavelength", angle.pairs > 0 ? json_number(angle.longest_wavelength) : OrderedJson()},
         {"incomplete_pairs", or_null(angle.incomplete_pairs)},
         {"leaving_pairs", or_null(angle.leaving_pairs)},
         {"leaves_from", or_null(angle.leaves_from)}});
  }
  return {{"length", or_null(limits.angle_length)},
          {"basis", word_or_null(limits.angle_basis)},
          {"horizon", or_null(limits.horizon)},
          {"rotations", std::move(rotations)}};
}

OrderedJson limits_json(const LimitFacts& limits) {
  return {
      {"trained", or_null(limits.lengths.trained)},
      {"trained_basis", limits.lengths.trained ? word_or_null(limits.lengths.trained_basis) : OrderedJson()},
      {"configured", or_null(limits.lengths.configured)},
      {"hard", or_null(limits.hard)},
      {"angle", angle_json(limits)},
      {"memory",
       {{"dtype", name_of(limits.memory.dtype)},
        {"kv_bytes_per_token", or_null(limits.memory.kv_bytes_per_token)},
        {"at_configured", or_null(limits.memory.at_configured)}}}};
}

OrderedJson embedding_json(const EmbeddingFacts& embedding) {
  return {{"tensor", word_or_null(embedding.tensor)},
          {"rows", embedding.rows},
          {"width", embedding.width},
          {"dtype",
           embedding.dtype ? OrderedJson(name_of(*embedding.dtype)) : word_or_null(embedding.block_type)},
          {"scale", json_number(embedding.scale)},
          {"scale_rounding", name_of(embedding.scale_rounding)},
          {"norm", embedding.norm ? OrderedJson(name_of(*embedding.norm)) : OrderedJson()},
          {"factorised_width", above_zero(embedding.factorised_width)},
          {"token_types", above_zero(embedding.token_types)},
          {"padding_id", or_null(embedding.padding_id)}};
}

}  // namespace

OrderedJson inspect_json(const Facts& facts) {
  OrderedJson out = json_envelope("inspect");
  const ModelFacts& model = facts.model;
  out["model"] = {{"path", model.path},         {"format", model.format},
                  {"family", model.family},     {"layers", model.layers},
                  {"hidden", model.hidden},     {"heads", model.heads},
                  {"kv_heads", model.kv_heads}, {"head_dim", model.head_dim},
                  {"vocab", model.vocab},       {"parameters", or_null(model.parameters)}};
  out["embedding"] = embedding_json(facts.embedding);
  out["head"] = {{"tensor", word_or_null(facts.head.tensor)},
                 {"absent", facts.head.absent},
                 {"tied", facts.head.tied},
                 {"rows", facts.head.rows},
                 {"bias", facts.head.bias},
                 {"scale", json_number(facts.head.scale)},
                 {"softcap", facts.head.softcap == 0 ? OrderedJson() : json_number(facts.head.softcap)}};
  out["positions"] = OrderedJson::array();
  for (const PositionFacts& entry : facts.positions) out["positions"].push_back(position_json(entry));
  out["attention"] = OrderedJson::array();
  for (const AttentionFacts& entry : facts.attention) out["attention"].push_back(attention_json(entry));
  out["limits"] = limits_json(facts.limits);
  out["recipe"] = facts.recipe;
  out["distance"] = or_null(facts.distance);
  out["capacity"] = or_null(facts.capacity);
  out["notes"] = OrderedJson::array();
  for (const Note& note : facts.notes)
    out["notes"].push_back({{"rule", word_or_null(note.rule)}, {"text", note.text}});
  return out;
}

}  // namespace locant::cli

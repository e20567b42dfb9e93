// SPDX-License-Identifier: Apache-2.0
// The facts of a model: sizes, embedding, head, lengths and the plan of every layer.
#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "report/html/numbers.h"
#include "report/html/parts.h"
#include "report/html/table.h"

namespace locant::html {
namespace {

std::string where(Stack stack, const std::vector<std::int64_t>& layers) {
  const std::string of_stack = stack == Stack::decoder ? "" : fmt::format("{} ", name_of(stack));
  return of_stack + (layers.empty() ? "input" : layers_text(layers));
}

struct PlanWords {
  const PositionFacts& entry;

  std::string operator()(const Rotation& rotation) const {
    std::string text =
        fmt::format("{} of {} dimensions, {}", rotation.width, rotation.head_dim, name_of(rotation.read));
    if (rotation.write != rotation.read) text += fmt::format(" (written {})", name_of(rotation.write));
    if (entry.theta) text += fmt::format(", theta {}", number_text(*entry.theta, 9));
    if (rotation.amplitude != 1) text += fmt::format(", amplitude {}", number_text(rotation.amplitude, 6));
    if (!rotation.axis.empty())
      text += fmt::format(", {} position axes",
                          1 + *std::max_element(rotation.axis.begin(), rotation.axis.end()));
    if (entry.length_rule != LengthRule::none)
      text += fmt::format(", follows the length ({})", name_of(entry.length_rule));
    return text;
  }
  std::string operator()(const PositionEmbedding& embedding) const {
    if (embedding.form == EmbeddingForm::token_types)
      return fmt::format("a table of {} rows of {}, chosen by type", embedding.rows, embedding.width);
    std::string text = embedding.rows > 0
                           ? fmt::format("{} rows of {}", whole_text(embedding.rows), embedding.width)
                           : fmt::format("rows of {} without end", embedding.width);
    if (embedding.offset != 0) text += fmt::format(", row = position {:+}", embedding.offset);
    if (embedding.scale != 1) text += fmt::format(", times {}", number_text(embedding.scale, 6));
    return text;
  }
  std::string operator()(const Bias& bias) const {
    if (bias.form == BiasForm::slopes && !bias.slopes.empty()) {
      const auto [least, most] = std::minmax_element(bias.slopes.begin(), bias.slopes.end());
      return fmt::format("{} heads, slopes {} to {} a token", bias.heads, number_text(*most, 6),
                         number_text(*least, 6));
    }
    std::string text = bias.buckets > 0 ? fmt::format("{} buckets", bias.buckets) : "plain distances";
    if (!bias.inv_freq.empty()) text = "a sinusoid of the distance";
    if (bias.max_distance > 0) text += fmt::format(" up to distance {}", whole_text(bias.max_distance));
    return text + fmt::format(", {} heads", bias.heads);
  }
  std::string operator()(const QueryScale& scale) const {
    return fmt::format("scale {}, floor {} tokens, shift {}", number_text(scale.scale, 6),
                       number_text(scale.floor, 6), number_text(scale.shift, 6));
  }
};

std::string plan_text(const PositionFacts& entry) {
  if (entry.plan) return std::visit(PlanWords{entry}, *entry.plan);
  return entry.refused.empty() ? "these layers mark no positions" : entry.refused;
}

struct ValueWords {
  std::string operator()(std::int64_t value) const { return whole_text(value); }
  std::string operator()(double value) const { return number_text(value, 9); }
  std::string operator()(const std::string& value) const { return value; }
  std::string operator()(const std::vector<double>& values) const {
    return values.empty() ? std::string("no factors")
                          : fmt::format("{} factors, {} to {}", values.size(), number_text(values.front(), 6),
                                        number_text(values.back(), 6));
  }
};

std::string embedding_text(const EmbeddingFacts& embedding, std::int64_t hidden) {
  std::string text =
      fmt::format("{} rows of {}", whole_text(embedding.rows),
                  embedding.factorised_width > 0 ? embedding.factorised_width : embedding.width);
  if (embedding.scale != 1) text += fmt::format(", times {}", number_text(embedding.scale, 9));
  if (embedding.norm) text += fmt::format(", then a {} norm", name_of(*embedding.norm));
  if (embedding.factorised_width > 0) text += fmt::format(", projected to {}", hidden);
  if (embedding.token_types > 0) text += fmt::format(", {} token types", embedding.token_types);
  if (embedding.tensor.empty()) return text;
  const std::string_view stored =
      embedding.dtype ? name_of(*embedding.dtype) : std::string_view(embedding.block_type);
  return text + fmt::format("; {} {}", stored, embedding.tensor);
}

std::string head_text(const HeadFacts& head) {
  if (head.absent) return "none in these weights";
  std::string text = head.tied ? "the embedding's matrix" : "a matrix of its own";
  if (head.bias) text += ", with a bias";
  if (head.scale != 1) text += fmt::format(", logits times {}", number_text(head.scale, 6));
  if (head.softcap != 0) text += fmt::format(", softcap {}", number_text(head.softcap, 6));
  if (!head.tensor.empty() && !head.tied) text += "; " + head.tensor;
  return text;
}

std::string length_text(const std::optional<std::int64_t>& length, const std::string& key) {
  if (!length) return "not stated";
  return whole_text(*length) + (key.empty() ? " tokens" : fmt::format(" tokens ({})", key));
}

std::string hard_text(const LimitFacts& limits) {
  if (!limits.hard) return "no table ends";
  std::string text = fmt::format("a table of {} rows", whole_text(*limits.hard));
  if (limits.last_position)
    text += fmt::format("; the last position is {}", whole_text(*limits.last_position));
  return text;
}

std::string memory_text(const MemoryFacts& memory) {
  if (!memory.kv_bytes_per_token) return "not told: " + memory.why_not;
  std::string text =
      fmt::format("{} of keys and values a token in {}",
                  bytes_text(static_cast<double>(*memory.kv_bytes_per_token)), name_of(memory.dtype));
  if (memory.at_configured)
    text +=
        fmt::format(", {} at the configured length", bytes_text(static_cast<double>(*memory.at_configured)));
  return text;
}

void write_facts(Markup& page, const Facts& facts) {
  const Inside list(page, "dl");
  const auto row = [&](std::string_view name, const std::string& text) {
    page.element("dt", {}, name);
    page.element("dd", {}, text);
  };
  const ModelFacts& model = facts.model;
  row("sizes", fmt::format("{} layers, hidden {}, {} heads of {} ({} for keys and values), vocabulary {}{}",
                           model.layers, model.hidden, model.heads, model.head_dim, model.kv_heads,
                           whole_text(model.vocab),
                           model.parameters ? ", " + whole_text(*model.parameters) + " parameters" : ""));
  row("embedding", embedding_text(facts.embedding, model.hidden));
  row("head", head_text(facts.head));
  const LengthSpec& lengths = facts.limits.lengths;
  row("trained", length_text(lengths.trained, lengths.trained_basis));
  row("configured", length_text(lengths.configured, lengths.configured_key));
  row("hard end", hard_text(facts.limits));
  row("memory", memory_text(facts.limits.memory));
  row("recipe", facts.recipe);
  if (facts.distance) row("tokens seen", whole_text(*facts.distance));
  if (facts.capacity) row("opened for", whole_text(*facts.capacity) + " tokens");
}

void write_positions(Markup& page, const Facts& facts) {
  page.element("h3", {}, "Positions");
  Table plans{.caption = fmt::format("Where positions act, under recipe {}", facts.recipe),
              .columns = {"layers", "site", "mechanism", "plan"}};
  Table parameters{.caption = "Parameters and the keys that state them",
                   .columns = {"parameter", "value", "mechanism", "layers", "key"}};
  for (const PositionFacts& entry : facts.positions) {
    const std::string layers = where(entry.stack, entry.layers);
    plans.rows.push_back({layers, std::string(site_of(entry)), entry.mechanism, plan_text(entry)});
    for (const Parameter& parameter : entry.parameters)
      parameters.rows.push_back({parameter.name, std::visit(ValueWords{}, parameter.value), entry.mechanism,
                                 layers, parameter.key.empty() ? "a default" : parameter.key});
  }
  write_table(page, plans);
  if (!parameters.rows.empty()) write_folded(page, "Parameters", parameters);
}

std::string note_text(const Note& note) {
  if (note.rule.empty()) return note.text;
  std::string_view name;
  for (const Rule& rule : rules()) {
    if (rule.id == note.rule) name = rule.name;
  }
  return fmt::format("{} {}: {}", note.rule, name, note.text);
}

}  // namespace

Verdict inspect_verdict(const Facts& facts) {
  std::vector<std::string> mechanisms;
  for (const PositionFacts& entry : facts.positions) {
    // layers without positions are of interest beside layers that have some
    const bool none = entry.mechanism == "none";
    if (none && std::none_of(facts.positions.begin(), facts.positions.end(), [&](const PositionFacts& other) {
          return other.stack == entry.stack && other.mechanism != "none" && !other.layers.empty();
        }))
      continue;
    const std::string word = none ? "none in some layers" : entry.mechanism;
    if (std::find(mechanisms.begin(), mechanisms.end(), word) == mechanisms.end()) mechanisms.push_back(word);
  }
  std::string text;
  for (const std::string& mechanism : mechanisms) text += (text.empty() ? "" : ", ") + mechanism;
  text = fmt::format("Positions by {}; {} tokens configured, {}.", text.empty() ? "nothing" : text,
                     whole_text(facts.limits.lengths.configured, "no"),
                     facts.limits.lengths.trained
                         ? fmt::format("{} trained", whole_text(*facts.limits.lengths.trained))
                         : "the trained length is not stated");
  for (const AngleFacts& angle : facts.limits.angles) {
    if (!angle.incomplete_pairs || angle.pairs == 0 || *angle.incomplete_pairs == 0) continue;
    text += fmt::format(" {} of {} pairs never complete a turn inside the {} {}", *angle.incomplete_pairs,
                        angle.pairs, facts.limits.angle_basis, whole_text(*facts.limits.angle_length));
    text += angle.leaves_from
                ? fmt::format("; new angles begin at position {}.", whole_text(*angle.leaves_from))
                : ".";
    break;
  }
  return {Mood::plain, text};
}

void write_inspect(Markup& page, const Facts& facts) {
  const Inside section(page, "section", {{"id", "inspect"}, {"aria-labelledby", "inspect-title"}});
  page.element("h2", {{"id", "inspect-title"}}, "The facts");
  write_facts(page, facts);
  write_positions(page, facts);
  write_rotations(page, facts);
  write_other_sites(page, facts);
  write_attention(page, facts);
  write_memory(page, facts);
  if (facts.notes.empty()) return;
  page.element("h3", {}, "Notes");
  const Inside list(page, "ul");
  for (const Note& note : facts.notes) page.element("li", {}, note_text(note));
}

}  // namespace locant::html

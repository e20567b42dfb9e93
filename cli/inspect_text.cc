// SPDX-License-Identifier: Apache-2.0
// The text of `locant inspect`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ostream>
#include <variant>

#include "cli/inspect_report.h"
#include "cli/stream.h"
#include "locant/check.h"

namespace locant::cli {
namespace {

constexpr std::int64_t kPictureSigns = 64;

/// "7.2 GiB"; whole bytes below 1 KiB.
std::string bytes_text(std::int64_t bytes) {
  constexpr std::string_view kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string where(Stack stack, const std::vector<std::int64_t>& layers) {
  const std::string of_stack = stack == Stack::decoder ? "" : fmt::format("{} ", name_of(stack));
  return layers.empty() ? of_stack + "input" : of_stack + layer_ranges(layers);
}

struct PlanText {
  const PositionFacts& entry;

  std::string operator()(const Rotation& rotation) const {
    std::string text =
        fmt::format("{} of {} dimensions, {}", rotation.width, rotation.head_dim, name_of(rotation.read));
    if (rotation.write != rotation.read) text += fmt::format(" (written {})", name_of(rotation.write));
    if (entry.theta) text += fmt::format(", theta {}", *entry.theta);
    if (rotation.amplitude != 1) text += fmt::format(", amplitude {:.6g}", rotation.amplitude);
    if (!rotation.axis.empty())
      text += fmt::format(", {} position axes",
                          1 + *std::max_element(rotation.axis.begin(), rotation.axis.end()));
    return text;
  }
  std::string operator()(const PositionEmbedding& embedding) const {
    if (embedding.form == EmbeddingForm::token_types)
      return fmt::format("a table of {} rows of {}, chosen by type", embedding.rows, embedding.width);
    std::string text = embedding.rows > 0 ? fmt::format("{} rows of {}", embedding.rows, embedding.width)
                                          : fmt::format("rows of {} without end", embedding.width);
    if (embedding.offset != 0) text += fmt::format(", row = position {:+}", embedding.offset);
    if (embedding.scale != 1) text += fmt::format(", times {:.6g}", embedding.scale);
    return text;
  }
  std::string operator()(const Bias& bias) const {
    if (bias.form == BiasForm::slopes && !bias.slopes.empty()) {
      const auto [least, most] = std::minmax_element(bias.slopes.begin(), bias.slopes.end());
      return fmt::format("{} heads, slopes {:.6g} to {:.6g} a token", bias.heads, *most, *least);
    }
    std::string text = bias.buckets > 0 ? fmt::format("{} buckets", bias.buckets) : "plain distances";
    if (!bias.inv_freq.empty()) text = "a sinusoid of the distance";
    if (bias.max_distance > 0) text += fmt::format(" up to distance {}", bias.max_distance);
    return text + fmt::format(", {} heads", bias.heads);
  }
  std::string operator()(const QueryScale& scale) const {
    return fmt::format("scale {:.6g}, floor {:.6g} tokens, shift {:.6g}", scale.scale, scale.floor,
                       scale.shift);
  }
};

void heading(std::string_view text, Answer& answer) {
  answer.stream() << fmt::format("\n{}{}{}\n", answer.style().bold, text, answer.style().off);
}

void write_model(const Facts& facts, Answer& answer) {
  const ModelFacts& model = facts.model;
  std::ostream& out = answer.stream();
  out << fmt::format("{}{}{}{}, {} layers, hidden {}, {} heads of {} ({} for keys and values), vocab {}{}\n",
                     answer.style().bold, model.family.empty() ? "unknown family" : one_line(model.family),
                     answer.style().off, model.generic ? " (not a known family)" : "", model.layers,
                     model.hidden, model.heads, model.head_dim, model.kv_heads, model.vocab,
                     model.parameters ? fmt::format(", {} parameters", *model.parameters) : "");
  const EmbeddingFacts& embedding = facts.embedding;
  out << fmt::format("embedding  {} rows of {}", embedding.rows,
                     embedding.factorised_width > 0 ? embedding.factorised_width : embedding.width);
  if (embedding.scale != 1) out << fmt::format(", times {:.9g}", embedding.scale);
  if (embedding.norm) out << fmt::format(", then a {} norm", name_of(*embedding.norm));
  if (embedding.factorised_width > 0) out << fmt::format(", projected to {}", model.hidden);
  if (!embedding.tensor.empty()) {
    const std::string_view stored =
        embedding.dtype ? name_of(*embedding.dtype) : std::string_view(embedding.block_type);
    out << fmt::format(", {} {}", stored, one_line(embedding.tensor));
  }
  const HeadFacts& head = facts.head;
  if (head.absent) {
    out << "\nhead       none in these weights: run gives hidden states\n";
    return;
  }
  out << fmt::format("\nhead       {}{}{}{}\n", head.tied ? "the embedding's matrix" : "a matrix of its own",
                     head.bias ? ", with a bias" : "",
                     head.scale != 1 ? fmt::format(", logits times {:.6g}", head.scale) : "",
                     head.softcap != 0 ? fmt::format(", softcap {:.6g}", head.softcap) : "");
}

std::string plan_text(const PositionFacts& entry) {
  if (entry.plan) return std::visit(PlanText{entry}, *entry.plan);
  return entry.refused.empty() ? "these layers mark no positions" : "refused, see the notes";
}

/// "C107 factor-against-lengths: ..."
std::string note_text(const Note& note) {
  if (note.rule.empty()) return one_line(note.text);
  std::string_view name;
  for (const Rule& rule : rules()) {
    if (rule.id == note.rule) name = rule.name;
  }
  return fmt::format("{} {}: {}", note.rule, name, one_line(note.text));
}

void write_positions(const Facts& facts, Answer& answer) {
  std::size_t width = 6;
  std::size_t names = 9;
  for (const PositionFacts& entry : facts.positions) {
    width = std::max(width, where(entry.stack, entry.layers).size());
    names = std::max(names, entry.mechanism.size());
  }
  std::ostream& out = answer.stream();
  out << fmt::format("\n{}positions (recipe {}{})\n  {:<{}}  {:<11}  {:<{}}  plan{}\n", answer.style().bold,
                     facts.recipe,
                     facts.distance ? fmt::format(", {} tokens seen", *facts.distance) : std::string(),
                     "layers", width, "site", "mechanism", names, answer.style().off);
  for (const PositionFacts& entry : facts.positions) {
    out << fmt::format("  {:<{}}  {:<11}  {:<{}}  {}\n", where(entry.stack, entry.layers), width,
                       site_of(entry), entry.mechanism, names, plan_text(entry));
  }
}

void write_pictures(const Facts& facts, Answer& answer) {
  std::ostream& out = answer.stream();
  std::size_t index = 0;
  for (const PositionFacts& entry : facts.positions) {
    const auto* const rotation = entry.plan ? std::get_if<Rotation>(&*entry.plan) : nullptr;
    if (rotation == nullptr) continue;
    const AngleFacts& angle = facts.limits.angles[index++];
    const HeadPicture picture = head_picture(*rotation);
    heading(fmt::format("rotation of layers {}", where(entry.stack, entry.layers)), answer);
    out << fmt::format("  [{}]{}\n", picture.signs,
                       picture.dimensions_per_sign > 1
                           ? fmt::format("  a sign is {} dimensions", picture.dimensions_per_sign)
                           : "");
    if (angle.pairs == 0) continue;
    out << fmt::format("  {} pairs turn, once in {:.6g} to {:.6g} tokens\n", angle.pairs,
                       angle.shortest_wavelength, angle.longest_wavelength);
  }
}

std::string angle_text(const AngleFacts& angle, const LimitFacts& limits) {
  std::string of =
      fmt::format("{} of {} pairs never complete a turn inside the {} {}", *angle.incomplete_pairs,
                  angle.pairs, limits.angle_basis, *limits.angle_length);
  if (!angle.leaves_from) return of;
  std::string from = fmt::format("{}; new angles from position {}", of, *angle.leaves_from);
  if (!angle.leaving_pairs || *angle.leaves_from >= *limits.horizon) return from;
  return fmt::format("{}, in {} pairs by {}", from, *angle.leaving_pairs, *limits.horizon);
}

void write_limits(const LimitFacts& limits, Answer& answer) {
  heading("limits", answer);
  std::ostream& out = answer.stream();
  const auto row = [&out](std::string_view name, const std::string& text) {
    out << fmt::format("  {:<10}  {}\n", name, text);
  };
  const LengthSpec& lengths = limits.lengths;
  const auto with_key = [](const std::optional<std::int64_t>& value, const std::string& key) {
    if (!value) return std::string("not stated");
    return key.empty() ? fmt::format("{}", *value) : fmt::format("{} ({})", *value, one_line(key));
  };
  row("trained", with_key(lengths.trained, lengths.trained_basis));
  row("configured", with_key(lengths.configured, lengths.configured_key));
  row("hard", limits.hard ? fmt::format("a table of {} rows{}", *limits.hard,
                                        limits.last_position
                                            ? fmt::format(", the last position is {}", *limits.last_position)
                                            : "")
                          : "no table ends");
  for (const AngleFacts& angle : limits.angles) {
    if (!angle.incomplete_pairs || angle.pairs == 0) continue;
    const std::string place =
        limits.angles.size() > 1 ? fmt::format("layers {}: ", where(angle.stack, angle.layers)) : "";
    row("angles", place + angle_text(angle, limits));
  }
  const MemoryFacts& memory = limits.memory;
  row("memory", !memory.kv_bytes_per_token
                    ? fmt::format("not told: {}", memory.why_not)
                    : fmt::format("{} bytes of keys and values a token in {}{}", *memory.kv_bytes_per_token,
                                  name_of(memory.dtype),
                                  memory.at_configured ? fmt::format(", {} at the configured length",
                                                                     bytes_text(*memory.at_configured))
                                                       : ""));
}

void write_attention(const Facts& facts, Answer& answer) {
  heading("attention", answer);
  for (const AttentionFacts& entry : facts.attention) {
    const AttentionSpec& attention = entry.attention;
    std::string text(name_of(attention.kind));
    if (attention.kind != AttentionKind::full) text += fmt::format(" of {} tokens", attention.window);
    text += fmt::format(", scale {:.6g}", attention.scale);
    if (attention.softcap != 0) text += fmt::format(", softcap {:.6g}", attention.softcap);
    if (attention.sinks) text += ", with sinks";
    if (attention.bidirectional) text += ", both directions";
    answer.stream() << fmt::format("  {}: {}\n", where(entry.stack, entry.layers), text);
  }
}

}  // namespace

std::string layer_ranges(const std::vector<std::int64_t>& layers) {
  std::vector<std::string> parts;
  for (std::size_t first = 0; first < layers.size();) {
    std::size_t last = first;
    while (last + 1 < layers.size() && layers[last + 1] == layers[last] + 1) ++last;
    parts.push_back(first == last ? std::to_string(layers[first])
                                  : fmt::format("{}-{}", layers[first], layers[last]));
    first = last + 1;
  }
  constexpr std::size_t kShown = 6;
  if (parts.size() > kShown) {
    const std::string tail = parts.back();
    parts.resize(kShown - 2);
    parts.emplace_back("...");
    parts.push_back(tail);
  }
  return fmt::format("{}", fmt::join(parts, ","));
}

HeadPicture head_picture(const Rotation& rotation) {
  HeadPicture picture;
  if (rotation.head_dim <= 0) return picture;
  picture.dimensions_per_sign = (rotation.head_dim + kPictureSigns - 1) / kPictureSigns;
  const std::int64_t step = picture.dimensions_per_sign;
  const std::int64_t pairs = rotation.width / 2;
  for (std::int64_t dimension = 0; dimension < rotation.head_dim; dimension += step) {
    const std::int64_t channel = dimension - rotation.offset;
    if (channel < 0 || channel >= rotation.width) {
      picture.signs += '.';
      continue;
    }
    const bool halves = rotation.read == Pairing::half;
    const std::int64_t pair = halves ? channel % pairs : channel / 2;
    if (!(rotation.inv_freq[static_cast<std::size_t>(pair)] > 0)) {
      picture.signs += '.';
      continue;
    }
    const bool second = halves ? channel >= pairs : (channel / step) % 2 != 0;
    picture.signs += second ? 's' : 'c';
  }
  return picture;
}

void write_inspect_text(const Facts& facts, Answer& answer) {
  write_model(facts, answer);
  write_positions(facts, answer);
  write_pictures(facts, answer);
  write_attention(facts, answer);
  write_limits(facts.limits, answer);
  if (facts.notes.empty()) return;
  heading("notes", answer);
  for (const Note& note : facts.notes) answer.stream() << "  " << note_text(note) << '\n';
}

}  // namespace locant::cli

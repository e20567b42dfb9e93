// SPDX-License-Identifier: Apache-2.0
// Lengths against factors, bases and tables. A pair of the plain ladder turns once in
// 2 pi theta^(2i/rotary_dim) tokens; the slowest is i = rotary_dim/2 - 1.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numbers>

#include "formats/json.h"
#include "locant/core.h"
#include "spec/config_lint.h"
#include "spec/config_rules.h"

namespace locant {
namespace {

constexpr double kTolerance = 0.01;  // of a factor that a config rounds

struct Stated {
  double value = 0;
  std::string key;
};

std::optional<Stated> number_of(const PositionSpec& spec, std::string_view name) {
  const std::optional<double> value = spec.number(name);
  if (!value) return std::nullopt;
  return Stated{*value, spec.find(name)->key};
}

void add(ModelSpec& spec, std::string_view rule, std::string key, std::string sentence,
         std::optional<Severity> severity = {}) {
  Note note{.text = fmt::format("{}: {}", spec.path, sentence),
            .rule = std::string(rule),
            .key = std::move(key),
            .severity = severity};
  const bool said = std::any_of(spec.notes.begin(), spec.notes.end(),
                                [&](const Note& other) { return other.text == note.text; });
  if (!said) spec.notes.push_back(std::move(note));
}

void judge_factor(ModelSpec& spec, const PositionSpec& rope) {
  if (rope.mechanism != "yarn" && rope.mechanism != "longrope") return;
  const std::optional<Stated> factor = number_of(rope, "factor");
  const std::optional<Stated> original = number_of(rope, "original_length");
  const LengthSpec& lengths = spec.lengths;
  if (!factor || factor->key.empty() || !original || original->key.find("original") == std::string::npos)
    return;
  if (!lengths.configured || lengths.configured_key.empty() || original->value <= 0) return;
  const auto length = static_cast<double>(*lengths.configured);
  const double product = factor->value * original->value;
  if (std::abs(product - length) <= kTolerance * length) return;
  // a length that is held below the product is a choice; one above it is past what the factor gives
  const auto severity = length < product ? std::optional(Severity::note) : std::nullopt;
  add(spec, rules::kFactorAgainstLengths, factor->key,
      fmt::format("{} {} times {} {} is {}, {} says {} (a ratio of {:.6g})", factor->key, factor->value,
                  original->key, original->value, product, lengths.configured_key, length,
                  length / original->value),
      severity);
}

void judge_base(ModelSpec& spec, const PositionSpec& rope) {
  if (rope.mechanism != "rope" || !spec.lengths.configured || spec.lengths.configured_key.empty()) return;
  const std::optional<Stated> theta = number_of(rope, "theta");
  if (!theta || !theta->key.empty() || theta->value <= 1) return;
  std::optional<Stated> width = number_of(rope, "rotary_dim");
  if (!width) width = number_of(rope, "head_dim");
  if (!width || width->value < 2) return;
  const double longest = 2 * std::numbers::pi * std::pow(theta->value, (width->value - 2) / width->value);
  const auto length = static_cast<double>(*spec.lengths.configured);
  if (length <= longest) return;
  add(spec, rules::kDefaultBaseTooSmall, {},
      fmt::format(
          "no key states the base, with the default {} the slowest pair turns once in {:.0f} tokens and "
          "{} is {}",
          theta->value, longest, spec.lengths.configured_key, length));
}

}  // namespace

void judge_lengths(ModelSpec& spec) {
  const LengthSpec& lengths = spec.lengths;
  if (lengths.trained && lengths.configured && !lengths.configured_key.empty() &&
      lengths.trained_basis.find("original") != std::string::npos && *lengths.configured < *lengths.trained) {
    add(spec, rules::kLengthsContradict, lengths.configured_key,
        fmt::format("{} {} is below {} {}", lengths.configured_key, *lengths.configured,
                    lengths.trained_basis, *lengths.trained),
        Severity::note);
  }
  for (std::size_t layer = 0; layer < spec.positions.layers.size(); ++layer) {
    // Layers with a window have a small base by design.
    const bool whole = layer < spec.attention.size() && spec.attention[layer].kind == AttentionKind::full;
    for (const PositionSpec& position : spec.positions.layers[layer]) {
      judge_factor(spec, position);
      if (whole) judge_base(spec, position);
    }
  }
}

void judge_tokenizer(const std::string& folder, ModelSpec& spec) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const std::string path = (fs::path(folder) / "tokenizer_config.json").string();
  if (!fs::is_regular_file(path, ignored)) return;
  Json json;
  try {
    json = read_json(path);
  } catch (const FileError&) {
    return;  // what reads the tokenizer reports a damaged file
  }
  const Json* const stated = json.is_object() ? find_member(json, "model_max_length") : nullptr;
  if (stated == nullptr || !stated->is_number()) return;
  constexpr double kNoLimit = 1e9;  // transformers writes 1e30 for "none"
  const double most = stated->get<double>();
  for (const PositionSpec& table : spec.positions.embedding) {
    if (table.mechanism != "learned" || most >= kNoLimit) continue;
    const std::optional<Stated> rows = number_of(table, "rows");
    if (!rows) continue;
    const std::optional<Stated> offset = number_of(table, "offset");
    const double tokens = rows->value - (offset ? offset->value : 0);
    if (most <= tokens) continue;
    add(spec, rules::kLengthsContradict, rows->key,
        fmt::format("{} ends after {} tokens, tokenizer_config.json says model_max_length {}",
                    rows->key.empty() ? "the position table" : rows->key, tokens, most));
  }
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
#include "spec/config_lint.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "spec/config_rules.h"
#include "spec/rope_lint.h"

namespace locant {
namespace {

using namespace std::string_view_literals;

// Where two of these stand in one object they name one fact; getters ask for one of them only.
// n_ctx beside n_positions is none: no class reads it, and reduced copies keep the old one.
constexpr std::array kTwins = {std::pair{"rope_theta"sv, "rotary_emb_base"sv},
                               std::pair{"partial_rotary_factor"sv, "rotary_pct"sv}};

// Null in none of them means "none"; every reader needs a value.
constexpr std::array kNeverNull = {"hidden_size"sv,         "max_position_embeddings"sv,
                                   "n_positions"sv,         "num_attention_heads"sv,
                                   "num_hidden_layers"sv,   "rope_theta"sv,
                                   "tie_word_embeddings"sv, "vocab_size"sv};

// The text model's own keys, which multimodal configs repeat at most. tie_word_embeddings is none: classes of
// transformers have other defaults outside than inside.
constexpr std::array kShared = {"max_position_embeddings"sv, "rope_theta"sv, "vocab_size"sv};
constexpr std::array kTextOnly = {"max_position_embeddings"sv, "partial_rotary_factor"sv, "rope_parameters"sv,
                                  "rope_scaling"sv, "rope_theta"sv};

double number_at(const Config& config, std::string_view key) {
  const Json& value = config.value(key);
  return value.is_number() ? value.get<double>() : 0;
}

// A width and a fraction of one head, and the parts of a latent head.
void judge_widths(const Config& config, const ModelSpec& spec) {
  const double width = number_at(config, "rotary_dim");
  const double part = number_at(config, "partial_rotary_factor");
  // A head of stated width: families of latent attention grow theirs while it is read.
  const double stated = number_at(config, "head_dim");
  const double head = stated > 0 ? stated : static_cast<double>(spec.head_dim);
  const double rotated = std::trunc(head * part);
  if (width > 0 && part > 0 && rotated != width) {
    config.odd(
        rules::kConflictingKeys, "rotary_dim",
        fmt::format("is {} and partial_rotary_factor {} of a head of {} is {}", width, part, head, rotated));
  }
  const double whole = number_at(config, "qk_head_dim");
  const double sum = number_at(config, "qk_nope_head_dim") + number_at(config, "qk_rope_head_dim");
  if (whole > 0 && sum > 0 && whole != sum) {
    config.odd(rules::kConflictingKeys, "qk_head_dim",
               fmt::format("is {} and qk_nope_head_dim + qk_rope_head_dim is {}", whole, sum));
  }
}

void judge_outer(const Config& outer, const Config& config) {
  if (outer.full_key({}) == config.full_key({})) return;
  for (const std::string_view key : kShared) note_conflict(outer, key, config, key);
  for (const std::string_view key : kTextOnly) {
    if (outer.value(key).is_null() || config.has(key)) continue;
    outer.odd(rules::kNotReadHere, key,
              fmt::format("stands beside {} and not in it, the text model does not read it there",
                          config.full_key({}).substr(0, config.full_key({}).size() - 1)));
  }
}

void judge_ids(const Config& config, const ModelSpec& spec) {
  if (spec.vocab < 1) return;
  for (const std::string_view key :
       {"bos_token_id"sv, "eos_token_id"sv, "pad_token_id"sv, "decoder_start_token_id"sv}) {
    const Json& stated = config.value(key);
    const auto judge = [&](const Json& id) {
      if (!id.is_number_integer() || id.get<double>() < static_cast<double>(spec.vocab)) return;
      // padding is looked up; the others are never met, and random models of every size keep their defaults
      const auto severity = key == "pad_token_id" ? std::nullopt : std::optional(Severity::note);
      config.odd(rules::kIdOutsideVocabulary, key,
                 fmt::format("is {}, the vocabulary ends at {}", json_text(id), spec.vocab - 1), severity);
    };
    if (!stated.is_array()) judge(stated);
    if (stated.is_array()) {
      for (const Json& id : stated) judge(id);
    }
  }
}

void judge_version(const Config& outer, const Config& config) {
  const Json& stated = outer.value("transformers_version");
  const std::string version = stated.is_string() ? stated.get<std::string>() : std::string();
  if (version.rfind("4.", 0) != 0 || version.find("dev") != std::string::npos) return;
  if (!config.value("rope_parameters").is_object() || config.has("rope_theta")) return;
  config.odd(rules::kBlockNewerThanVersion, "rope_parameters",
             fmt::format("is a block of transformers 5, transformers_version says {}", json_text(stated)));
}

}  // namespace

void judge_keys(const Config& outer, const Config& config, const ModelSpec& spec) {
  if (!outer.tolerant()) return;
  judge_outer(outer, config);
  for (const auto& [one, other] : kTwins) note_conflict(config, one, config, other);
  judge_widths(config, spec);
  for (const std::string_view key : kNeverNull) {
    if (config.has(key) && config.value(key).is_null())
      config.odd(rules::kNullValue, key, "is null, readers take different values for it");
  }
  judge_ids(outer, spec);
  if (outer.full_key({}) != config.full_key({})) judge_ids(config, spec);
  judge_version(outer, config);
}

}  // namespace locant

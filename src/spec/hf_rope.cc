// SPDX-License-Identifier: Apache-2.0
#include "spec/hf_rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "locant/core.h"
#include "spec/config_rules.h"
#include "spec/near_key.h"
#include "spec/rope_lint.h"

namespace locant {
namespace {

using namespace std::string_view_literals;

const Keys kType = {"rope_type", "type"};
const Keys kLength = {"max_position_embeddings", "n_positions", "max_seq_len"};
const Keys kOriginal = {"original_max_position_embeddings"};

// Keys that a block may carry without meaning anything for the schedule.
constexpr std::array kPassedOver = {
    "apply_yarn_scaling"sv,      "finetuned"sv,         "interleaved"sv, "llama_4_scaling_beta"sv,
    "max_position_embeddings"sv, "mrope_interleaved"sv, "rope_theta"sv};

bool holds_objects(const Config& config) {
  const std::vector<std::string> members = config.members();
  return std::any_of(members.begin(), members.end(),
                     [&](const std::string& key) { return config.value(key).is_object(); });
}

// Copies a number under the name that the mechanism gives it; says whether it was there.
bool copy(Config& from, PositionSpec& to, const Keys& keys, std::string name) {
  const auto number = from.number(keys);
  if (number) to.set(std::move(name), *number, from.stated(keys));
  return number.has_value();
}

void copy_length(Config& config, Config& block, PositionSpec& rope, bool nested) {
  // transformers lets a length beside a flat block win over the one inside.
  if (!nested) {
    if (const auto original = config.integer(kOriginal, 1)) {
      (void)block.integer(kOriginal, 1);
      note_conflict(config, *kOriginal.begin(), block, *kOriginal.begin());
      rope.set("original_length", *original, config.stated(kOriginal));
      return;
    }
  }
  if (const auto original = block.integer(kOriginal, 1)) {
    rope.set("original_length", *original, block.stated(kOriginal));
  } else if (const auto length = config.integer(kLength, 1)) {
    rope.set("original_length", *length, config.stated(kLength));
    if (block.tolerant() && !block.by_default()) {
      block.odd(rules::kMissingKey, *kOriginal.begin(),
                fmt::format("is not stated, {} is taken for it: runtimes take other lengths", *length));
    }
  }
}

void copy_factors(Config& block, PositionSpec& rope, std::string_view name) {
  std::vector<double> factors = block.numbers({name});
  if (!factors.empty()) rope.set(std::string(name), std::move(factors), block.stated({name}));
}

void copy_max_positions(Config& config, PositionSpec& rope) {
  if (const auto length = config.integer(kLength, 1))
    rope.set("max_positions", *length, config.stated(kLength));
}

// Parameters of one schedule. Returns the key that it cannot do without, "" when all are there.
std::string_view copy_schedule(Config& config, Config& block, PositionSpec& rope, bool nested) {
  if (rope.mechanism == "linear") return copy(block, rope, {"factor"}, "factor") ? ""sv : "factor"sv;
  if (rope.mechanism == "ntk") {
    // alpha alone counts; published blocks carry YaRN's keys beside it.
    block.ignore(std::array{"factor"sv, "beta_fast"sv, "beta_slow"sv, "mscale"sv, "mscale_all_dim"sv});
    return copy(block, rope, {"alpha"}, "alpha") ? ""sv : "alpha"sv;
  }
  if (rope.mechanism == "dynamic_ntk") {
    copy_max_positions(config, rope);
    if (rope.find("max_positions") == nullptr) return *kLength.begin();
    return copy(block, rope, {"factor"}, "factor") ? ""sv : "factor"sv;
  }
  if (rope.mechanism == "llama3") {
    copy_length(config, block, rope, nested);
    for (const std::string_view key : {"factor"sv, "low_freq_factor"sv, "high_freq_factor"sv}) {
      if (!copy(block, rope, {key}, std::string(key))) return key;
    }
    return rope.find("original_length") == nullptr ? *kOriginal.begin() : ""sv;
  }
  if (rope.mechanism == "longrope") {
    copy_length(config, block, rope, nested);
    if (rope.find("original_length") == nullptr) return *kOriginal.begin();
    copy_max_positions(config, rope);
    for (const std::string_view key : {"factor"sv, "attention_factor"sv, "short_mscale"sv, "long_mscale"sv}) {
      copy(block, rope, {key}, std::string(key));
    }
    for (const std::string_view key : {"short_factor"sv, "long_factor"sv}) {
      copy_factors(block, rope, key);
      if (rope.find(key) == nullptr) return key;
    }
    return {};
  }
  if (rope.mechanism == "yarn") {
    copy_length(config, block, rope, nested);
    if (rope.find("original_length") == nullptr) return *kOriginal.begin();
    for (const std::string_view key : {"attention_factor"sv, "beta_fast"sv, "beta_slow"sv, "mscale"sv,
                                       "mscale_all_dim"sv, "extrapolation_factor"sv}) {
      copy(block, rope, {key}, std::string(key));
    }
    if (const auto truncate = block.flag({"truncate"})) {
      rope.set("truncate", std::int64_t{*truncate ? 1 : 0}, block.stated({"truncate"}));
    }
    if (copy(block, rope, {"factor"}, "factor")) return {};
    const Parameter* const original = rope.find("original_length");
    const auto length = config.integer(kLength, 1);
    if (!length) return "factor";
    rope.set("factor",
             static_cast<double>(*length) / static_cast<double>(std::get<std::int64_t>(original->value)));
    return {};
  }
  if (rope.mechanism == "proportional") copy(block, rope, {"factor"}, "factor");
  return {};
}

// transformers writes "rope_type": "longrope" beside an older "type": "su", and "default" beside "mrope".
bool two_words_for_one(const Config& block) {
  const Json& newer = block.value("rope_type");
  const Json& older = block.value("type");
  if (!block.tolerant() || !newer.is_string() || !older.is_string()) return false;
  const std::string_view mechanism = schedule_of(newer.get<std::string>());
  return !mechanism.empty() && mechanism == schedule_of(older.get<std::string>());
}

std::string_view mechanism_of(Config& block, const RopeStyle& style) {
  const bool one = two_words_for_one(block);
  if (one) (void)block.present({"type"});
  const std::string word = block.word(one ? Keys{"rope_type"} : kType).value_or("default");
  if (style.yarn_is_longrope && word == "yarn") return "longrope";
  if (word == "dynamic" && block.number({"alpha"}).value_or(0) != 0) return "ntk";
  if (const std::string_view mechanism = schedule_of(word); !mechanism.empty()) return mechanism;
  const std::string_view stated = block.present(kType);
  block.refuse(stated, "default, linear, dynamic, yarn, longrope, llama3 or proportional",
               rules::kUnknownRopeType);
  return "rope";
}

// rotary_dim, where it is not the whole head.
void copy_width(Config& config, Config* block, const RopeStyle& style, const RopeSlice& slice,
                PositionSpec& rope) {
  const auto set = [&](std::int64_t width, std::string key) {
    if (width != slice.head_dim) rope.set("rotary_dim", width, std::move(key));
  };
  if (slice.offset != 0) rope.set("rotary_offset", slice.offset);
  std::optional<double> partial;
  std::string key;
  if (block != nullptr) {
    partial = block->number({"partial_rotary_factor"});
    if (partial) key = block->stated({"partial_rotary_factor"});
    if (!key.empty() && config.has("partial_rotary_factor")) {
      config.ignore(std::array{"partial_rotary_factor"sv});  // the block's wins, as in transformers
      note_conflict(config, "partial_rotary_factor", *block, "partial_rotary_factor");
    }
  }
  if (style.fixed_width) return set(slice.rotating, {});
  if (const auto width = config.integer(style.width, 1)) return set(*width, config.stated(style.width));
  if (!partial && style.partial_keys.begin() != style.partial_keys.end()) {
    partial = config.number(style.partial_keys);
    key = config.stated(style.partial_keys);
  }
  if (rope.mechanism == "proportional") {
    if (partial) rope.set("proportion", *partial, key);
    return;
  }
  if (!partial || *partial == 1) return set(slice.rotating, {});
  if (rope.mechanism == "rope" && !style.partial) {
    // The plain schedule of transformers ignores it for these families while every scaled one honours it.
    Config& place = block != nullptr && block->has("partial_rotary_factor") ? *block : config;
    const std::string_view stated = "partial_rotary_factor";
    if (!place.tolerant())
      place.fail(stated, "1 or absent (readers disagree on a partial rotation of this family)");
    place.odd(rules::kPartialRotationDisputed, stated,
              fmt::format("is {}, readers disagree on a partial rotation of this family", *partial));
    rope.set("partial_read", std::string("scaled_only"));
  }
  set(static_cast<std::int64_t>(static_cast<double>(slice.rotating) * *partial), std::move(key));
}

void copy_sections(Config& config, Config* block, const RopeStyle& style, PositionSpec& rope) {
  if (style.axis_layout.empty()) return;
  const Keys keys = {"mrope_section", "xdrope_section"};
  std::vector<double> sections = block != nullptr ? block->numbers(keys) : std::vector<double>();
  std::string key = block != nullptr ? block->stated(keys) : std::string();
  if (sections.empty()) sections = config.numbers({"mrope_section"});
  if (sections.empty()) return;
  rope.set("sections", std::move(sections), std::move(key));
  rope.set("axis_layout", std::string(style.axis_layout));
}

// Of a block whose schedule lacks a key only misspelt keys are told: the others were not asked for.
void judge_unread_of_block(Config& block, std::string_view missing) {
  block.ignore(kPassedOver);
  if (block.tolerant())
    block.ignore(std::array{*kOriginal.begin()});  // stands beside every schedule, some do not need it
  for (const std::string& key : block.unread()) {
    if (!block.tolerant()) {
      throw SpecError(fmt::format("{}: {} would change the rotation and is not understood, got {}",
                                  block.path(), block.full_key(key), json_text(block.value(key))));
    }
    if (const std::string near = near_key(key, block.asked_in_vain()); !near.empty()) {
      block.odd(rules::kNearMissKey, key,
                fmt::format("is read by nobody, {} is absent, got {}", near, json_text(block.value(key))));
    } else if (missing.empty() && !block.value(key).is_null()) {
      block.odd(rules::kUnreadKey, key,
                fmt::format("is not read by this schedule, got {}", json_text(block.value(key))));
    }
  }
}

}  // namespace

std::optional<Config> rope_block(Config& config, const RopeStyle& style, std::string_view layer_type) {
  std::optional<Config> scaling = config.object("rope_scaling");
  std::optional<Config> parameters = config.object("rope_parameters");
  if (parameters && holds_objects(*parameters)) {
    // Where both are there, the older block adds to the one of full attention alone, as Gemma 3 does.
    if (!(scaling && !scaling->members().empty() && style.scaled)) return parameters->object(layer_type);
  }
  if (!style.scaled) return std::nullopt;
  if (config.tolerant() && scaling && parameters && !holds_objects(*scaling) && !holds_objects(*parameters))
    judge_two_blocks(*scaling, *parameters);
  if (scaling && !scaling->members().empty()) {  // {} counts as absent
    return holds_objects(*scaling) ? scaling->object(layer_type) : std::move(scaling);
  }
  return parameters;
}

PositionSpec read_rope(Config& config, const RopeStyle& style, const RopeSlice& slice,
                       std::string_view layer_type) {
  std::optional<Config> block = rope_block(config, style, layer_type);
  PositionSpec rope{.mechanism = "rope", .parameters = {}};
  if (block) rope.mechanism = mechanism_of(*block, style);
  rope.set("head_dim", slice.head_dim);
  rope.set("pairing", std::string(style.pairing));
  if (!style.write_pairing.empty()) rope.set("write_pairing", std::string(style.write_pairing));
  if (style.sign != 1) rope.set("sign", style.sign);
  if (style.acts_on != "qk") rope.set("acts_on", std::string(style.acts_on));
  if (style.fixed_width) rope.set("shared_key", std::int64_t{1});

  // A nested block is named after its layer type: "rope_parameters.full_attention.".
  const bool nested = block && block->full_key({}).find(layer_type) != std::string::npos;
  const bool in_block = block && copy(*block, rope, {"rope_theta"}, "theta");
  if (!in_block && !copy(config, rope, style.theta, "theta")) rope.set("theta", 10000.0);
  if (in_block) {
    (void)config.number(style.theta);
    const std::string_view beside = nested ? "" : config.present(style.theta);
    if (!beside.empty()) note_conflict(config, beside, *block, "rope_theta");
  }

  std::string_view missing;
  if (block) {
    missing = copy_schedule(config, *block, rope, nested);
    if (!missing.empty()) {
      const Config& place = missing == *kLength.begin() ? config : *block;
      const std::string rule = fmt::format("must be stated with {}, it is missing", rope.mechanism);
      if (!block->tolerant())
        throw SpecError(fmt::format("{}: {} {}", block->path(), place.full_key(missing), rule));
      place.odd(rules::kMissingKey, missing, rule);
      make_plain(rope);
    }
  }
  copy_width(config, block ? &*block : nullptr, style, slice, rope);
  copy_sections(config, block ? &*block : nullptr, style, rope);
  if (config.tolerant()) judge_lists(config, rope);
  if (block && block->tolerant()) judge_nulls_of_block(*block, rope);
  if (block) judge_unread_of_block(*block, missing);
  return rope;
}

}  // namespace locant

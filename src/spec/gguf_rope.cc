// SPDX-License-Identifier: Apache-2.0
#include "spec/gguf_rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/quote.h"
#include "spec/config_rules.h"

namespace locant {
namespace {

constexpr std::string_view kType = "rope.scaling.type";
constexpr std::string_view kFactor = "rope.scaling.factor";
constexpr std::string_view kOldFactor = "rope.scale_linear";
constexpr std::string_view kOriginal = "rope.scaling.original_context_length";
constexpr std::string_view kAttention = "rope.scaling.attn_factor";
constexpr std::string_view kLogMultiplier = "rope.scaling.yarn_log_multiplier";
constexpr std::string_view kSections = "rope.dimension_sections";
constexpr std::string_view kLong = "rope_factors_long.weight";
constexpr std::string_view kShort = "rope_factors_short.weight";
constexpr std::string_view kFrequencies = "rope_freqs.weight";
constexpr double kStill = 1e29;  // Gemma 4 divides the pairs that stand still by 1e30

/// A value and the key that states it, "" = a default.
struct Stated {
  double value = 0;
  std::string key{};
};

Stated positive(GgufKeys& keys, std::string_view key, double otherwise) {
  const auto number = keys.number(key);
  if (!number) return {otherwise};
  if (*number <= 0) keys.fail(key, "a number above 0");
  return {*number, keys.full(key)};
}

void set(PositionSpec& rope, std::string name, const Stated& stated) {
  rope.set(std::move(name), stated.value, stated.key);
}

Stated theta_of(GgufKeys& keys, const GgufArchitecture& row, GgufScope scope) {
  Stated full = positive(keys, "rope.freq_base", 10000);
  if (scope == GgufScope::full) return full;
  const bool own = row.windows.local == GgufLocal::own;
  const Stated local = positive(keys, "rope.freq_base_swa", own ? 10000 : full.value);
  return !own && local.key.empty() ? full : local;
}

/// 0 and a missing key mean that nothing is stretched.
Stated factor_of(GgufKeys& keys) {
  for (const std::string_view key : {kFactor, kOldFactor}) {
    const auto factor = keys.number(key);
    if (!factor) continue;
    if (*factor < 0) keys.fail(key, "a number of at least 0");
    return *factor == 0 ? Stated{1} : Stated{*factor, keys.full(key)};
  }
  return {1};
}

std::string scaling_type(GgufKeys& keys) {
  std::string type = keys.word(kType).value_or("linear");
  constexpr std::array<std::string_view, 4> kTypes = {"none", "linear", "yarn", "longrope"};
  if (std::find(kTypes.begin(), kTypes.end(), type) == kTypes.end())
    keys.fail(kType, "none, linear, yarn or longrope");
  return type;
}

void set_original(GgufKeys& keys, PositionSpec& rope) {
  for (const std::string_view key : {kOriginal, std::string_view("context_length")}) {
    if (const auto length = keys.integer(key, 0); length && *length > 0) {
      rope.set("original_length", *length, keys.full(key));
      return;
    }
  }
}

double magnitude(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

// The amplitude is that of the factor, whatever yarn_attn_factor says; attn_factor comes on top.
void set_yarn(GgufKeys& keys, const GgufArchitecture& row, PositionSpec& rope, const Stated& factor) {
  rope.mechanism = "yarn";
  set(rope, "factor", factor);
  set_original(keys, rope);
  struct Beta {
    std::string_view key;
    std::string name;
    double otherwise;
  };
  for (const Beta& beta : {Beta{"rope.scaling.yarn_beta_fast", "beta_fast", row.beta_fast},
                           Beta{"rope.scaling.yarn_beta_slow", "beta_slow", 1}}) {
    const Stated stated = positive(keys, beta.key, beta.otherwise);
    if (row.betas) {
      set(rope, beta.name, stated);
    } else if (stated.value != beta.otherwise) {
      keys.note({.text = fmt::format("{}: llama.cpp does not read {} for this architecture, {} counts",
                                     keys.path(), stated.key, beta.otherwise),
                 .rule = std::string(rules::kNotReadHere),
                 .key = stated.key});
    }
  }
  double ratio = magnitude(factor.value, 1);
  if (row.log_divisor != 0) {
    const double logs = keys.number(kLogMultiplier).value_or(0);
    const double all = static_cast<double>(static_cast<float>(logs) / row.log_divisor);
    if (all != 0) {
      const double mscale = row.name == "deepseek2" ? all : 1;
      rope.set("mscale", mscale);
      rope.set("mscale_all_dim", all, keys.full(kLogMultiplier));
      ratio = magnitude(factor.value, mscale) / magnitude(factor.value, all);
    }
  }
  const Stated attention = positive(keys, kAttention, 1);
  if (attention.value != 1) rope.set("attention_factor", ratio * attention.value);
}

/// Ones, then pairs that stand still: a rotation of a share of the pairs.
std::optional<double> share_of(const std::vector<double>& divisors) {
  const auto turning = std::find_if(divisors.begin(), divisors.end(), [](double one) { return one != 1; });
  if (turning == divisors.begin() || turning == divisors.end()) return std::nullopt;
  if (!std::all_of(turning, divisors.end(), [](double one) { return one >= kStill; })) return std::nullopt;
  return static_cast<double>(turning - divisors.begin()) / static_cast<double>(divisors.size());
}

void set_divisors(PositionSpec& rope, std::vector<double> divisors) {
  const bool plain = rope.mechanism == "rope" || rope.mechanism == "linear";
  const auto share = share_of(divisors);
  if (plain && share) {
    rope.mechanism = "proportional";
    rope.set("proportion", *share, std::string(kFrequencies));
    return;
  }
  rope.set("divisors", std::move(divisors), std::string(kFrequencies));
}

// Chosen by the context that the runtime is opened for; a factor stretches both lists.
void set_longrope(GgufKeys& keys, PositionSpec& rope, std::int64_t pairs, double factor) {
  rope.mechanism = "longrope";
  for (const auto& [name, tensor] : {std::pair{"short_factor", kShort}, std::pair{"long_factor", kLong}}) {
    const GgufTensor* const stored = keys.tensor(tensor);
    if (stored == nullptr) {
      throw FileError(keys.path(), fmt::format("tensors {} and {} stand beside each other, {} is missing",
                                               quote(kShort), quote(kLong), quote(tensor)));
    }
    std::vector<double> factors = keys.row_of(*stored, pairs);
    for (double& one : factors) one *= factor;
    rope.set(name, std::move(factors), std::string(tensor));
  }
  set_original(keys, rope);
  if (const auto length = keys.integer("context_length", 0); length && *length > 0)
    rope.set("max_positions", *length, keys.full("context_length"));
  set(rope, "attention_factor", positive(keys, kAttention, 1));
}

void set_schedule(GgufKeys& keys, const GgufArchitecture& row, PositionSpec& rope, std::int64_t pairs) {
  const std::string type = scaling_type(keys);
  const Stated stated = factor_of(keys);
  const Stated factor = type == "none" ? Stated{1} : stated;
  const GgufTensor* const frequencies = keys.tensor(kFrequencies);
  const bool lists = keys.tensor(kLong) != nullptr || keys.tensor(kShort) != nullptr;
  if (type == "yarn") {
    set_yarn(keys, row, rope, factor);
  } else if (frequencies == nullptr && lists) {
    return set_longrope(keys, rope, pairs, factor.value);
  } else if (factor.value != 1) {
    rope.mechanism = "linear";
    set(rope, "factor", factor);
  } else if (row.alpha) {
    if (const double alpha = keys.number("rope.scaling.alpha").value_or(0); alpha > 0) {
      rope.mechanism = "ntk";
      rope.set("alpha", alpha, keys.full("rope.scaling.alpha"));
    }
  }
  if (frequencies != nullptr) set_divisors(rope, keys.row_of(*frequencies, pairs));
  if (type == "yarn") return;
  if (const Stated attention = positive(keys, kAttention, 1); attention.value != 1) {
    keys.note({.text = fmt::format("{}: {} multiplies cos and sin by {}, which is not followed without "
                                   "yarn or longrope",
                                   keys.path(), attention.key, attention.value),
               .rule = std::string(rules::kNotReadHere),
               .key = attention.key});
  }
}

std::int64_t width_of(GgufKeys& keys, const GgufArchitecture& row, std::int64_t head_dim, GgufScope scope,
                      std::string& key) {
  std::string_view name = "rope.dimension_count";
  if (scope == GgufScope::local && keys.has("rope.dimension_count_swa")) name = "rope.dimension_count_swa";
  const auto width = keys.integer(name, 2);
  if (!width) return head_dim;
  if (row.whole_head && *width != head_dim)
    keys.fail(name, fmt::format("the width of a head, {}, in this architecture", head_dim));
  if (*width % 2 != 0 || *width > head_dim)
    keys.fail(name, fmt::format("an even number up to the width of a head, {}", head_dim));
  key = keys.full(name);
  return *width;
}

// Files pad the sections to four.
void set_sections(GgufKeys& keys, const GgufArchitecture& row, PositionSpec& rope) {
  const bool always = row.rope == GgufRope::sections || row.rope == GgufRope::interleaved_sections;
  if (!always && !row.optional_sections) return;
  if (always) keys.require(kSections);
  std::vector<std::int64_t> sections = keys.integers(kSections, 2);
  if (!always && (sections.size() < 2 || sections[0] == 0 || sections[1] == 0)) return;
  const bool interleaved = row.rope == GgufRope::interleaved_sections;
  while (sections.size() > 3 && sections.back() == 0) sections.pop_back();
  if (sections.size() > 4 || (interleaved && sections.size() != 3))
    keys.fail(kSections, interleaved ? "three axes" : "two to four axes");
  rope.set("pairing", std::string("half"));
  rope.set("sections", std::vector<double>(sections.begin(), sections.end()), keys.full(kSections));
  rope.set("axis_layout", std::string(interleaved ? "interleaved" : "chunked"));
}

}  // namespace

double parameter_or(const PositionSpec& spec, std::string_view name, double otherwise) {
  const Parameter* const found = spec.find(name);
  const auto* const value = found == nullptr ? nullptr : std::get_if<double>(&found->value);
  return value == nullptr ? otherwise : *value;
}

PositionSpec read_gguf_rope(GgufKeys& keys, const GgufArchitecture& row, std::int64_t head_dim,
                            GgufScope scope) {
  PositionSpec rope{.mechanism = "rope", .parameters = {}};
  rope.set("head_dim", head_dim, keys.has("attention.key_length") ? keys.full("attention.key_length") : "");
  rope.set("pairing", std::string(row.rope == GgufRope::norm ? "interleaved" : "half"));
  set(rope, "theta", theta_of(keys, row, scope));
  std::string width_key;
  const std::int64_t width = width_of(keys, row, head_dim, scope, width_key);
  const bool scaled = scope == GgufScope::full || row.windows.local == GgufLocal::inherits;
  if (scaled) set_schedule(keys, row, rope, width / 2);
  if (width != head_dim) rope.set("rotary_dim", width, width_key);
  if (row.latent && width != head_dim) rope.set("rotary_offset", head_dim - width);
  set_sections(keys, row, rope);
  return rope;
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
#include "positions/parameters.h"

#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "core/nearest.h"

namespace locant {
namespace {

struct ValueText {
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return fmt::format("{}", value); }
  std::string operator()(const std::string& value) const { return fmt::format("\"{}\"", value); }
  std::string operator()(const std::vector<double>& value) const {
    return fmt::format("a list of {}", value.size());
  }
};

std::string text_of(const ParameterValue& value) {
  return std::visit(ValueText{}, value);
}

std::optional<std::int64_t> whole(const ParameterValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return *integer;
  if (const auto* number = std::get_if<double>(&value)) {
    constexpr double kExact = 9007199254740992.0;  // 2^53: every whole double up to here is exact
    if (std::abs(*number) <= kExact && std::trunc(*number) == *number) {
      return static_cast<std::int64_t>(*number);
    }
  }
  return std::nullopt;
}

std::optional<double> finite(const ParameterValue& value) {
  std::optional<double> found;
  if (const auto* number = std::get_if<double>(&value)) found = *number;
  if (const auto* integer = std::get_if<std::int64_t>(&value)) found = static_cast<double>(*integer);
  return found && std::isfinite(*found) ? found : std::nullopt;
}

std::string joined(std::span<const std::string_view> words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

}  // namespace

Parameters::Parameters(std::string_view mechanism, const PositionSpec& spec,
                       std::span<const ParameterDescription> described)
    : mechanism_(mechanism), spec_(spec) {
  std::vector<std::string_view> names;
  names.reserve(described.size());
  for (const ParameterDescription& one : described) names.push_back(one.name);
  for (const Parameter& stated : spec.parameters) {
    if (spec.find(stated.name) != &stated) fail(stated.name, "must be stated once", "two values");
    bool known = false;
    for (const std::string_view name : names) known = known || name == stated.name;
    if (known) continue;
    const std::string near = nearest_name(stated.name, names);
    throw SpecError(fmt::format("{}: parameters are {}, got \"{}\"{}", mechanism_, joined(names), stated.name,
                                near.empty() ? std::string() : fmt::format(", did you mean \"{}\"", near)));
  }
}

std::string_view Parameters::key(std::string_view name) const noexcept {
  const Parameter* stated = spec_.find(name);
  return stated == nullptr ? std::string_view() : std::string_view(stated->key);
}

std::int64_t Parameters::integer(std::string_view name, IntegerRange range,
                                 std::optional<std::int64_t> fallback) const {
  const Parameter* stated = spec_.find(name);
  if (stated == nullptr && fallback) return *fallback;
  const std::optional<std::int64_t> value = stated == nullptr ? std::nullopt : whole(stated->value);
  if (!value || *value < range.min || *value > range.max) {
    fail(name, fmt::format("must be a whole number from {} to {}", range.min, range.max),
         stated == nullptr ? "nothing" : text_of(stated->value));
  }
  return *value;
}

double Parameters::positive(std::string_view name, std::optional<double> fallback) const {
  const Parameter* stated = spec_.find(name);
  if (stated == nullptr && fallback) return *fallback;
  const std::optional<double> value = stated == nullptr ? std::nullopt : finite(stated->value);
  if (!value || *value <= 0) {
    fail(name, "must be a finite number above 0", stated == nullptr ? "nothing" : text_of(stated->value));
  }
  return *value;
}

double Parameters::number(std::string_view name, double fallback) const {
  const Parameter* stated = spec_.find(name);
  if (stated == nullptr) return fallback;
  const std::optional<double> value = finite(stated->value);
  if (!value) fail(name, "must be a finite number", text_of(stated->value));
  return *value;
}

std::vector<double> Parameters::list(std::string_view name, std::int64_t count) const {
  const Parameter* stated = spec_.find(name);
  if (stated == nullptr && count == 0) return {};
  const auto* values = stated == nullptr ? nullptr : std::get_if<std::vector<double>>(&stated->value);
  if (values == nullptr || (count != 0 && static_cast<std::int64_t>(values->size()) != count)) {
    fail(name,
         count == 0 ? std::string("must be a list") : fmt::format("must be a list of {} numbers", count),
         stated == nullptr ? "nothing" : text_of(stated->value));
  }
  for (const double value : *values) {
    if (!std::isfinite(value)) fail(name, "must hold finite numbers", fmt::format("{}", value));
  }
  return *values;
}

std::size_t Parameters::choice(std::string_view name, std::span<const std::string_view> choices) const {
  const Parameter* stated = spec_.find(name);
  if (stated == nullptr) return 0;
  const auto* word = std::get_if<std::string>(&stated->value);
  for (std::size_t i = 0; word != nullptr && i < choices.size(); ++i) {
    if (choices[i] == *word) return i;
  }
  fail(name, "must be " + joined(choices), text_of(stated->value));
}

std::string Parameters::text(std::string_view name, std::string_view fallback) const {
  const Parameter* stated = spec_.find(name);
  if (stated == nullptr) return std::string(fallback);
  const auto* word = std::get_if<std::string>(&stated->value);
  if (word == nullptr || word->empty()) {
    fail(name, "must be text that is not empty", text_of(stated->value));
  }
  return *word;
}

void Parameters::fail(std::string_view name, std::string_view rule, std::string_view got) const {
  const Parameter* stated = spec_.find(name);
  const std::string key =
      stated == nullptr || stated->key.empty() ? std::string() : fmt::format(" ({})", stated->key);
  throw SpecError(fmt::format("{}: {}{} {}, got {}", mechanism_, name, key, rule, got));
}

}  // namespace locant

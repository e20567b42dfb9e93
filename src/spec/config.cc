// SPDX-License-Identifier: Apache-2.0
#include "spec/config.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "locant/core.h"

namespace locant {

Config::Config(std::string path, Json object, std::string inside)
    : path_(std::move(path)), object_(std::move(object)), inside_(std::move(inside)) {}

const Json& Config::value(std::string_view key) const {
  static const Json kNull;
  const Json* const found = find_member(object_, key);
  return found == nullptr ? kNull : *found;
}

void Config::fail(std::string_view key, std::string_view rule) const {
  throw SpecError(
      fmt::format("{}: {} must be {}, got {}", path_, full_key(key), rule, json_text(value(key))));
}

std::string_view Config::present(const Keys& keys) {
  std::string_view first;
  for (const std::string_view key : keys) {
    if (!object_.contains(std::string(key))) continue;
    read_.emplace(key);
    if (value(key).is_null()) continue;
    if (first.empty()) {
      first = key;
    } else if (value(key) != value(first)) {
      throw SpecError(fmt::format("{}: {} and {} name the same thing and must agree, got {} and {}", path_,
                                  full_key(first), full_key(key), json_text(value(first)),
                                  json_text(value(key))));
    }
  }
  return first;
}

std::optional<std::int64_t> Config::integer(const Keys& keys, std::int64_t least) {
  const std::string_view key = present(keys);
  if (key.empty()) return std::nullopt;
  const Json& found = value(key);
  const bool fits =
      found.is_number_integer() && !(found.is_number_unsigned() && found.get<std::uint64_t>() > INT64_MAX);
  if (!fits || found.get<std::int64_t>() < least)
    fail(key, fmt::format("a whole number of at least {}", least));
  if (found.get<std::int64_t>() > kLargestSize) fail(key, fmt::format("at most {}", kLargestSize));
  return found.get<std::int64_t>();
}

std::int64_t Config::required_integer(const Keys& keys, std::int64_t least) {
  const auto found = integer(keys, least);
  if (!found) {
    throw SpecError(fmt::format("{}: {} must be stated, it is missing", path_, full_key(*keys.begin())));
  }
  return *found;
}

std::optional<double> Config::number(const Keys& keys) {
  const std::string_view key = present(keys);
  if (key.empty()) return std::nullopt;
  if (!value(key).is_number() || !std::isfinite(value(key).get<double>())) fail(key, "a finite number");
  return value(key).get<double>();
}

std::optional<bool> Config::flag(const Keys& keys) {
  const std::string_view key = present(keys);
  if (key.empty()) return std::nullopt;
  if (!value(key).is_boolean()) fail(key, "true or false");
  return value(key).get<bool>();
}

std::optional<std::string> Config::word(const Keys& keys) {
  const std::string_view key = present(keys);
  if (key.empty()) return std::nullopt;
  if (!value(key).is_string()) fail(key, "a word in quotes");
  return value(key).get<std::string>();
}

std::vector<std::int64_t> Config::ids(const Keys& keys) {
  const std::string_view key = present(keys);
  if (key.empty()) return {};
  const Json& found = value(key);
  std::vector<std::int64_t> ids;
  const auto add = [&](const Json& id) {
    const bool fits =
        id.is_number_integer() && !(id.is_number_unsigned() && id.get<std::uint64_t>() > INT64_MAX);
    if (!fits) fail(key, "a token id or a list of token ids");
    // Published configs use -1 for "none".
    if (id.get<std::int64_t>() >= 0) ids.push_back(id.get<std::int64_t>());
  };
  if (found.is_array()) {
    for (const Json& id : found) add(id);
  } else {
    add(found);
  }
  return ids;
}

std::optional<Config> Config::object(std::string_view key) {
  if (present({key}).empty()) return std::nullopt;
  if (!value(key).is_object()) fail(key, "an object");
  return Config(path_, value(key), full_key(key) + ".");
}

void Config::ignore(std::span<const std::string_view> keys) {
  for (const std::string_view key : keys) read_.emplace(key);
}

void Config::require(std::string_view key, const Json& allowed, std::string_view why) {
  if (present({key}).empty() || value(key) == allowed) return;
  fail(key, fmt::format("{} or absent ({})", json_text(allowed), why));
}

std::vector<std::string> Config::unread() const {
  std::vector<std::string> keys;
  for (const auto& item : object_.items()) {
    if (!read_.contains(item.key())) keys.push_back(item.key());
  }
  return keys;
}

}  // namespace locant

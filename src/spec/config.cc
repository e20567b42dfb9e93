// SPDX-License-Identifier: Apache-2.0
#include "spec/config.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "locant/core.h"
#include "spec/config_rules.h"

namespace locant {
namespace {

bool is_whole(const Json& value) {
  return value.is_number_integer() && !(value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX);
}

bool is(const Json& value, JsonKind kind) {
  switch (kind) {
    case JsonKind::whole:
      return is_whole(value);
    case JsonKind::number:
      return value.is_number() && std::isfinite(value.get<double>());
    case JsonKind::flag:
      return value.is_boolean();
    case JsonKind::list:
      return value.is_array();
    case JsonKind::object:
      return value.is_object();
  }
  return false;
}

// The JSON value that a text spells, in JSON's words or Python's.
Json spelt(const std::string& text) {
  constexpr std::size_t kLongest = 1U << 16;
  if (text == "True") return true;
  if (text == "False") return false;
  if (text == "None" || text.size() > kLongest) return nullptr;
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

Json loosened(const Json& value, JsonKind wanted) {
  constexpr double kExact = 0x1p53;
  Json inner = value.is_string() ? spelt(value.get<std::string>()) : value;
  if (is(inner, wanted)) return inner;
  if (wanted == JsonKind::whole && inner.is_number_float()) {
    const double number = inner.get<double>();
    if (number == std::floor(number) && std::abs(number) < kExact) return static_cast<std::int64_t>(number);
  }
  if (wanted == JsonKind::flag && (inner == 0 || inner == 1)) return inner == 1;
  if (wanted == JsonKind::object && inner.is_null()) return inner;
  return value;
}

}  // namespace

Config::Config(std::string path, Json object, std::string inside)
    : path_(std::move(path)), object_(std::move(object)), inside_(std::move(inside)) {}

void Config::tolerate() {
  if (!notes_) notes_ = std::make_shared<std::vector<Note>>();
}

void Config::note(Note note) const {
  if (notes_) notes_->push_back(std::move(note));
}

std::vector<Note> Config::notes() const {
  return notes_ ? *notes_ : std::vector<Note>();
}

const Json& Config::value(std::string_view key) const {
  static const Json kNull;
  const Json* const found = find_member(object_, key);
  return found == nullptr ? kNull : *found;
}

void Config::fail(std::string_view key, std::string_view rule) const {
  throw SpecError(
      fmt::format("{}: {} must be {}, got {}", path_, full_key(key), rule, json_text(value(key))));
}

void Config::refuse(std::string_view key, std::string_view rule, std::string_view id) const {
  if (!notes_) fail(key, rule);
  odd(id, key, fmt::format("is not followed, it would have to be {}, got {}", rule, json_text(value(key))));
}

void Config::odd(std::string_view id, std::string_view key, std::string_view what,
                 std::optional<Severity> severity) const {
  note({.text = fmt::format("{}: {} {}", path_, full_key(key), what),
        .rule = std::string(id),
        .key = full_key(key),
        .severity = severity});
}

Json Config::meant(std::string_view key, const Json& value, JsonKind wanted) const {
  if (!notes_ || is(value, wanted)) return value;
  Json read = loosened(value, wanted);
  if (read.type() != value.type())
    odd(rules::kWrongJsonType, key, fmt::format("is {}, read as {}", json_text(value), json_text(read)));
  return read;
}

std::string_view Config::present(const Keys& keys) {
  if (is_default_) return {};
  std::string_view first;
  for (const std::string_view key : keys) {
    asked_.emplace(key);
    if (!object_.contains(std::string(key))) continue;
    read_.emplace(key);
    if (value(key).is_null()) continue;
    if (first.empty()) {
      first = key;
    } else if (value(key) != value(first)) {
      const std::string sentence =
          fmt::format("{}: {} and {} name the same thing and must agree, got {} and {}", path_,
                      full_key(first), full_key(key), json_text(value(first)), json_text(value(key)));
      if (!notes_) throw SpecError(sentence);
      note({.text = sentence, .rule = std::string(rules::kConflictingKeys), .key = full_key(first)});
    }
  }
  return first;
}

std::string Config::stated(const Keys& keys) {
  const std::string_view key = present(keys);
  return key.empty() ? std::string() : full_key(key);
}

bool Config::mentions(const Keys& keys) const {
  for (const std::string_view key : keys) {
    if (object_.contains(std::string(key))) return true;
  }
  return false;
}

Config::Found Config::find(const Keys& keys) {
  if (const std::string_view key = present(keys); !key.empty()) return {key, &value(key)};
  if (is_default_) {
    for (const std::string_view key : keys) {
      if (const Json* const found = find_member(object_, key); found != nullptr && !found->is_null()) {
        return {key, found};
      }
    }
  }
  if (mentions(keys)) return {};
  for (const std::string_view key : keys) {
    if (const Json* const found = find_member(defaults_, key); found != nullptr && !found->is_null()) {
      return {key, found};
    }
  }
  return {};
}

std::optional<std::int64_t> Config::integer(const Keys& keys, std::int64_t least) {
  const auto [key, found] = find(keys);
  if (found == nullptr) return std::nullopt;
  const Json value = meant(key, *found, JsonKind::whole);
  if (!is_whole(value) || value.get<std::int64_t>() < least) {
    fail(key, fmt::format("a whole number of at least {}", least));
  }
  if (value.get<std::int64_t>() > kLargestSize) fail(key, fmt::format("at most {}", kLargestSize));
  return value.get<std::int64_t>();
}

std::int64_t Config::required_integer(const Keys& keys, std::int64_t least) {
  const auto found = integer(keys, least);
  if (!found) {
    throw SpecError(fmt::format("{}: {} must be stated, it is missing", path_, full_key(*keys.begin())));
  }
  return *found;
}

std::optional<double> Config::number(const Keys& keys) {
  const auto [key, found] = find(keys);
  if (found == nullptr) return std::nullopt;
  const Json value = meant(key, *found, JsonKind::number);
  if (!is(value, JsonKind::number)) fail(key, "a finite number");
  return value.get<double>();
}

std::optional<bool> Config::flag(const Keys& keys) {
  const auto [key, found] = find(keys);
  if (found == nullptr) return std::nullopt;
  const Json value = meant(key, *found, JsonKind::flag);
  if (!value.is_boolean()) fail(key, "true or false");
  return value.get<bool>();
}

std::optional<std::string> Config::word(const Keys& keys) {
  const auto [key, found] = find(keys);
  if (found == nullptr) return std::nullopt;
  if (!found->is_string()) fail(key, "a word in quotes");
  return found->get<std::string>();
}

std::vector<std::int64_t> Config::ids(const Keys& keys) {
  const auto [name, found] = find(keys);
  if (found == nullptr) return {};
  const std::string_view key = name;  // a lambda of C++20 cannot capture a structured binding
  std::vector<std::int64_t> ids;
  const auto add = [&](const Json& stated) {
    const Json id = meant(key, stated, JsonKind::whole);
    if (!is_whole(id)) fail(key, "a token id or a list of token ids");
    // Published configs use -1 for "none".
    if (id.get<std::int64_t>() >= 0) ids.push_back(id.get<std::int64_t>());
  };
  if (found->is_array()) {
    for (const Json& id : *found) add(id);
  } else {
    add(*found);
  }
  return ids;
}

std::vector<double> Config::numbers(const Keys& keys) {
  const auto [key, found] = find(keys);
  std::vector<double> numbers;
  if (found == nullptr) return numbers;
  const Json list = meant(key, *found, JsonKind::list);
  if (!list.is_array()) fail(key, "a list of finite numbers");
  bool said = false;  // once a list
  for (const Json& stated : list) {
    const Json number = said ? loosened(stated, JsonKind::number) : meant(key, stated, JsonKind::number);
    if (!is(number, JsonKind::number)) fail(key, "a list of finite numbers");
    said = said || number.type() != stated.type();
    numbers.push_back(number.get<double>());
  }
  return numbers;
}

std::vector<std::string> Config::words(const Keys& keys) {
  const auto [key, found] = find(keys);
  std::vector<std::string> words;
  if (found == nullptr) return words;
  if (!found->is_array()) fail(key, "a list of words in quotes");
  for (const Json& word : *found) {
    if (!word.is_string()) fail(key, "a list of words in quotes");
    words.push_back(word.get<std::string>());
  }
  return words;
}

std::optional<Config> Config::object(std::string_view key) {
  const auto [name, found] = find({key});
  if (found == nullptr) return std::nullopt;
  Json value = meant(key, *found, JsonKind::object);
  if (value.is_null()) return std::nullopt;
  if (!value.is_object()) fail(key, "an object");
  Config nested(path_, std::move(value), full_key(key) + ".");
  nested.is_default_ = is_default_ || present({key}).empty();
  nested.notes_ = notes_;
  return nested;
}

void Config::ignore(std::span<const std::string_view> keys) {
  for (const std::string_view key : keys) read_.emplace(key);
}

void Config::require(std::string_view key, const Json& allowed, std::string_view why) {
  if (present({key}).empty() || value(key) == allowed) return;
  refuse(key, fmt::format("{} or absent ({})", json_text(allowed), why), rules::kNotReadHere);
}

std::vector<std::string> Config::members() const {
  std::vector<std::string> keys;
  for (const auto& item : object_.items()) keys.push_back(item.key());
  return keys;
}

std::vector<std::string> Config::asked_in_vain() const {
  std::vector<std::string> names;
  for (const std::string& name : asked_) {
    if (!has(name)) names.push_back(name);
  }
  return names;
}

std::vector<std::string> Config::unread() const {
  std::vector<std::string> keys;
  if (is_default_) return keys;
  for (const auto& item : object_.items()) {
    if (!read_.contains(item.key())) keys.push_back(item.key());
  }
  return keys;
}

}  // namespace locant

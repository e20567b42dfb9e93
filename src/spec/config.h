// SPDX-License-Identifier: Apache-2.0
// A config.json while it is read: typed getters that name key, rule and value, the defaults of the family's
// configuration class, and a memory of which keys were read, so that what nobody understood can be reported.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/json.h"
#include "locant/spec.h"

namespace locant {

/// Of any size in a config: a product of two stays in 64 bits.
inline constexpr std::int64_t kLargestSize = (1LL << 31) - 1;
/// A spec holds facts of each layer; a plan holds a slope of each head and a frequency of each pair.
inline constexpr std::int64_t kMostLayers = 1LL << 16;
inline constexpr std::int64_t kMostHeads = 1LL << 20;
inline constexpr std::int64_t kWidestHead = 1LL << 20;

enum class JsonKind : std::uint8_t { whole, number, flag, list, object };

/// Names of one fact, the canonical one first; transformers' attribute_map makes several valid.
class Keys {
 public:
  static constexpr std::size_t kMost = 8;
  constexpr Keys() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): written as {"n_embd", "hidden_size"}
  constexpr Keys(std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) names_.at(count_++) = name;
  }
  [[nodiscard]] constexpr const std::string_view* begin() const noexcept { return names_.data(); }
  [[nodiscard]] constexpr const std::string_view* end() const noexcept { return names_.data() + count_; }

 private:
  std::array<std::string_view, kMost> names_{};
  std::size_t count_ = 0;
};

class Config {
 public:
  /// The object at `path`; `inside` is the dotted place of a nested one ("rope_parameters.").
  Config(std::string path, Json object, std::string inside = {});

  /// What the getters return for keys that are absent; a stated null stays "none".
  void set_defaults(Json defaults) { defaults_ = std::move(defaults); }
  /// From here on refuse() and require() write into notes() instead of throwing, here and in nested objects.
  void tolerate();
  [[nodiscard]] bool tolerant() const noexcept { return notes_ != nullptr; }
  /// The object is a default of the class and not in the file.
  [[nodiscard]] bool by_default() const noexcept { return is_default_; }
  /// Throws SpecError "path: key must be rule, got value", or notes it under the rule of that id where the
  /// config is tolerant.
  void refuse(std::string_view key, std::string_view rule, std::string_view id = {}) const;
  void note(Note note) const;
  void note(std::string sentence) const { note(Note{.text = std::move(sentence)}); }
  /// Notes "path: key what" under the rule of that id, about a key of this object.
  void odd(std::string_view id, std::string_view key, std::string_view what,
           std::optional<Severity> severity = {}) const;
  [[nodiscard]] std::vector<Note> notes() const;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// The first of the names that is stated and not null; "" otherwise. All present names count as read.
  /// SpecError when two of them disagree, a note (C101) where the config is tolerant.
  std::string_view present(const Keys& keys);
  /// The dotted key that states it; "" when only a default does.
  std::string stated(const Keys& keys);
  /// Whether one of the names stands in the file, null included.
  [[nodiscard]] bool mentions(const Keys& keys) const;
  [[nodiscard]] std::string full_key(std::string_view key) const { return inside_ + std::string(key); }

  /// Each throws SpecError "path: key must be ..., got ...". Null counts as absent. Integers end at
  /// kLargestSize. A tolerant config reads "4096", 4096.0, "true" or 1 as what they plainly mean and notes it
  /// (C105).
  std::optional<std::int64_t> integer(const Keys& keys, std::int64_t least);
  std::int64_t required_integer(const Keys& keys, std::int64_t least);
  std::optional<double> number(const Keys& keys);
  std::optional<bool> flag(const Keys& keys);
  std::optional<std::string> word(const Keys& keys);
  /// One id or a list of ids.
  std::vector<std::int64_t> ids(const Keys& keys);
  /// Lists; empty when absent.
  std::vector<double> numbers(const Keys& keys);
  std::vector<std::string> words(const Keys& keys);
  /// A nested object, as the file states it or as the defaults do.
  std::optional<Config> object(std::string_view key);

  /// Marks keys as read whatever they hold.
  void ignore(std::span<const std::string_view> keys);
  /// The key may be there only with this value (or null); refuse() says what was found and why it matters.
  void require(std::string_view key, const Json& value, std::string_view why);
  [[nodiscard]] std::vector<std::string> unread() const;
  [[nodiscard]] std::vector<std::string> members() const;
  /// Names that a getter asked for and that do not stand in the object.
  [[nodiscard]] std::vector<std::string> asked_in_vain() const;
  [[nodiscard]] const Json& value(std::string_view key) const;  ///< as stated; null when absent
  [[nodiscard]] bool has(std::string_view key) const { return object_.contains(std::string(key)); }

  [[noreturn]] void fail(std::string_view key, std::string_view rule) const;

 private:
  struct Found {
    std::string_view key;
    const Json* value = nullptr;
  };
  /// The stated value, else the default; a null pointer when there is neither.
  Found find(const Keys& keys);
  /// The value, or what a value of another JSON type plainly means, noted; always itself in a strict config.
  [[nodiscard]] Json meant(std::string_view key, const Json& value, JsonKind wanted) const;

  std::string path_;
  Json object_;
  std::string inside_;
  Json defaults_ = Json::object();
  bool is_default_ = false;  ///< the object itself comes from the defaults
  std::set<std::string, std::less<>> read_;
  std::set<std::string, std::less<>> asked_;
  std::shared_ptr<std::vector<Note>> notes_;
};

}  // namespace locant

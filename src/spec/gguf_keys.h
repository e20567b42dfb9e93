// SPDX-License-Identifier: Apache-2.0
// The metadata of a GGUF file while it is read: getters under the names of one architecture, and a memory of
// which keys were read. A refusal is a FileError 'path: key "..." is RULE, got VALUE, at byte N'.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "locant/formats.h"
#include "locant/spec.h"

namespace locant {

/// What a file holds, whoever opened it.
struct GgufContents {
  std::string path;
  const std::map<std::string, GgufValue, std::less<>>& metadata;
  std::span<const GgufTensor> tensors;  ///< sorted by name
};

class GgufKeys {
 public:
  /// Reads general.architecture. `contents` must outlive the object.
  explicit GgufKeys(const GgufContents& contents);

  [[nodiscard]] const std::string& path() const noexcept { return contents_.path; }
  [[nodiscard]] const std::string& architecture() const noexcept { return architecture_; }
  /// "rope.freq_base" -> "llama.rope.freq_base"; general.* and tokenizer.* stand for themselves.
  [[nodiscard]] std::string full(std::string_view key) const;
  [[nodiscard]] bool has(std::string_view key) const;

  /// Whole numbers end at 2^31 - 1; numbers are finite. Nothing when the key is absent.
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t least);
  std::int64_t required_integer(std::string_view key, std::int64_t least);
  std::optional<double> number(std::string_view key);
  double required_number(std::string_view key);
  std::optional<bool> flag(std::string_view key);
  std::optional<std::string> word(std::string_view key);
  /// An array of whole numbers of at least 0, at least `count` of them; empty when absent.
  std::vector<std::int64_t> integers(std::string_view key, std::int64_t count);
  /// A number for each of `layers` layers: an array, or one number for all. Empty when absent.
  std::vector<std::int64_t> per_layer(std::string_view key, std::int64_t layers);
  /// Bools or numbers that say yes or no of each layer; empty when absent or no array.
  std::vector<bool> switches(std::string_view key, std::int64_t layers);
  /// Elements of an array of any type; nothing when absent.
  std::optional<std::int64_t> length(std::string_view key);

  [[nodiscard]] bool has_tensors() const noexcept { return !contents_.tensors.empty(); }
  [[nodiscard]] const GgufTensor* tensor(std::string_view name) const noexcept;
  /// The first `count` elements of a tensor of one row, in f64.
  [[nodiscard]] std::vector<double> row_of(const GgufTensor& tensor, std::int64_t count) const;

  void require(std::string_view key) const;  ///< refuses a file that lacks it
  [[noreturn]] void fail(std::string_view key, std::string_view rule) const;
  void note(std::string sentence) { notes_.push_back({.text = std::move(sentence)}); }
  void note(Note note) { notes_.push_back(std::move(note)); }
  void ignore(std::span<const std::string_view> keys);
  /// Keys below `prefix` ("rope.") that nobody read, full names.
  [[nodiscard]] std::vector<std::string> unread(std::string_view prefix) const;
  [[nodiscard]] std::vector<Note>& notes() noexcept { return notes_; }

 private:
  const GgufValue* find(std::string_view key);

  const GgufContents& contents_;
  std::string architecture_;
  std::set<std::string, std::less<>> read_;
  std::vector<Note> notes_;
};

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// Where the answer goes (standard output, or a file that is replaced as a whole at the end), notes and
// progress on stderr, and JSON's outer form.
#pragma once

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>

#include "cli/arguments.h"

namespace locant::cli {

using OrderedJson = nlohmann::ordered_json;

/// Escape sequences, or nothing.
struct Style {
  std::string_view bold;
  std::string_view dim;
  std::string_view off;
};

class Answer {
 public:
  /// Throws UsageError for a bad --color and FileError for an output that cannot be written.
  Answer(Host& host, const CommonFlags& flags);
  [[nodiscard]] std::ostream& stream();
  [[nodiscard]] const Style& style() const noexcept { return style_; }
  /// Pushes what was written so far to the reader, where there is one.
  void flush();
  void write_json(const OrderedJson& object);
  /// Throws FileError when not everything could be written.
  void finish();

 private:
  Host& host_;
  std::string path_;
  std::ostringstream buffer_;
  Style style_;
};

/// {"schema_version", "tool", "version", "command"}: json_head() of the library, to be filled.
[[nodiscard]] OrderedJson json_envelope(std::string_view command);
/// NaN and infinities as strings.
[[nodiscard]] OrderedJson json_number(double value);
template <class T>
[[nodiscard]] OrderedJson or_null(const std::optional<T>& value) {
  if (!value) return nullptr;
  if constexpr (std::is_same_v<T, double>) {
    return json_number(*value);
  } else {
    return *value;
  }
}

/// One line on stderr, replaced by the next and removed at the end; only on a terminal and not with --quiet.
class Progress {
 public:
  Progress(Host& host, const CommonFlags& flags);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void show(const std::string& line);
  void clear();

 private:
  Host& host_;
  bool on_;
  bool shown_ = false;
};

}  // namespace locant::cli

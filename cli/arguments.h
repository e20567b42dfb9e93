// SPDX-License-Identifier: Apache-2.0
// Flags: what every command has, one parse with this program's sentences, and numbers.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"

namespace locant::cli {

/// Bad usage: exit 2. "who: rule, what we got".
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// Not an error: the text that was asked for with --help.
struct HelpAsked {
  std::string text;
};

/// Flags of every command.
struct CommonFlags {
  bool json = false;
  bool quiet = false;
  std::string output;  ///< "" = standard output
  std::string color = "auto";
  std::string threads;  ///< "" = all of this machine's
};
/// Threads to work with. Throws UsageError for what is no number of threads.
[[nodiscard]] int threads_of(std::string_view command, const CommonFlags& common);

/// A text without UTF-8 or control characters that could break a line of stderr, in quotes.
[[nodiscard]] std::string in_quotes(std::string_view text);

/// One command's flags. Every flag takes one value each time it stands there.
class Arguments {
 public:
  /// `examples`: lines that start with "locant".
  Arguments(std::string command, std::string description, std::vector<std::string> examples);
  void flag(const std::string& names, bool& target, const std::string& help);
  /// Once at most.
  CLI::Option* value(const std::string& names, std::string& target, const std::string& help);
  /// Any number of times.
  CLI::Option* values(const std::string& names, std::vector<std::string>& target, const std::string& help);
  CLI::Option* positional(const std::string& name, std::string& target, const std::string& help);
  void add_common(CommonFlags& common);
  /// add_common() without -o, for a command whose -o is not the answer's text.
  void add_manner(CommonFlags& common);
  /// Throws UsageError and HelpAsked.
  void parse(Args args);
  [[nodiscard]] const std::string& command() const noexcept { return command_; }

 private:
  std::string command_;
  CLI::App app_;
  std::vector<CLI::Option*> single_;  ///< a value that is empty is none
  std::vector<std::vector<std::string>*> lists_;
};

/// A whole number within [least, most], else UsageError "run: --top is a whole number from 0, got 'x'".
struct IntegerRule {
  std::string_view command;
  std::string_view flag;
  std::int64_t least = 0;
  std::int64_t most = INT64_MAX;
};
[[nodiscard]] std::int64_t parse_integer(const IntegerRule& rule, std::string_view text);

/// Throws UsageError when `word` is none of `words`, with the nearest.
void require_one_of(std::string_view flag, const std::string& word, const std::vector<std::string>& words);

}  // namespace locant::cli

// SPDX-License-Identifier: Apache-2.0
#include "cli/arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "cli/suggest.h"
#include "locant/threads.h"

namespace locant::cli {
namespace {

/// Stands for an empty argument while the parser works, which would take the next one in its place. No
/// argument of a process holds a NUL.
const std::string kEmpty(1, '\0');

std::vector<std::string> long_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

/// The parser's "--top: 1 required TEXT missing" and its like, in this program's words.
std::string mismatch(const std::string& sentence) {
  const std::string name = sentence.substr(0, sentence.find_first_of(": "));
  if (sentence.find("flag override") != std::string::npos) return fmt::format("--{} takes no value", name);
  const bool missing = sentence.find("missing") != std::string::npos;
  return fmt::format("{} {}", name, missing ? "needs a value" : "stands more than once");
}

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  std::string out = "'";
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7F ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return out + (text.size() > kLongest ? "...'" : "'");
}

Arguments::Arguments(std::string command, std::string description, std::vector<std::string> examples)
    : command_(std::move(command)), app_(std::move(description), "locant " + command_) {
  app_.set_help_flag("-h,--help", "this page");
  app_.allow_extras();
  app_.get_formatter()->column_width(34);
  app_.footer(fmt::format("Examples:\n  {}", fmt::join(examples, "\n  ")));
}

void Arguments::flag(const std::string& names, bool& target, const std::string& help) {
  app_.add_flag(names, target, help)->disable_flag_override();
}

CLI::Option* Arguments::value(const std::string& names, std::string& target, const std::string& help) {
  return single_.emplace_back(app_.add_option(names, target, help));
}

CLI::Option* Arguments::values(const std::string& names, std::vector<std::string>& target,
                               const std::string& help) {
  lists_.push_back(&target);
  // Without extra arguments a value is taken as it stands: brackets and commas mean nothing to the parser.
  return app_.add_option(names, target, help)->allow_extra_args(false)->take_all()->type_size(1);
}

CLI::Option* Arguments::positional(const std::string& name, std::string& target, const std::string& help) {
  return single_.emplace_back(app_.add_option(name, target, help));
}

void Arguments::add_common(CommonFlags& common) {
  value("-o,--output", common.output, "write the answer to this file instead")->type_name("FILE");
  add_manner(common);
}

void Arguments::add_manner(CommonFlags& common) {
  flag("--json", common.json, "exactly one JSON object on standard output");
  flag("--quiet", common.quiet, "no progress and no notes on standard error");
  value("--color", common.color, "auto, always or never (auto)")->type_name("WHEN");
  value("--threads", common.threads, "threads (all of this machine's)")->type_name("N");
}

int threads_of(std::string_view command, const CommonFlags& common) {
  constexpr std::int64_t kMostThreads = 1024;
  if (common.threads.empty()) return ThreadPool::hardware();
  return static_cast<int>(parse_integer({command, "--threads", 1, kMostThreads}, common.threads));
}

void Arguments::parse(Args args) {
  std::vector<std::string> reversed(args.rbegin(), args.rend());
  std::replace(reversed.begin(), reversed.end(), std::string(), kEmpty);
  try {
    app_.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    throw HelpAsked{app_.help()};
  } catch (const CLI::ArgumentMismatch& error) {
    throw UsageError(fmt::format("{}: {}", command_, mismatch(error.what())));
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("{}: {}", command_, error.what()));
  }
  const std::vector<std::string> rest = app_.remaining();
  for (const std::string& word : rest) {
    if (word.size() < 2 || word.front() != '-') continue;
    const std::string name = word.substr(0, word.find('='));
    throw UsageError(
        fmt::format("{}: there is no flag {}{}", command_, name, did_you_mean(name, long_names(app_))));
  }
  for (const CLI::Option* option : single_) {
    if (option->count() > 0 && option->results().front() == kEmpty) {
      throw UsageError(fmt::format("{}: {} needs a value, got ''", command_, option->get_name()));
    }
  }
  for (std::vector<std::string>* list : lists_)
    std::replace(list->begin(), list->end(), kEmpty, std::string());
  if (!rest.empty())
    throw UsageError(fmt::format("{}: unexpected argument {}", command_, in_quotes(rest.front())));
}

std::int64_t parse_integer(const IntegerRule& rule, std::string_view text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < rule.least || value > rule.most) {
    const std::string range = rule.most != INT64_MAX    ? fmt::format(" from {} to {}", rule.least, rule.most)
                              : rule.least != INT64_MIN ? fmt::format(" from {}", rule.least)
                                                        : "";
    throw UsageError(
        fmt::format("{}: {} is a whole number{}, got {}", rule.command, rule.flag, range, in_quotes(text)));
  }
  return value;
}

void require_one_of(std::string_view flag, const std::string& word, const std::vector<std::string>& words) {
  if (std::find(words.begin(), words.end(), word) != words.end()) return;
  throw UsageError(fmt::format("{} is {}, got {}{}", flag, fmt::join(words, ", "), in_quotes(word),
                               did_you_mean(word, words)));
}

}  // namespace locant::cli

// SPDX-License-Identifier: Apache-2.0
#include "arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <map>

#include "locant/core.h"

namespace locant::bench {
namespace {

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

int count_of(const std::string& text) {
  int count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc{} || end != text.data() + text.size() || count < 1) {
    throw SpecError(fmt::format("--threads: whole numbers of one or more, got {}", text));
  }
  return count;
}

double seconds_of(const std::string& text) {
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  if (end != text.c_str() + text.size() || text.empty() || !(seconds > 0)) {
    throw SpecError(fmt::format("--seconds: a number above 0, got {}", text));
  }
  return seconds;
}

}  // namespace

Arguments parse(const std::vector<std::string>& args) {
  Arguments result;
  std::string threads = "1", peers;
  const std::map<std::string, std::string*> valued{
      {"--threads", &threads},      {"--only", &result.options.only}, {"--target", &result.target},
      {"--peers", &peers},          {"--peer", &result.interpreter},  {"--seconds", &result.seconds},
      {"--output", &result.output}, {"--save", &result.save}};
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--json") {
      result.json = true;
    } else if (args[i] == "--quick") {
      result.quick = true;
    } else if (args[i] == "--resume") {
      result.resume = true;
    } else if (const auto flag = valued.find(args[i]); flag == valued.end()) {
      throw SpecError(fmt::format("{} is no flag", args[i]));
    } else if (i + 1 == args.size()) {
      throw SpecError(fmt::format("{} needs a value", args[i]));
    } else {
      *flag->second = args[++i];
    }
  }
  result.threads.clear();
  for (const std::string& part : parts_of(threads)) result.threads.push_back(count_of(part));
  if (!peers.empty()) result.peers = parts_of(peers);
  if (result.quick) {
    result.options.seconds = 0.04;
    result.options.slices = 3;
  }
  if (!result.seconds.empty()) result.options.seconds = seconds_of(result.seconds);
  if (result.resume && result.save.empty()) throw SpecError("--resume needs --save, the folder to go on in");
  return result;
}

namespace {

void add(std::string& flags, std::string_view flag, const std::string& value) {
  if (!value.empty()) flags += fmt::format("{}{} {}", flags.empty() ? "" : " ", flag, value);
}

}  // namespace

std::string row_flags(const Arguments& arguments) {
  std::string flags = arguments.quick ? "--quick" : "";
  add(flags, "--seconds", arguments.seconds);
  add(flags, "--peers", fmt::format("{}", fmt::join(arguments.peers, ",")));
  return flags;
}

std::string omissions(const Arguments& arguments) {
  std::string flags = row_flags(arguments);
  add(flags, "--only", arguments.options.only);
  return flags;
}

}  // namespace locant::bench

// SPDX-License-Identifier: Apache-2.0
#include "cli/html_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>

#include "cli/models.h"
#include "cli/stream.h"
#include "locant/facts.h"
#include "locant/formats.h"

namespace locant::cli {
namespace {

/// As a shell takes it.
std::string quoted(const std::string& word) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_./,:=+@%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string text = "'";
  for (const char c : one_line(word)) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

/// Builds that are to be the same again state their date.
std::string date(const Host& host) {
  auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  const std::string given = host.environment("SOURCE_DATE_EPOCH");
  std::int64_t seconds = 0;
  const auto [stop, error] = std::from_chars(given.data(), given.data() + given.size(), seconds);
  if (!given.empty() && error == std::errc() && stop == given.data() + given.size()) now = seconds;
  std::tm parts{};
  if (gmtime_r(&now, &parts) == nullptr) return "";
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02} UTC", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min);
}

}  // namespace

HtmlPage::HtmlPage(std::string path, const CommonFlags& common, const std::string& command, Args args)
    : path_(std::move(path)) {
  if (path_.empty()) return;
  if (path_ == common.output)
    throw UsageError(fmt::format("{}: -o and --html are two files, got {} twice", command, in_quotes(path_)));
  check_writable(path_);
  command_line_ = "locant " + command;
  for (const std::string& word : args) command_line_ += " " + quoted(word);
}

std::size_t HtmlPage::write(HtmlReport report, const Host& host) const {
  report.command_line = command_line_;
  report.made = date(host);
  const std::string page = report_html(report);
  write_file(path_, page);
  return page.size();
}

std::optional<Facts> page_facts(const std::string& path, const std::string& recipe) {
  const ModelFiles model = read_model_files(path);
  try {
    return facts_of(model.spec, {.recipe = recipe, .weights = model.weights});
  } catch (const SpecError&) {
    return std::nullopt;  // the answer itself says so
  }
}

std::vector<std::optional<Facts>> page_facts(const CompareReport& report) {
  std::vector<std::optional<Facts>> sides;
  for (std::size_t i = 0; i < report.recipes.size(); ++i) {
    const bool other = i > 0 && !report.other.empty();
    sides.push_back(page_facts(other ? report.other : report.model, report.recipes[i]));
  }
  return sides;
}

ComparePart page_part(const CompareReport& report, const std::vector<std::optional<Facts>>& sides) {
  ComparePart part{.report = &report, .sides = {}};
  for (const std::optional<Facts>& side : sides) part.sides.push_back(side ? &*side : nullptr);
  return part;
}

void add_html(Arguments& arguments, std::string& path) {
  arguments.value("--html", path, "write the answer as one HTML page with its evidence drawn there, too")
      ->type_name("FILE");
}

}  // namespace locant::cli

// SPDX-License-Identifier: Apache-2.0
// The page that --html asks for: its path is looked at before the work, the file is replaced as a whole at
// the end.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "locant/compare.h"
#include "locant/report.h"

namespace locant::cli {

class HtmlPage {
 public:
  /// `path` "" = none is asked for. Throws FileError for a path that cannot be written, UsageError where the
  /// answer itself goes there.
  HtmlPage(std::string path, const CommonFlags& common, const std::string& command, Args args);
  [[nodiscard]] bool asked() const noexcept { return !path_.empty(); }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Fills in the command line and the date (SOURCE_DATE_EPOCH where that is set). Returns the bytes written.
  std::size_t write(HtmlReport report, const Host& host) const;

 private:
  std::string path_;
  std::string command_line_;
};

/// The facts that a page shows beside another answer; nothing where the recipe has no plan for the model.
[[nodiscard]] std::optional<Facts> page_facts(const std::string& path, const std::string& recipe);
/// Of each side of a comparison.
[[nodiscard]] std::vector<std::optional<Facts>> page_facts(const CompareReport& report);
/// A comparison with the facts of its sides; both must outlive the page.
[[nodiscard]] ComparePart page_part(const CompareReport& report,
                                    const std::vector<std::optional<Facts>>& sides);

/// --html, as every command with a page has it.
void add_html(Arguments& arguments, std::string& path);

}  // namespace locant::cli

// SPDX-License-Identifier: Apache-2.0
// What was found out in the forms that people and other programs read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "locant/check.h"
#include "locant/compare.h"
#include "locant/facts.h"
#include "locant/trust.h"

namespace locant {

/// What every JSON object of the command begins with: {"schema_version", "tool", "version", "command"}.
[[nodiscard]] std::string json_head(std::string_view command);
/// JSON has no such numbers: "nan", "inf" or "-inf"; "" for a finite one.
[[nodiscard]] std::string_view non_finite_word(double value) noexcept;

/// One JSON object with the keys of `locant check --json`: schema_version, tool, version, command, evidence,
/// findings, explained, passed, skipped. Strings that are no UTF-8 have their bad bytes replaced.
[[nodiscard]] std::string report_json(const CheckReport& report);

/// SARIF 2.1.0 (OASIS), one run: rules, results with level, message and place.
[[nodiscard]] std::string report_sarif(const CheckReport& report);

/// JUnit's XML: a test case per rule; findings of level `fail_on` and above fail it, skipped rules are
/// skipped.
[[nodiscard]] std::string report_junit(const CheckReport& report, Severity fail_on = Severity::error);

/// A comparison on a page.
struct ComparePart {
  const CompareReport* report = nullptr;
  std::vector<const Facts*>
      sides{};  ///< of report->sides, for the drawing of their pairs; null or absent = not drawn
};

/// What one page shows; a part that is null is left out. All of it must outlive the call.
struct HtmlReport {
  std::string title{};         ///< empty = the last name of the model's path
  std::string model{};         ///< path, as given
  std::string command_line{};  ///< empty = not stated
  std::string made{};          ///< date, empty = not stated
  const Facts* facts = nullptr;
  const CheckReport* check = nullptr;
  const TrustReport* trust = nullptr;
  std::vector<ComparePart> compare{};  ///< one of recipes, one of two models
};
/// One HTML file in UTF-8 that loads nothing and runs nothing: text, tables and drawn evidence, below 1 MB
/// for 128 layers and 200 findings. It is well-formed XML, too. Bytes of strings that are no UTF-8 are
/// replaced.
[[nodiscard]] std::string report_html(const HtmlReport& report);

/// A part of that page, "inspect", "check", "trust", "recipes" or "models", and the sentence about it at the
/// head.
struct PartVerdict {
  std::string part{};
  std::string text{};
};
[[nodiscard]] std::vector<PartVerdict> report_verdicts(const HtmlReport& report);

/// One JSON object with the keys of `locant diff --json`.
[[nodiscard]] std::string diff_json(const TraceDiff& diff);

/// One JSON object with the keys of `locant trust --json`.
[[nodiscard]] std::string trust_json(const TrustReport& report);

/// A finding that is known and accepted: its rule and its place in words, without the numbers.
struct KnownFinding {
  std::string rule{};
  std::string place{};
};
/// The findings of a report as a baseline file: {"locant_baseline": 1, "known": [{rule, place}]}.
[[nodiscard]] std::string baseline_json(const CheckReport& report);
/// Reads what baseline_json() wrote. Throws FileError.
[[nodiscard]] std::vector<KnownFinding> read_baseline(const std::string& path);
/// Moves the findings that the baseline names from `findings` to `known`; returns the entries that no finding
/// matched any more.
std::vector<KnownFinding> apply_baseline(CheckReport& report, const std::vector<KnownFinding>& known);

/// Where a finding begins, in words: "layer 1, step 2, row 0, token 3 of layers.1.attn.q"; "" = nowhere.
[[nodiscard]] std::string place_text(const Place& place);

}  // namespace locant

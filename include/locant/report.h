// SPDX-License-Identifier: Apache-2.0
// A check's report in the forms that people and other programs read.
#pragma once

#include <string>

#include "locant/check.h"

namespace locant {

/// One JSON object with the keys of `locant check --json`: schema_version, tool, version, command, evidence,
/// findings, explained, passed, skipped. Strings that are no UTF-8 have their bad bytes replaced.
[[nodiscard]] std::string report_json(const CheckReport& report);

/// SARIF 2.1.0 (OASIS), one run: rules, results with level, message and place.
[[nodiscard]] std::string report_sarif(const CheckReport& report);

/// JUnit's XML: a test case per rule; findings of level `fail_on` and above fail it, skipped rules are
/// skipped.
[[nodiscard]] std::string report_junit(const CheckReport& report, Severity fail_on = Severity::error);

/// Where a finding begins, in words: "layer 1, step 2, row 0, token 3 of layers.1.attn.q"; "" = nowhere.
[[nodiscard]] std::string place_text(const Place& place);

}  // namespace locant

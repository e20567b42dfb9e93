// SPDX-License-Identifier: Apache-2.0
// JUnit's XML as CI systems read it: <testsuite> of <testcase> with <failure> or <skipped>.
#include <fmt/format.h>

#include <algorithm>

#include "locant/report.h"
#include "report/entity.h"
#include "report/json_form.h"

namespace locant {
namespace {

/// Text and attribute values; control characters that XML 1.0 has no form for become '?'.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : as_utf8(text)) {
    if (const std::string_view entity = entity_of(c); !entity.empty()) {
      out += entity;
    } else {
      out += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    }
  }
  return out;
}

}  // namespace

std::string report_junit(const CheckReport& report, Severity fail_on) {
  std::string cases;
  std::size_t failures = 0;
  std::size_t tests = 0;
  const auto add = [&](const Rule& rule, const std::string& inside) {
    ++tests;
    cases += fmt::format("    <testcase classname=\"locant.check\" name=\"{} {}\"{}", rule.id, rule.name,
                         inside.empty() ? "/>\n" : ">\n" + inside + "    </testcase>\n");
  };
  for (const Finding& finding : report.findings) {
    const bool fails = finding.severity >= fail_on;
    failures += fails ? 1 : 0;
    const std::string text = escaped(finding.message);
    add(*finding.rule,
        fails ? fmt::format("      <failure type=\"{}\" message=\"{}\"/>\n", name_of(finding.severity), text)
              : fmt::format("      <system-out>{}: {}</system-out>\n", name_of(finding.severity), text));
  }
  for (const Finding& finding : report.known)
    add(*finding.rule, fmt::format("      <system-out>known: {}</system-out>\n", escaped(finding.message)));
  for (const Explained& explained : report.explained)
    add(*explained.finding.rule,
        fmt::format("      <system-out>explained by {}</system-out>\n", explained.by));
  for (const Rule* const rule : report.passed) add(*rule, "");
  for (const Skipped& skipped : report.skipped)
    add(*skipped.rule, fmt::format("      <skipped message=\"needs {}\"/>\n", escaped(skipped.needs)));
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
      "  <testsuite name=\"locant check\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\">\n{}  "
      "</testsuite>\n"
      "</testsuites>\n",
      tests, failures, report.skipped.size(), cases);
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// Faults of released packages, recorded, each beside a clean twin: named by the right family with the numbers
// that case.json lists; the twin is silent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/temp_dir.h"
#include "locant/check.h"

namespace locant {
namespace {

namespace fs = std::filesystem;

fs::path folder() {
  return fs::path(LOCANT_TEST_DATA_DIR) / "real-faults";
}

std::vector<std::string> cases() {
  std::vector<std::string> names;
  if (std::string(LOCANT_TEST_DATA_DIR).empty() || !fs::is_directory(folder())) return names;
  for (const auto& entry : fs::directory_iterator(folder())) {
    if (fs::exists(entry.path() / "case.json")) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

CheckReport report_of(const fs::path& place, const std::string& trace) {
  const ModelSpec spec = read_hf_config((place / "model").string(), Reading::facts);
  CheckQuery query;
  query.spec = &spec;
  query.weights = (place / "model").string();
  query.traces = {(place / trace).string()};
  return check(query);
}

std::string text_of(const CheckReport& report) {
  std::string text;
  for (const Finding& finding : report.findings)
    text += std::string(finding.rule->id) + " " + std::string(name_of(finding.severity)) + " " +
            finding.message + "\n";
  return text;
}

/// The evidence of a finding can be drawn: what was due and what is there are apart.
void expect_drawn(const Finding& finding) {
  ASSERT_FALSE(finding.curves.empty());
  bool apart = false;
  for (const Curve& curve : finding.curves) {
    EXPECT_FALSE(curve.name.empty() || curve.x_label.empty() || curve.y_label.empty());
    EXPECT_LE(curve.x.size(), Curve::kMostPoints);
    EXPECT_TRUE(std::is_sorted(curve.x.begin(), curve.x.end())) << curve.name;
    ASSERT_EQ(curve.expected.size(), curve.x.size()) << curve.name;
    ASSERT_EQ(curve.observed.size(), curve.x.size()) << curve.name;
    apart = apart || curve.expected != curve.observed;
  }
  EXPECT_TRUE(apart);
}

TEST(RealFaults, AreNamedAndTheirTwinsAreSilent) {
  const std::vector<std::string> names = cases();
  if (names.empty()) GTEST_SKIP() << "the recorded faults of releases are not here";
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const fs::path place = folder() / name;
    const auto expected = nlohmann::json::parse(tests::slurp((place / "case.json").string()));
    const CheckReport buggy = report_of(place, "buggy.safetensors");
    ASSERT_EQ(buggy.findings.size(), 1U) << text_of(buggy);
    expect_drawn(buggy.findings.front());
    const Finding& finding = buggy.findings.front();
    EXPECT_THAT(expected["expect_family"].get<std::string>(),
                testing::HasSubstr(std::string(1, finding.rule->id[0])));
    EXPECT_EQ(name_of(finding.severity), expected["expect_severity"].get<std::string>());
    for (const auto& word : expected["expect_words"])
      EXPECT_THAT(finding.message, testing::HasSubstr(word.get<std::string>()));
    const CheckReport fixed = report_of(place, "fixed.safetensors");
    EXPECT_TRUE(fixed.findings.empty()) << text_of(fixed);
    EXPECT_FALSE(fixed.passed.empty());
  }
}

}  // namespace
}  // namespace locant

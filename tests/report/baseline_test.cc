// SPDX-License-Identifier: Apache-2.0
// Baselines: what is written is read, known findings move, entries without a finding come back, damaged files
// are refused in a sentence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/temp_dir.h"
#include "locant/report.h"

namespace locant {
namespace {

using testing::HasSubstr;

Finding finding_of(const char* rule, std::int64_t layer) {
  Finding finding;
  finding.rule = &find_rule(rule);
  finding.message = "theta 10000 where 50000 is due";
  finding.where.tensor = "layers.attn.q";
  finding.where.layer = layer;
  return finding;
}

CheckReport sample() {
  CheckReport report;
  report.findings = {finding_of("R106", 0), finding_of("R106", 1), finding_of("P103", 0)};
  return report;
}

TEST(Baseline, WhatIsWrittenIsRead) {
  const tests::TempDir folder;
  CheckReport report = sample();
  report.findings.push_back(finding_of("R106", 0));  // twice in one place is one entry
  const std::vector<KnownFinding> known = read_baseline(folder.write("b.json", baseline_json(report)));
  ASSERT_EQ(known.size(), 3U);
  EXPECT_EQ(known[0].rule, "R106");
  EXPECT_EQ(known[0].place, "layer 0 of layers.attn.q");
  EXPECT_TRUE(apply_baseline(report, known).empty());
  EXPECT_TRUE(report.findings.empty());
  EXPECT_EQ(report.known.size(), 4U);
  // what is known stays known when it is written again
  EXPECT_EQ(read_baseline(folder.write("c.json", baseline_json(report))).size(), 3U);
}

TEST(Baseline, NumbersDoNotCountAndPlacesDo) {
  CheckReport report = sample();
  report.findings[0].message = "theta 10007 where 50000 is due";
  const std::vector<KnownFinding> unmatched =
      apply_baseline(report, {{"R106", "layer 0 of layers.attn.q"}, {"R106", "layer 7 of layers.attn.q"}});
  ASSERT_EQ(unmatched.size(), 1U);
  EXPECT_EQ(unmatched[0].place, "layer 7 of layers.attn.q");
  ASSERT_EQ(report.findings.size(), 2U);
  EXPECT_EQ(report.findings[0].where.layer, 1);
  EXPECT_EQ(report.findings[1].rule->id, "P103");
  EXPECT_EQ(report.known.size(), 1U);
}

std::string refusal(const std::string& text) {
  const tests::TempDir folder;
  const std::string path = folder.write("b.json", text);
  return tests::message_of<FileError>([&] { (void)read_baseline(path); });
}

TEST(Baseline, DamagedFilesAreRefused) {
  EXPECT_THAT(refusal("{"), HasSubstr("b.json: "));
  EXPECT_THAT(refusal("[]"), HasSubstr("a baseline has the keys locant_baseline and known"));
  EXPECT_THAT(refusal(R"({"locant_baseline": 1})"), HasSubstr("a baseline has the keys"));
  EXPECT_THAT(refusal(R"({"locant_baseline": 1, "known": {}})"), HasSubstr("a baseline has the keys"));
  EXPECT_THAT(refusal(R"({"locant_baseline": 2, "known": []})"),
              HasSubstr("locant_baseline 1 is read, got 2"));
  EXPECT_THAT(refusal(R"({"locant_baseline": 1, "known": ["R106"]})"),
              HasSubstr("an entry of known has the words rule and place"));
  EXPECT_THAT(refusal(R"({"locant_baseline": 1, "known": [{"rule": "R106"}]})"),
              HasSubstr("an entry of known has the words rule and place"));
  EXPECT_THAT(refusal(R"({"locant_baseline": 1, "known": [{"rule": "R999", "place": ""}]})"),
              HasSubstr("known names rule ids, got \"R999\""));
  EXPECT_THAT(tests::message_of<FileError>([] { (void)read_baseline("nowhere.json"); }),
              HasSubstr("nowhere.json: cannot be read"));
}

}  // namespace
}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// A report in its forms: every rule once, keys as documented, characters that XML and JSON need escaped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "locant/report.h"

namespace locant {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;
using testing::Not;

CheckReport sample() {
  CheckReport report;
  report.evidence = {{EvidenceKind::trace, "runs/a.safetensors", "ab"}};
  Finding finding;
  finding.rule = &find_rule("R106");
  finding.severity = Severity::error;
  finding.message = "theta <10000> & \"more\"\x01";
  finding.where.file = "runs/a.safetensors";
  finding.where.tensor = "layers.1.attn.q";
  finding.where.layer = 1;
  finding.where.step = 0;
  finding.expected = 50000.0;
  finding.observed = std::string("10000");
  finding.hypotheses = {{"theta", {{"theta", 10000.0}}, 1e-7, INFINITY}};
  finding.next = "pass it on";
  report.findings = {finding};
  Finding later = finding;
  later.rule = &find_rule("P103");
  later.severity = Severity::note;
  report.findings.push_back(later);
  Finding explained = finding;
  explained.rule = &find_rule("T101");
  report.explained = {{explained, "R106"}};
  report.passed = {&find_rule("R101")};
  report.skipped = {{&find_rule("B101"), "scores"}};
  return report;
}

TEST(ReportJson, HoldsTheDocumentedKeys) {
  const Json out = Json::parse(report_json(sample()));
  EXPECT_EQ(out["schema_version"], 1);
  EXPECT_EQ(out["tool"], "locant");
  EXPECT_EQ(out["command"], "check");
  EXPECT_EQ(out["evidence"][0]["kind"], "trace");
  EXPECT_EQ(out["evidence"][0]["sha256"], "ab");
  const Json& finding = out["findings"][0];
  EXPECT_EQ(finding["rule"], "R106");
  EXPECT_EQ(finding["name"], "theta");
  EXPECT_EQ(finding["severity"], "error");
  EXPECT_EQ(finding["where"]["layer"], 1);
  EXPECT_FALSE(finding["where"].contains("row"));
  EXPECT_EQ(finding["expected"], 50000.0);
  EXPECT_EQ(finding["observed"], "10000");
  EXPECT_EQ(finding["hypotheses"][0]["parameters"]["theta"], 10000.0);
  EXPECT_EQ(finding["hypotheses"][0]["budget"], "inf");
  EXPECT_EQ(out["explained"][0]["rule"], "T101");
  EXPECT_EQ(out["explained"][0]["by"], "R106");
  EXPECT_EQ(out["passed"][0], "R101");
  EXPECT_EQ(out["skipped"][0]["needs"], "scores");
}

TEST(ReportSarif, NamesEveryRuleAndItsIndex) {
  const Json out = Json::parse(report_sarif(sample()));
  EXPECT_EQ(out["version"], "2.1.0");
  const Json& run = out["runs"][0];
  const Json& described = run["tool"]["driver"]["rules"];
  EXPECT_EQ(described.size(), rules().size());
  for (const Json& result : run["results"])
    EXPECT_EQ(described[result["ruleIndex"].get<std::size_t>()]["id"], result["ruleId"]);
  EXPECT_EQ(run["results"][0]["level"], "error");
  EXPECT_EQ(run["results"][1]["level"], "note");
  EXPECT_EQ(run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"],
            "runs/a.safetensors");
  EXPECT_EQ(run["results"][0]["locations"][0]["logicalLocations"][0]["fullyQualifiedName"],
            "layer 1, step 0 of layers.1.attn.q");
}

TEST(ReportSarif, EveryResultHasAPlaceAndAFingerprint) {
  CheckReport report = sample();
  report.findings[0].where.file = "runs of today/a#1.safetensors";
  report.findings[1].where.file.clear();
  report.known = {report.findings[0]};
  const Json out = Json::parse(report_sarif(report));
  const Json& results = out["runs"][0]["results"];
  const auto uri = [&](std::size_t at) {
    return results[at]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].get<std::string>();
  };
  EXPECT_EQ(uri(0), "runs%20of%20today/a%231.safetensors");
  EXPECT_EQ(uri(1), "runs/a.safetensors");  // the evidence
  report.findings[0].where.file = "/data/a.safetensors";
  EXPECT_THAT(report_sarif(report), HasSubstr("\"file:///data/a.safetensors\""));
  std::set<std::string> prints;
  for (const Json& result : results) {
    EXPECT_TRUE(prints.insert(result["partialFingerprints"]["rulePlace/v1"].get<std::string>()).second);
  }
  EXPECT_EQ(results[2]["suppressions"][0]["kind"], "external");
  // numbers do not count
  CheckReport later = report;
  later.findings[0].message = "theta 10001";
  const Json again = Json::parse(report_sarif(later));
  EXPECT_EQ(again["runs"][0]["results"][0]["partialFingerprints"], results[0]["partialFingerprints"]);
}

TEST(DiffJson, HoldsTheDocumentedKeys) {
  TraceDiff found;
  found.tensors_compared = 7;
  const Json same = Json::parse(diff_json(found));
  EXPECT_EQ(same["command"], "diff");
  EXPECT_EQ(same["schema_version"], 1);
  EXPECT_TRUE(same["first"].is_null());
  EXPECT_TRUE(same["differing"].empty());
  Divergence first;
  first.tensor = "layers.1.attn.q";
  first.step = 2;
  first.row = 0;
  first.token = 3;
  first.got = -INFINITY;
  first.want = std::string("[1,2]");
  first.difference = INFINITY;
  first.budget = 0.5;
  found.first = first;
  found.differing = {first};
  found.hypotheses = {{"theta", {{"theta", 10000.0}}, 1e-7, 1e-6}};
  found.missing = {{"pooled", "b.safetensors"}};
  found.notes = {"a note"};
  const Json out = Json::parse(diff_json(found));
  EXPECT_EQ(out["tensors_compared"], 7);
  EXPECT_EQ(out["first"]["tensor"], "layers.1.attn.q");
  EXPECT_EQ(out["first"]["step"], 2);
  EXPECT_EQ(out["first"]["row"], 0);
  EXPECT_EQ(out["first"]["token"], 3);
  EXPECT_TRUE(out["first"]["head"].is_null());
  EXPECT_EQ(out["first"]["got"], "-inf");
  EXPECT_EQ(out["first"]["want"], "[1,2]");
  EXPECT_EQ(out["first"]["difference"], "inf");
  EXPECT_EQ(out["first"]["budget"], 0.5);
  EXPECT_EQ(out["hypotheses"][0]["parameters"]["theta"], 10000.0);
  EXPECT_EQ(out["missing"][0]["tensor"], "pooled");
  EXPECT_EQ(out["missing"][0]["path"], "b.safetensors");
  EXPECT_EQ(out["differing"].size(), 1U);
  EXPECT_EQ(out["notes"][0], "a note");
}

TEST(ReportJunit, BytesThatAreNoTextAreReplaced) {
  CheckReport report = sample();
  report.findings[0].message = "bad \xFF byte";
  EXPECT_THAT(report_junit(report), HasSubstr("bad \xEF\xBF\xBD byte"));
}

TEST(ReportJunit, FailsFromTheSeverityOn) {
  const std::string errors = report_junit(sample());
  EXPECT_THAT(errors, HasSubstr("tests=\"5\" failures=\"1\" errors=\"0\" skipped=\"1\""));
  EXPECT_THAT(errors, HasSubstr("theta &lt;10000&gt; &amp; &quot;more&quot;?"));
  EXPECT_THAT(errors, Not(HasSubstr("\x01")));
  EXPECT_THAT(report_junit(sample(), Severity::note), HasSubstr("failures=\"2\""));
}

TEST(Rules, AreSortedAndWhole) {
  std::set<std::string_view> ids;
  std::set<std::string_view> names;
  std::string_view before;
  for (const Rule& rule : rules()) {
    EXPECT_LT(before, rule.id);
    before = rule.id;
    EXPECT_TRUE(ids.insert(rule.id).second) << rule.id;
    EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
    for (const std::string_view part : {rule.summary, rule.needs, rule.example, rule.cannot_tell, rule.fix})
      EXPECT_FALSE(part.empty()) << rule.id;
  }
  EXPECT_EQ(find_rule("theta").id, "R106");
  EXPECT_THROW((void)find_rule("R999"), SpecError);
}

TEST(PlaceText, SaysWhatThereIs) {
  EXPECT_EQ(place_text({}), "");
  Place place;
  place.key = "rope_theta";
  EXPECT_EQ(place_text(place), "rope_theta");
  place.layer = 3;
  EXPECT_EQ(place_text(place), "layer 3 of rope_theta");
}

}  // namespace
}  // namespace locant

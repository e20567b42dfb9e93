// SPDX-License-Identifier: Apache-2.0
// The page: well-formed, self-contained, small, escaped, and readable without eyes or colours.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "report/html_samples.h"

namespace locant {
namespace {

using testing::HasSubstr;
using testing::Not;
using tests::compared;
using tests::Element;
using tests::found;
using tests::page_of;
using tests::parsed;
using tests::trusted;
using tests::turning;

constexpr std::size_t kMostBytes = 1'000'000;

TEST(ReportHtml, ShowsLengthsLossAndCopies) {
  const TrustReport trust = trusted();
  HtmlReport report;
  report.model = "m";
  report.trust = &trust;
  const std::string page = report_html(report);
  const Element root = parsed(page);
  EXPECT_EQ(root.all("figure").size(), 5U);  // lengths, loss, rise, copies, schedule
  for (const char* const text : {"trusted to 512 (retrieval), declared 4096",
                                 "<td>4,096 (max_position_embeddings: a field, no proof)</td>",
                                 "<td>1,024 (within 0.02 nats, 24 documents, 95 %)</td>", "7/8",
                                 "without end", "Left out: 4096 tokens: no time", "not measured: no time",
                                 "norms fall at row 400", "angles-out-of-range: pair 7 leaves at 2048"})
    EXPECT_THAT(page, HasSubstr(text));
  EXPECT_EQ(report_verdicts(report).at(0).part, "trust");
}

TEST(ReportHtml, ATrustThatWasNotMeasuredSaysSo) {
  TrustReport trust = trusted();
  trust.measured.reset();
  HtmlReport report;
  report.trust = &trust;
  const std::string page = report_html(report);
  EXPECT_NO_THROW((void)parsed(page));
  EXPECT_THAT(page, HasSubstr("not measured: no text was given"));
  EXPECT_THAT(page, Not(HasSubstr("What was measured")));
}

TEST(ReportHtml, ShowsWhereReadingsPart) {
  const CompareReport compare = compared();
  Facts hf = turning(1);
  Facts vllm = turning(1);
  std::get<Rotation>(*vllm.positions[0].plan).inv_freq[20] *= 2;
  HtmlReport report;
  report.compare = {{&compare, {&hf, &vllm}}};
  const std::string page = report_html(report);
  const Element root = parsed(page);
  ASSERT_EQ(root.all("figure").size(), 1U);
  for (const char* const text : {"hf turns pairs 20 to 22 faster than vllm", "from position 12", "truncates",
                                 "Angle between hf and vllm at position 4,095", "depends on the capacity",
                                 "hf and vllm differ in 1 way beyond rounding inside 4,096 tokens"})
    EXPECT_THAT(page, HasSubstr(text));
  report.compare = {{&compare, {}}};
  EXPECT_TRUE(parsed(report_html(report)).all("figure").empty());
}

TEST(ReportHtml, IsWellFormedAndLoadsNothing) {
  const Facts facts = turning(4);
  const CheckReport check = found(5);
  const TrustReport trust = trusted();
  const CompareReport compare = compared();
  HtmlReport all{.model = "m", .facts = &facts, .check = &check, .trust = &trust};
  all.compare = {{&compare, {&facts, &facts}}};
  const std::string page = report_html(all);
  const Element root = parsed(page);
  EXPECT_EQ(root.attribute("lang"), "en");
  for (const Element* const element : root.all("")) {
    for (const char* const tag : {"script", "link", "img", "iframe", "object", "base", "form"})
      EXPECT_NE(element->tag, tag);
    for (const auto& [name, value] : element->attributes) {
      EXPECT_NE(name, "src");
      EXPECT_THAT(value, Not(HasSubstr("://"))) << element->tag;
      EXPECT_THAT(name, Not(testing::StartsWith("on")));
      if (name == "href") {
        EXPECT_EQ(value.front(), '#');
      }
    }
  }
  EXPECT_THAT(page, Not(HasSubstr("url(")));
  EXPECT_THAT(page, HasSubstr("default-src &#39;none&#39;"));
}

TEST(ReportHtml, StaysBelowAMegabyte) {
  const Facts facts = turning(128);
  const CheckReport check = found(200);
  const std::string page = page_of(&facts, &check);
  EXPECT_LT(page.size(), kMostBytes);
  EXPECT_NO_THROW((void)parsed(page));
  EXPECT_THAT(page, HasSubstr("more plans are not drawn"));
  EXPECT_THAT(page, HasSubstr("charts of evidence are not drawn"));
}

TEST(ReportHtml, EveryPictureIsNamedAndHasItsNumbers) {
  const Facts facts = turning(3);
  const CheckReport check = found(3);
  const Element root = parsed(page_of(&facts, &check));
  std::set<std::string> ids;
  for (const Element* const element : root.all("")) ids.insert(element->attribute("id"));
  std::size_t pictures = 0;
  for (const Element* const svg : root.all("svg")) {
    if (svg->attribute("role") != "img") {
      EXPECT_TRUE(svg->attribute("aria-hidden") == "true" || svg->attribute("class") == "stretched");
      continue;
    }
    ++pictures;
    ASSERT_GE(svg->inside.size(), 2U);
    EXPECT_EQ(svg->inside[0].tag, "title");
    EXPECT_FALSE(svg->inside[0].text.empty());
    EXPECT_EQ(svg->inside[1].tag, "desc");
    EXPECT_EQ(svg->attribute("aria-labelledby"), svg->inside[0].attribute("id"));
    EXPECT_EQ(svg->attribute("aria-describedby"), svg->inside[1].attribute("id"));
  }
  EXPECT_GT(pictures, 10U);
  for (const Element* const figure : root.all("figure")) {
    ASSERT_TRUE(figure->holds("svg"));
    ASSERT_TRUE(figure->holds("details"));
    const Element& details = *figure->all("details").front();
    EXPECT_FALSE(details.all("table").empty());
    EXPECT_FALSE(details.all("td").empty());
  }
  for (const char* const name : {"aria-labelledby", "aria-describedby"}) {
    for (const Element* const element : root.all("")) {
      const std::string id = element->attribute(name);
      if (!id.empty()) {
        EXPECT_TRUE(ids.contains(id)) << id;
      }
    }
  }
}

TEST(ReportHtml, HasLandmarksHeadingsInOrderAndScopedTables) {
  const Facts facts = turning(3);
  const CheckReport check = found(3);
  const Element root = parsed(page_of(&facts, &check));
  for (const char* const landmark : {"header", "nav", "main", "footer", "h1"})
    EXPECT_EQ(root.all(landmark).size(), 1U) << landmark;
  EXPECT_EQ(root.all("main").front()->attribute("id"), "main");
  EXPECT_EQ(root.all("a").front()->attribute("href"), "#main");
  int level = 0;
  for (const Element* const element : root.all("")) {
    if (element->tag.size() != 2 || element->tag[0] != 'h' || !std::isdigit(element->tag[1])) continue;
    const int own = element->tag[1] - '0';
    EXPECT_LE(own, level + 1) << element->text;
    level = own;
  }
  for (const Element* const heading : root.all("th"))
    EXPECT_TRUE(heading->attribute("scope") == "col" || heading->attribute("scope") == "row");
  for (const Element* const table : root.all("table")) {
    EXPECT_TRUE(table->holds("caption"));
    EXPECT_TRUE(table->holds("thead"));
  }
  for (const Element* const element : root.all("div")) {
    if (element->attribute("class") != "scroll") continue;
    EXPECT_EQ(element->attribute("tabindex"), "0");
    EXPECT_FALSE(element->attribute("aria-label").empty());
  }
}

TEST(ReportHtml, EscapesWhatOthersWrote) {
  const std::string hostile = "<script>alert(\"1\")</script>&amp;'\x01\xFF\xC3(";
  Facts facts = turning(1);
  facts.model.family = facts.positions[0].mechanism = facts.limits.lengths.configured_key = hostile;
  facts.positions[0].parameters = {Parameter{hostile, hostile, hostile}};
  facts.notes = {Note{hostile, hostile}};
  CheckReport check = found(1);
  Finding& finding = check.findings.front();
  finding.message = finding.next = finding.where.tensor = finding.where.file = hostile;
  finding.observed = hostile;
  finding.hypotheses[0].cause = hostile;
  finding.curves[0].name = finding.curves[0].x_label = hostile;
  check.evidence[0].path = hostile;
  const std::string page = report_html(
      {.title = hostile, .model = hostile, .command_line = hostile, .facts = &facts, .check = &check});
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page,
              HasSubstr("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;amp;&#39;?\xEF\xBF\xBD"));
  const Element root = parsed(page);
  EXPECT_THAT(root.all("h1").front()->text, HasSubstr("<script>alert(\"1\")"));
}

TEST(ReportHtml, HoldsWhatWasFound) {
  const Facts facts = turning(2);
  const CheckReport check = found(3);
  const std::string page = page_of(&facts, &check);
  for (const char* const text :
       {"theta 10000 where 500000 is due", "20 of 64 pairs", "131,072", "Skipped for want of evidence",
        "as planned", "1,750,000 times what rounding explains", "within rounding", "window of 1,024 tokens",
        "runs/a.safetensors"})
    EXPECT_THAT(page, HasSubstr(text));
  EXPECT_THAT(page, Not(HasSubstr("found by counting")));  // no fit: nothing to draw
  const std::vector<PartVerdict> verdicts = report_verdicts({.model = "m", .facts = &facts, .check = &check});
  ASSERT_EQ(verdicts.size(), 2U);
  EXPECT_EQ(verdicts[0].part, "inspect");
  EXPECT_THAT(verdicts[1].text, HasSubstr("1 error, 1 warning, 1 note"));
}

TEST(ReportHtml, APartThatIsNotThereIsLeftOut) {
  const CheckReport check = found(1);
  const Element root = parsed(page_of(nullptr, &check));
  ASSERT_EQ(root.all("section").size(), 1U);
  EXPECT_EQ(root.all("section").front()->attribute("id"), "check");
  EXPECT_TRUE(parsed(report_html({})).all("section").empty());
}

TEST(ReportHtml, NumbersThatAreNoneDrawNothing) {
  Facts facts = turning(1);
  std::get<Rotation>(*facts.positions[0].plan).inv_freq.assign(64, 0);
  CheckReport check = found(1);
  Finding& finding = check.findings.front();
  finding.curves = {{.name = "empty"},
                    {.name = "none", .x = {0, 1}, .expected = {NAN, NAN}, .observed = {INFINITY, NAN}},
                    {.name = "one", .x = {3}, .observed = {0}}};
  finding.hypotheses = {{"nothing is left", {}, 0, 1e-9}, {"all", {}, INFINITY, 1e-9}};
  const std::string page = page_of(&facts, &check);
  EXPECT_NO_THROW((void)parsed(page));
  EXPECT_THAT(page, Not(HasSubstr("nan%")));
  EXPECT_THAT(page, Not(HasSubstr("inf%")));
}

TEST(ReportHtml, MemoryAtTheConfiguredLengthIsTheFact) {
  Facts facts = turning(2);
  // one full layer of 131072 tokens, one of a window of 1024: 2 * 8 * 128 * 2 bytes each
  EXPECT_THAT(page_of(&facts, nullptr), HasSubstr("<td>516.0 MiB</td>"));
}

}  // namespace
}  // namespace locant

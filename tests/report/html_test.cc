// SPDX-License-Identifier: Apache-2.0
// The page: well-formed, self-contained, small, escaped, and readable without eyes or colours.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "locant/report.h"
#include "report/markup_reader.h"

namespace locant {
namespace {

using testing::HasSubstr;
using testing::Not;
using tests::Element;

constexpr std::size_t kMostBytes = 1'000'000;

Element parsed(const std::string& page) {
  return tests::MarkupReader(page).read();
}

Rotation rotation_of(double theta, std::size_t pairs) {
  Rotation rotation;
  rotation.head_dim = rotation.width = static_cast<std::int64_t>(2 * pairs);
  for (std::size_t i = 0; i < pairs; ++i)
    rotation.inv_freq.push_back(std::pow(theta, -static_cast<double>(i) / static_cast<double>(pairs)));
  return rotation;
}

/// Layers that turn, each with a plan of its own; windows in every second one.
Facts turning(std::int64_t layers) {
  Facts facts;
  facts.recipe = "hf";
  facts.model = {.path = "m", .format = "hf", .family = "llama", .layers = layers, .hidden = 4096, .heads = 32,
                 .kv_heads = 8, .head_dim = 128, .vocab = 32000};
  facts.limits.lengths = {.trained = 8192, .trained_basis = "original", .configured = 131072, .configured_key = "max"};
  facts.limits.angle_length = 8192;
  facts.limits.angle_basis = "trained";
  facts.limits.horizon = 131072;
  AttentionFacts full;
  AttentionFacts window{.attention = {.kind = AttentionKind::window, .window = 1024}};
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    PositionFacts entry;
    entry.layers = {layer};
    entry.mechanism = "yarn";
    entry.theta = 10000 + static_cast<double>(layer);
    entry.plan = rotation_of(*entry.theta, 64);
    facts.positions.push_back(entry);
    facts.limits.angles.push_back({.layers = {layer}, .pairs = 64, .shortest_wavelength = 6, .longest_wavelength = 5e4,
                                   .incomplete_pairs = 20, .leaves_from = 8192});
    (layer % 2 == 0 ? full : window).layers.push_back(layer);
  }
  facts.attention = {full};
  if (!window.layers.empty()) facts.attention.push_back(window);
  facts.limits.memory.kv_bytes_per_token = layers * 4096;
  return facts;
}

Curve long_curve() {
  Curve curve{.name = "The position of each token", .x_label = "token", .y_label = "position"};
  for (std::size_t i = 0; i < Curve::kMostPoints; ++i) {
    curve.x.push_back(static_cast<double>(i));
    curve.expected.push_back(static_cast<double>(i) * 1.000001);
    curve.observed.push_back(std::sin(static_cast<double>(i)) * 12345.678);
  }
  return curve;
}

Finding finding_of(std::string_view rule, Severity severity) {
  Finding finding;
  finding.rule = &find_rule(rule);
  finding.severity = severity;
  finding.message = "q in layers 0 to 3: theta 10000 where 500000 is due";
  finding.where.file = "runs/a.safetensors";
  finding.where.layer = 1;
  finding.expected = 500000.0;
  finding.observed = 10000.0;
  finding.hypotheses = {{"theta 10000 where 500000 is due", {{"theta", 10000.0}}, 1e-7, 4e-7},
                        {"as planned", {}, 0.7, 4e-7},
                        {"found by counting", {}, 0, 0}};
  finding.next = "pass it on";
  finding.curves = {long_curve(), long_curve()};
  return finding;
}

CheckReport found(std::size_t count) {
  CheckReport report;
  report.evidence = {{EvidenceKind::trace, "runs/a.safetensors", "ab"}, {EvidenceKind::files, "m", ""}};
  for (std::size_t i = 0; i < count; ++i)
    report.findings.push_back(finding_of("R106", static_cast<Severity>(2 - static_cast<int>(3 * i / count))));
  report.explained = {{finding_of("T101", Severity::error), "R106"}};
  for (const Rule& rule : rules()) {
    if (rule.id.starts_with('B')) report.passed.push_back(&rule);
    if (rule.id.starts_with('M')) report.skipped.push_back({&rule, "a live runtime"});
  }
  return report;
}

std::string page_of(const Facts* facts, const CheckReport* check) {
  return report_html({.model = "path/to/llama", .command_line = "locant report", .facts = facts, .check = check});
}

TEST(ReportHtml, IsWellFormedAndLoadsNothing) {
  const Facts facts = turning(4);
  const CheckReport check = found(5);
  const std::string page = page_of(&facts, &check);
  const Element root = parsed(page);
  EXPECT_EQ(root.attribute("lang"), "en");
  for (const Element* const element : root.all("")) {
    for (const char* const tag : {"script", "link", "img", "iframe", "object", "base", "form"})
      EXPECT_NE(element->tag, tag);
    for (const auto& [name, value] : element->attributes) {
      EXPECT_NE(name, "src");
      EXPECT_THAT(value, Not(HasSubstr("://"))) << element->tag;
      EXPECT_THAT(name, Not(testing::StartsWith("on")));
      if (name == "href") EXPECT_EQ(value.front(), '#');
    }
  }
  EXPECT_THAT(page, Not(HasSubstr("url(")));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
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
      if (!id.empty()) EXPECT_TRUE(ids.contains(id)) << id;
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
  facts.positions[0].parameters = {{hostile, hostile, hostile}};
  facts.notes = {{hostile, hostile}};
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
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;amp;&#39;?\xEF\xBF\xBD"));
  const Element root = parsed(page);
  EXPECT_THAT(root.all("h1").front()->text, HasSubstr("<script>alert(\"1\")"));
}

TEST(ReportHtml, HoldsWhatWasFound) {
  const Facts facts = turning(2);
  const CheckReport check = found(3);
  const std::string page = page_of(&facts, &check);
  for (const char* const text :
       {"theta 10000 where 500000 is due", "20 of 64 pairs", "131,072", "Skipped for want of evidence", "as planned",
        "1,750,000 times what rounding explains", "within rounding", "window of 1,024 tokens", "runs/a.safetensors"})
    EXPECT_THAT(page, HasSubstr(text));
  EXPECT_THAT(page, Not(HasSubstr("found by counting")));  // no fit: nothing to draw
  const std::vector<PartVerdict> verdicts =
      report_verdicts({.model = "m", .facts = &facts, .check = &check});
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

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
  facts.model = {.path = "m",
                 .format = "hf",
                 .family = "llama",
                 .layers = layers,
                 .hidden = 4096,
                 .heads = 32,
                 .kv_heads = 8,
                 .head_dim = 128,
                 .vocab = 32000};
  facts.limits.lengths = {
      .trained = 8192, .trained_basis = "original", .configured = 131072, .configured_key = "max"};
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
    facts.limits.angles.push_back({.layers = {layer},
                                   .pairs = 64,
                                   .shortest_wavelength = 6,
                                   .longest_wavelength = 5e4,
                                   .incomplete_pairs = 20,
                                   .leaves_from = 8192});
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
  return report_html(
      {.model = "path/to/llama", .command_line = "locant report", .facts = facts, .check = check});
}

Estimate about(double mean) {
  return {.mean = mean, .low = mean - 0.01, .high = mean + 0.02};
}

/// Trained 512, declared 4096, no harm up to 1024.
TrustReport trusted() {
  TrustReport report;
  StaticTrust& facts = report.facts;
  facts.recipe = "hf";
  facts.declared = {4096, LengthSource::field, "max_position_embeddings"};
  facts.trained = {512, LengthSource::field, "original"};
  facts.to = 4096;
  facts.to_basis = "declared";
  RotationTrust rotation;
  rotation.layers = {0, 1};
  rotation.mechanism = "yarn";
  rotation.first_pair = 7;
  rotation.first_position = 2048;
  facts.rotations = {rotation};
  facts.tables = {{.tensor = "wpe", .rows = 512, .learned = 400, .evidence = "norms fall at row 400"}};
  facts.reach = {{"alibi", std::nullopt, "every head reaches on"}, {"window", 256, "no layer sees more"}};
  facts.memory = 1 << 20;
  facts.findings = {{FindingKind::risk, "angles-out-of-range", "pair 7 leaves at 2048"},
                    {FindingKind::fault, "table-shorter", "512 rows"}};
  MeasuredTrust measured;
  measured.documents = "24 documents of one file";
  measured.plan.parts = {{"loss", 12.5}};
  measured.plan.left_out = {"4096 tokens: no time"};
  LossCurve& loss = measured.loss;
  loss.margin = 0.02;
  loss.documents = 24;
  loss.control = Judgement::holds;
  loss.no_harm = 1024;
  loss.benefit = 512;
  for (const std::int64_t length : {128, 256, 512, 1024, 2048})
    loss.points.push_back({.length = length,
                           .documents = 24,
                           .loss = about(2.0),
                           .compared_with = length / 2,
                           .difference = about(0),
                           .no_harm = Judgement::holds});
  loss.points.push_back({.length = 4096, .why_not = "no time"});
  Retrieval& retrieval = measured.retrieval;
  retrieval.choices = 8;
  retrieval.control = Judgement::holds;
  retrieval.length = 512;
  for (const std::int64_t length : {64, 128, 256, 512}) {
    for (const std::int64_t distance : {length / 8, length / 2})
      retrieval.cells.push_back({.length = length,
                                 .distance = distance,
                                 .source = length - distance,
                                 .trials = 8,
                                 .right = 7,
                                 .rate = about(0.875),
                                 .holds = Judgement::holds});
  }
  measured.shift = {
      .holds = Judgement::holds, .text = "", .tokens = 64, .bound = 1e-6, .points = {{16, 1e-7}}};
  ScalingTrust scaling;
  scaling.method = "linear";
  scaling.factor = 8;
  scaling.takes_effect = true;
  scaling.points = {
      {.length = 128, .inside = true, .documents = 24, .loss = 2, .scaled = 2.4, .harmful = true}};
  measured.scaling = scaling;
  report.measured = measured;
  report.verdict = {TrustWord::worse, 512, "retrieval", "trusted to 512 (retrieval), declared 4096"};
  return report;
}

CompareReport compared() {
  CompareReport report;
  report.model = "m";
  report.sides = report.recipes = {"hf", "vllm"};
  Comparison pair{.a = "hf", .b = "vllm", .distance = 4096, .distance_basis = "given", .capacity = 4096};
  Difference turned;
  turned.what = "inv_freq";
  turned.site = "rotation";
  turned.layers = {0};
  turned.pairs = {20, 21, 22};
  turned.message = "hf turns pairs 20 to 22 faster than vllm";
  turned.at_distance = Gap{.position = 4095, .index = 20, .radians = 3.5, .difference = 1.9, .magnitude = 1};
  turned.first_bf16 = 12;
  turned.first_f32 = 1;
  turned.evidence = {{"vllm", "truncates", "rotary.py", true}};
  pair.differences = {turned};
  pair.notes = {"depends on the capacity"};
  report.pairs = {pair};
  report.effect =
      CompareEffect{.text = "bundled",
                    .of = "logits",
                    .rows = 1,
                    .tokens = 300,
                    .pairs = {{.a = "hf", .b = "vllm", .tokens = 300, .largest = 1.5, .kl = 0.01}}};
  return report;
}

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

// SPDX-License-Identifier: Apache-2.0
// Made answers for a page: a model, findings with curves, a measured trust, a comparison.
#pragma once

#include <cmath>
#include <string>
#include <string_view>

#include "locant/report.h"
#include "report/markup_reader.h"

namespace locant::tests {

inline Element parsed(const std::string& page) {
  return tests::MarkupReader(page).read();
}

inline Rotation rotation_of(double theta, std::size_t pairs) {
  Rotation rotation;
  rotation.head_dim = rotation.width = static_cast<std::int64_t>(2 * pairs);
  for (std::size_t i = 0; i < pairs; ++i)
    rotation.inv_freq.push_back(std::pow(theta, -static_cast<double>(i) / static_cast<double>(pairs)));
  return rotation;
}

/// Layers that turn, each with a plan of its own; windows in every second one.
inline Facts turning(std::int64_t layers) {
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

inline Curve long_curve() {
  Curve curve{.name = "The position of each token", .x_label = "token", .y_label = "position"};
  for (std::size_t i = 0; i < Curve::kMostPoints; ++i) {
    curve.x.push_back(static_cast<double>(i));
    curve.expected.push_back(static_cast<double>(i) * 1.000001);
    curve.observed.push_back(std::sin(static_cast<double>(i)) * 12345.678);
  }
  return curve;
}

inline Finding finding_of(std::string_view rule, Severity severity) {
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

inline CheckReport found(std::size_t count) {
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

inline std::string page_of(const Facts* facts, const CheckReport* check) {
  return report_html(
      {.model = "path/to/llama", .command_line = "locant report", .facts = facts, .check = check});
}

inline Estimate about(double mean) {
  return {.mean = mean, .low = mean - 0.01, .high = mean + 0.02};
}

/// Trained 512, declared 4096, no harm up to 1024.
inline TrustReport trusted() {
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

inline CompareReport compared() {
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

}  // namespace locant::tests

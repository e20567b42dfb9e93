// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ostream>

#include "cli/compare_report.h"
#include "cli/stream.h"

namespace locant::cli {
namespace {

std::string counted(std::size_t count, std::string_view word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

std::string place_of(const Difference& one) {
  const std::string layers = layers_text(one);
  return layers.empty() ? one.site : fmt::format("{}, {}", one.site, layers);
}

/// "beyond the rounding of bf16 from position 8, of f32 from position 1".
std::string first_text(const Difference& one) {
  if (!one.at_distance) return {};
  if (!one.first_f32) return "the tables of a text are the same";
  const std::string f32 = fmt::format("f32 from position {}", *one.first_f32);
  if (!one.first_bf16) return "beyond the rounding of " + f32 + ", never of bf16";
  return fmt::format("beyond the rounding of bf16 from position {}, of {}", *one.first_bf16, f32);
}

/// The rows of the recipes in short: what and where that is read.
std::string evidence_text(const DifferenceEvidence& row) {
  return fmt::format("{}: {} ({}; {})", row.recipe, one_line(row.what), one_line(row.evidence),
                     row.tested_live ? "tested live" : "read in its source");
}

void write_difference(const Difference& one, Answer& answer) {
  std::ostream& out = answer.stream();
  const Style& style = answer.style();
  out << fmt::format("  {}{}{}: {}\n", style.bold, place_of(one), style.off, one_line(one.message));
  const std::string first = first_text(one);
  if (!first.empty() || !one.inside)
    out << fmt::format("    {}{}\n", first,
                       one.inside      ? ""
                       : first.empty() ? "no result changes"
                                       : "; not inside what is compared");
  if (one.kind == DifferenceKind::arithmetic) return;
  for (const DifferenceEvidence& row : one.evidence)
    out << fmt::format("    {}{}{}\n", style.dim, evidence_text(row), style.off);
}

void write_pair(const Comparison& pair, Answer& answer) {
  std::ostream& out = answer.stream();
  const Style& style = answer.style();
  if (pair.differences.empty()) {
    out << fmt::format("{}{} and {}: no difference{}", style.bold, pair.a, pair.b, style.off);
  } else {
    out << fmt::format("{}{} and {}: {}{}", style.bold, pair.a, pair.b,
                       counted(pair.differences.size(), "difference"), style.off);
  }
  out << fmt::format("{}\n", pair.within_rounding.empty() ? "" : ", arithmetic apart");
  for (const Difference& one : pair.differences) write_difference(one, answer);
  for (const Difference& one : pair.within_rounding)
    out << fmt::format("  {}within rounding: {}: {}{}\n", style.dim, place_of(one), one_line(one.message),
                       style.off);
}

std::string text_of(const CompareEffect& effect) {
  const std::string rows = effect.rows > 1 ? fmt::format(" in {} rows", effect.rows) : "";
  if (effect.text == "bundled") return fmt::format("{} tokens of the bundled text", effect.tokens);
  if (effect.text == "seeded") return fmt::format("{} seeded token ids", effect.tokens);
  return fmt::format("{} given token{}{}", effect.tokens, effect.tokens == 1 ? "" : "s", rows);
}

void write_effect(const CompareEffect& effect, Answer& answer) {
  std::ostream& out = answer.stream();
  const Style& style = answer.style();
  if (!effect.pairs.empty())
    out << fmt::format("\n{}what it does{}, on {}\n", style.bold, style.off, text_of(effect));
  for (const LogitChange& one : effect.pairs) {
    out << fmt::format("  {} to {}: {} change by up to {:.3g} ({:.2g} % of the largest)", one.a, one.b,
                       effect.of, one.largest, 100 * one.largest_relative);
    if (one.kl)
      out << fmt::format(", KL {:.2g} nats a token, the same best token at {:.4g} %", *one.kl,
                         100 * *one.top1);
    if (one.loss_a)
      out << fmt::format(", loss {:.4f} to {:.4f} ({:+.2g} nats a token)", *one.loss_a, *one.loss_b,
                         *one.loss_b - *one.loss_a);
    out << '\n';
  }
  if (!effect.why_not.empty())
    out << fmt::format("{}not measured: {}\n", effect.pairs.empty() ? "\n" : "  ", one_line(effect.why_not));
}

/// "x" where two sides differ.
void write_matrix(const CompareReport& report, Answer& answer) {
  if (report.sides.size() < 3) return;
  std::ostream& out = answer.stream();
  std::size_t width = 12;
  for (const std::string& side : report.sides) width = std::max(width, side.size());
  out << fmt::format("\n{}{:<{}}", answer.style().bold, "differs from", width);
  for (const std::string& side : report.sides) out << fmt::format("  {:<3}", side);
  out << fmt::format("{}\n", answer.style().off);
  for (const std::string& row : report.sides) {
    out << fmt::format("{:<{}}", row, width);
    for (const std::string& column : report.sides) {
      std::string cell = "-";
      for (const Comparison& pair : report.pairs) {
        const bool is = (pair.a == row && pair.b == column) || (pair.a == column && pair.b == row);
        if (is) cell = differs(pair) ? "yes" : "no";
      }
      out << fmt::format("  {:<{}}", cell, std::max<std::size_t>(column.size(), 3));
    }
    out << '\n';
  }
}

}  // namespace

void write_compare_text(const CompareReport& report, Answer& answer) {
  std::ostream& out = answer.stream();
  const Comparison& first = report.pairs.front();
  const std::string length = fmt::format("{} tokens ({})", first.distance, one_line(first.distance_basis));
  const std::string opened =
      first.capacity != first.distance ? fmt::format(", opened for {}", first.capacity) : "";
  if (!report.other.empty()) {
    out << fmt::format("A  {} (recipe {})\nB  {} (recipe {})\n", one_line(report.model), report.recipes.at(0),
                       one_line(report.other), report.recipes.at(1));
  }
  out << fmt::format("{}, {}{}, run in {} ({})\n", one_line(report.family), length, opened,
                     name_of(first.run_dtype), first.run_dtype_basis);
  std::vector<std::string> notes;
  for (const Comparison& pair : report.pairs) {
    if (pair.a != report.sides.front()) continue;
    write_pair(pair, answer);
    notes.insert(notes.end(), pair.notes.begin(), pair.notes.end());
  }
  if (report.same_tokenizer)
    out << fmt::format("the tokenizers give {} ids for the text\n",
                       *report.same_tokenizer ? "the same" : "other");
  write_matrix(report, answer);
  if (report.effect) write_effect(*report.effect, answer);
  for (const std::string& note : notes) out << fmt::format("note: {}\n", one_line(note));
}

}  // namespace locant::cli

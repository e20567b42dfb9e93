// SPDX-License-Identifier: Apache-2.0
// Evidence through all rules to a report: what one cause shows in several places is counted once.
#include "locant/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "check/book.h"
#include "check/curves.h"
#include "check/fingerprints.h"

namespace locant {
namespace check_room {

void Book::add(std::string_view id, Depth depth, Finding finding, std::string cause) {
  finding.rule = &find_rule(id);
  if (finding.next.empty()) finding.next = std::string(finding.rule->fix);
  std::erase_if(finding.curves, [](const Curve& curve) { return curve.x.empty(); });
  for (Curve& curve : finding.curves) thin(curve);
  asked(id);
  drafts_.push_back({std::move(finding), depth, std::move(cause)});
}

void Book::found(const Trace& trace, const Ladder& ladder) {
  const auto same = [&](const auto& entry) {
    return entry.first == &trace && entry.second.text == ladder.text;
  };
  if (std::none_of(found_.begin(), found_.end(), same)) found_.emplace_back(&trace, ladder);
}

std::vector<Ladder> Book::found_in(const Trace& trace) const {
  std::vector<Ladder> ladders;
  for (const auto& [of, ladder] : found_) {
    if (of == &trace) ladders.push_back(ladder);
  }
  return ladders;
}

std::string layers_text(const std::vector<std::int64_t>& layers) {
  if (layers.size() == 1) return fmt::format("layer {}", layers[0]);
  const bool run = layers.back() - layers.front() + 1 == static_cast<std::int64_t>(layers.size());
  if (run) return fmt::format("layers {} to {}", layers.front(), layers.back());
  std::string text = "layers ";
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (i > 0) text += i + 1 == layers.size() ? " and " : ", ";
    text += std::to_string(layers[i]);
  }
  return text;
}

bool chosen(const Rule& rule, const CheckQuery& query) {
  const auto matches = [&](const std::string& word) {
    return rule.id.starts_with(word) || rule.name == word;
  };
  const bool selected =
      query.select.empty() || std::any_of(query.select.begin(), query.select.end(), matches);
  return selected && std::none_of(query.ignore.begin(), query.ignore.end(), matches);
}

}  // namespace check_room

namespace {

using check_room::Book;
using check_room::chosen;
using check_room::Draft;
using namespace std::string_view_literals;

void require_rules(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    const auto matches = [&](const Rule& rule) { return rule.id.starts_with(word) || rule.name == word; };
    if (word.empty() || std::none_of(rules().begin(), rules().end(), matches)) (void)find_rule(word);
  }
}

/// The draft that explains this one: the same cause, earlier in the flow of data.
const Draft* explaining(const std::vector<Draft>& drafts, const Draft& draft) {
  if (draft.cause.empty()) return nullptr;
  const Draft* earliest = nullptr;
  for (const Draft& other : drafts) {
    if (other.cause != draft.cause || other.depth >= draft.depth) continue;
    if (earliest == nullptr || other.depth < earliest->depth) earliest = &other;
  }
  return earliest;
}

// What no key of a config states: of a family that is not known these numbers are assumptions.
constexpr std::array kFamilyFacts = {"B102"sv, "B110"sv, "E101"sv, "E102"sv, "E106"sv,
                                     "E108"sv, "E109"sv, "R101"sv, "R105"sv, "R111"sv};

/// A finding that may be the meaning of a family that is not known is no more than a note.
void soften(Finding& finding, const ModelSpec& spec) {
  if (!spec.generic ||
      std::find(kFamilyFacts.begin(), kFamilyFacts.end(), finding.rule->id) == kFamilyFacts.end())
    return;
  finding.severity = Severity::note;
  finding.message += fmt::format("; family {} is not known, and this may be its meaning", spec.family);
}

void sort_findings(std::vector<Finding>& findings) {
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    if (a.severity != b.severity) return a.severity > b.severity;
    return a.rule->id < b.rule->id;
  });
}

}  // namespace

CheckReport check(const CheckQuery& query) {
  require_rules(query.select);
  require_rules(query.ignore);
  const check_room::Evidence evidence = check_room::gather(query);
  Book book;
  check_room::check_config(evidence, book);
  check_room::check_weights(evidence, book);
  check_room::check_layers(query, book);
  check_room::check_conversion(query, book);
  check_room::check_tables(evidence, book);
  check_room::check_dumped(evidence, book);
  check_room::check_rotation(evidence, book);
  check_room::check_scores(evidence, book);
  check_room::check_embedding(evidence, book);
  check_room::check_positions(evidence, book);
  check_room::check_finite(evidence, book);
  check_room::check_pooled(evidence, book);
  check_room::check_cache(evidence, book);
  check_room::check_ranks(evidence, book);
  check_room::check_live(query, evidence, book);

  // what is not asked for explains nothing
  std::erase_if(book.drafts(), [&](const Draft& draft) { return !chosen(*draft.finding.rule, query); });
  for (Draft& draft : book.drafts()) {
    if (evidence.spec != nullptr) soften(draft.finding, *evidence.spec);
  }

  CheckReport report;
  report.evidence = check_room::fingerprints(query);
  for (const Draft& draft : book.drafts()) {
    if (const Draft* const by = explaining(book.drafts(), draft)) {
      report.explained.push_back({draft.finding, std::string(by->finding.rule->id)});
    } else {
      report.findings.push_back(draft.finding);
    }
  }
  sort_findings(report.findings);
  const auto found = [&](const Rule& rule) {
    const auto is = [&](const Finding& finding) { return finding.rule == &rule; };
    return std::any_of(report.findings.begin(), report.findings.end(), is);
  };
  // A rule stands in one list only: findings, then explained.
  std::erase_if(report.explained, [&](const Explained& explained) { return found(*explained.finding.rule); });
  for (const Rule& rule : rules()) {
    if (!chosen(rule, query) || found(rule)) continue;
    const auto is = [&](const Explained& explained) { return explained.finding.rule == &rule; };
    if (std::any_of(report.explained.begin(), report.explained.end(), is)) continue;
    if (book.was_asked(rule.id)) {
      report.passed.push_back(&rule);
    } else {
      const std::string lacking = book.lacking(rule.id);
      report.skipped.push_back({&rule, lacking.empty() ? std::string(rule.needs) : lacking});
    }
  }
  return report;
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// A baseline: findings that are known and accepted. A finding is known by its rule and its place, not by its
// numbers, so that it stays known when a model is trained further.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "formats/json.h"
#include "locant/report.h"

namespace locant {
namespace {

constexpr std::int64_t kBaselineVersion = 1;

std::string place_of(const Finding& finding) {
  return place_text(finding.where);
}

std::string word(const Json& entry, const char* key, const std::string& path) {
  const Json* const value = find_member(entry, key);
  if (value == nullptr || !value->is_string()) {
    throw FileError(path,
                    fmt::format("an entry of known has the words rule and place, got {}", json_text(entry)));
  }
  return value->get<std::string>();
}

}  // namespace

std::string baseline_json(const CheckReport& report) {
  nlohmann::ordered_json known = nlohmann::ordered_json::array();
  for (const std::vector<Finding>* const list : {&report.findings, &report.known}) {
    for (const Finding& finding : *list) {
      nlohmann::ordered_json entry = {{"rule", finding.rule->id}, {"place", place_of(finding)}};
      if (std::find(known.begin(), known.end(), entry) == known.end()) known.push_back(std::move(entry));
    }
  }
  const nlohmann::ordered_json out = {{"locant_baseline", kBaselineVersion}, {"known", known}};
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::vector<KnownFinding> read_baseline(const std::string& path) {
  const Json file = read_json(path);
  const Json* const version = find_member(file, "locant_baseline");
  const Json* const known = find_member(file, "known");
  if (version == nullptr || known == nullptr || !known->is_array())
    throw FileError(path, "a baseline has the keys locant_baseline and known, this file has not");
  if (*version != kBaselineVersion)
    throw FileError(path,
                    fmt::format("locant_baseline {} is read, got {}", kBaselineVersion, json_text(*version)));
  std::vector<KnownFinding> entries;
  for (const Json& entry : *known) {
    entries.push_back({word(entry, "rule", path), word(entry, "place", path)});
    const std::string& id = entries.back().rule;
    const auto is = [&](const Rule& rule) { return rule.id == id; };
    if (std::none_of(rules().begin(), rules().end(), is))
      throw FileError(path, fmt::format("known names rule ids, got {}", json_text(entry["rule"])));
  }
  return entries;
}

std::vector<KnownFinding> apply_baseline(CheckReport& report, const std::vector<KnownFinding>& known) {
  std::vector<KnownFinding> unmatched;
  for (const KnownFinding& entry : known) {
    const auto is = [&](const Finding& finding) {
      return finding.rule->id == entry.rule && place_of(finding) == entry.place;
    };
    const auto first = std::stable_partition(report.findings.begin(), report.findings.end(),
                                             [&](const Finding& finding) { return !is(finding); });
    if (first == report.findings.end()) unmatched.push_back(entry);
    report.known.insert(report.known.end(), std::make_move_iterator(first),
                        std::make_move_iterator(report.findings.end()));
    report.findings.erase(first, report.findings.end());
  }
  return unmatched;
}

}  // namespace locant

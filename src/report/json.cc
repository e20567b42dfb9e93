// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <nlohmann/json.hpp>

#include "locant/report.h"

namespace locant {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

OrderedJson fact(const Fact& value) {
  if (const auto* const is = std::get_if<double>(&value)) return number(*is);
  if (const auto* const word = std::get_if<std::string>(&value)) return *word;
  return nullptr;
}

OrderedJson place(const Place& where) {
  OrderedJson out = OrderedJson::object();
  const auto word = [&](const char* key, const std::string& value) {
    if (!value.empty()) out[key] = value;
  };
  const auto whole = [&](const char* key, const std::optional<std::int64_t>& value) {
    if (value) out[key] = *value;
  };
  word("file", where.file);
  word("key", where.key);
  word("tensor", where.tensor);
  whole("layer", where.layer);
  whole("head", where.head);
  whole("step", where.step);
  whole("row", where.row);
  whole("token", where.token);
  return out;
}

OrderedJson hypotheses(const std::vector<Hypothesis>& all) {
  OrderedJson out = OrderedJson::array();
  for (const Hypothesis& one : all) {
    OrderedJson parameters = OrderedJson::object();
    for (const auto& [name, value] : one.parameters) parameters[name] = number(value);
    out.push_back({{"cause", one.cause},
                   {"parameters", parameters},
                   {"residual", number(one.residual)},
                   {"budget", number(one.budget)}});
  }
  return out;
}

OrderedJson findings(const std::vector<Finding>& all) {
  OrderedJson out = OrderedJson::array();
  for (const Finding& finding : all) {
    out.push_back({{"rule", finding.rule->id},
                   {"name", finding.rule->name},
                   {"severity", name_of(finding.severity)},
                   {"message", finding.message},
                   {"where", place(finding.where)},
                   {"expected", fact(finding.expected)},
                   {"observed", fact(finding.observed)},
                   {"hypotheses", hypotheses(finding.hypotheses)},
                   {"next", finding.next}});
  }
  return out;
}

}  // namespace

std::string report_json(const CheckReport& report) {
  OrderedJson out = {{"schema_version", 1}, {"tool", "locant"}, {"version", version()}, {"command", "check"}};
  out["evidence"] = OrderedJson::array();
  for (const EvidenceItem& item : report.evidence)
    out["evidence"].push_back({{"kind", name_of(item.kind)},
                               {"path", item.path},
                               {"sha256", item.sha256.empty() ? OrderedJson() : OrderedJson(item.sha256)}});
  out["findings"] = findings(report.findings);
  if (!report.known.empty()) out["known"] = findings(report.known);
  out["explained"] = OrderedJson::array();
  for (const Explained& explained : report.explained)
    out["explained"].push_back({{"rule", explained.finding.rule->id}, {"by", explained.by}});
  out["passed"] = OrderedJson::array();
  for (const Rule* const rule : report.passed) out["passed"].push_back(rule->id);
  out["skipped"] = OrderedJson::array();
  for (const Skipped& skipped : report.skipped)
    out["skipped"].push_back({{"rule", skipped.rule->id}, {"needs", skipped.needs}});
  return out.dump(2, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace locant

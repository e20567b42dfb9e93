// SPDX-License-Identifier: Apache-2.0
// SARIF 2.1.0: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
#include <algorithm>
#include <nlohmann/json.hpp>

#include "locant/report.h"

namespace locant {
namespace {

using OrderedJson = nlohmann::ordered_json;

/// Severity::note, warning and error are SARIF's levels of the same names.
OrderedJson result(const Finding& finding, std::size_t rule_index) {
  OrderedJson out = {{"ruleId", finding.rule->id},
                     {"ruleIndex", rule_index},
                     {"level", name_of(finding.severity)},
                     {"message", {{"text", finding.message}}}};
  OrderedJson location = OrderedJson::object();
  if (!finding.where.file.empty())
    location["physicalLocation"] = {{"artifactLocation", {{"uri", finding.where.file}}}};
  const std::string place = place_text(finding.where);
  if (!place.empty()) location["logicalLocations"] = {{{"fullyQualifiedName", place}}};
  if (!location.empty()) out["locations"] = {location};
  return out;
}

}  // namespace

std::string report_sarif(const CheckReport& report) {
  OrderedJson described = OrderedJson::array();
  for (const Rule& rule : rules()) {
    described.push_back({{"id", rule.id},
                         {"name", rule.name},
                         {"shortDescription", {{"text", rule.summary}}},
                         {"help", {{"text", rule.fix}}},
                         {"defaultConfiguration", {{"level", name_of(rule.severity)}}}});
  }
  OrderedJson results = OrderedJson::array();
  const auto index = [](const Finding& finding) {
    return static_cast<std::size_t>(finding.rule - rules().data());
  };
  for (const Finding& finding : report.findings) results.push_back(result(finding, index(finding)));
  for (const Finding& finding : report.known) {
    OrderedJson known = result(finding, index(finding));
    known["suppressions"] = {{{"kind", "external"}, {"justification", "named by the baseline"}}};
    results.push_back(std::move(known));
  }
  const OrderedJson driver = {{"name", "locant"}, {"version", version()}, {"rules", described}};
  const OrderedJson out = {{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                           {"version", "2.1.0"},
                           {"runs", {{{"tool", {{"driver", driver}}}, {"results", results}}}}};
  return out.dump(2, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace locant

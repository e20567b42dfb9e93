// SPDX-License-Identifier: Apache-2.0
#include "locant/report.h"
#include "report/json_form.h"

namespace locant {
namespace {

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

OrderedJson curves(const std::vector<Curve>& all) {
  OrderedJson out = OrderedJson::array();
  for (const Curve& curve : all) {
    OrderedJson one = {{"name", curve.name}, {"x_label", curve.x_label}, {"y_label", curve.y_label}};
    for (const auto& [key, values] : {std::pair("x", &curve.x), std::pair("expected", &curve.expected),
                                      std::pair("observed", &curve.observed)}) {
      one[key] = OrderedJson::array();
      for (const double value : *values) one[key].push_back(json_number(value));
    }
    out.push_back(std::move(one));
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
                   {"expected", json_fact(finding.expected)},
                   {"observed", json_fact(finding.observed)},
                   {"hypotheses", json_hypotheses(finding.hypotheses)},
                   {"next", finding.next}});
    if (!finding.curves.empty()) out.back()["curves"] = curves(finding.curves);
  }
  return out;
}

}  // namespace

std::string report_json(const CheckReport& report) {
  OrderedJson out = json_envelope("check");
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
  return json_text_of(out);
}

}  // namespace locant

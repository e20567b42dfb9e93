// SPDX-License-Identifier: Apache-2.0
// SARIF 2.1.0: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
#include <fmt/format.h>

#include <map>
#include <span>

#include "core/sha256.h"
#include "locant/report.h"
#include "report/json_form.h"

namespace locant {
namespace {

/// A path as a URI reference (RFC 3986): relative paths stay relative, bytes that no URI holds are encoded.
std::string uri_of(const std::string& path) {
  constexpr std::string_view kPlain = "-._~!$&'()*+,;=@/";
  std::string uri;
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       kPlain.find(c) != std::string_view::npos;
    uri += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return path.starts_with('/') ? "file://" + uri : uri;
}

/// A viewer of results needs a file: where the finding names none, the first that was looked at.
std::string file_of(const Finding& finding, const CheckReport& report) {
  if (!finding.where.file.empty()) return finding.where.file;
  for (const EvidenceItem& item : report.evidence) {
    if (!item.path.empty()) return item.path;
  }
  return "model";
}

/// The same finding in a later run has the same fingerprint: its rule and place, not its numbers. Several of
/// one place are counted.
class Fingerprints {
 public:
  std::string of(const Finding& finding) {
    const std::string words = fmt::format("{}\n{}", finding.rule->id, place_text(finding.where));
    const std::string text = fmt::format("{}\n{}", words, seen_[words]++);
    Sha256 hash;
    hash.add(std::as_bytes(std::span(text)));
    return hash.finish();
  }

 private:
  std::map<std::string, int> seen_;
};

/// Severity::note, warning and error are SARIF's levels of the same names.
OrderedJson result(const Finding& finding, const CheckReport& report, Fingerprints& fingerprints) {
  OrderedJson location = {
      {"physicalLocation", {{"artifactLocation", {{"uri", uri_of(file_of(finding, report))}}}}}};
  const std::string place = place_text(finding.where);
  if (!place.empty()) location["logicalLocations"] = {{{"fullyQualifiedName", place}}};
  return {{"ruleId", finding.rule->id},
          {"ruleIndex", static_cast<std::size_t>(finding.rule - rules().data())},
          {"level", name_of(finding.severity)},
          {"message", {{"text", finding.message}}},
          {"locations", {location}},
          {"partialFingerprints", {{"rulePlace/v1", fingerprints.of(finding)}}}};
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
  Fingerprints fingerprints;
  for (const Finding& finding : report.findings) results.push_back(result(finding, report, fingerprints));
  for (const Finding& finding : report.known) {
    OrderedJson known = result(finding, report, fingerprints);
    known["suppressions"] = {{{"kind", "external"}, {"justification", "named by the baseline"}}};
    results.push_back(std::move(known));
  }
  const OrderedJson driver = {{"name", "locant"}, {"version", version()}, {"rules", described}};
  const OrderedJson out = {{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                           {"version", "2.1.0"},
                           {"runs", {{{"tool", {{"driver", driver}}}, {"results", results}}}}};
  return json_text_of(out);
}

}  // namespace locant

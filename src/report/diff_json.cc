// SPDX-License-Identifier: Apache-2.0
#include "locant/report.h"
#include "report/json_form.h"

namespace locant {
namespace {

OrderedJson divergence_json(const Divergence& divergence) {
  const auto whole = [](const std::optional<std::int64_t>& value) {
    return value ? OrderedJson(*value) : OrderedJson();
  };
  return {{"tensor", divergence.tensor},
          {"step", divergence.step},
          {"row", whole(divergence.row)},
          {"token", whole(divergence.token)},
          {"head", whole(divergence.head)},
          {"got", json_fact(divergence.got)},
          {"want", json_fact(divergence.want)},
          {"difference", json_number(divergence.difference)},
          {"budget", json_number(divergence.budget)}};
}

}  // namespace

std::string diff_json(const TraceDiff& diff) {
  OrderedJson out = json_envelope("diff");
  out["tensors_compared"] = diff.tensors_compared;
  out["first"] = diff.first ? divergence_json(*diff.first) : OrderedJson();
  out["hypotheses"] = json_hypotheses(diff.hypotheses);
  out["missing"] = OrderedJson::array();
  for (const Unmatched& missing : diff.missing)
    out["missing"].push_back({{"tensor", missing.tensor}, {"path", missing.path}});
  out["differing"] = OrderedJson::array();
  for (const Divergence& divergence : diff.differing) out["differing"].push_back(divergence_json(divergence));
  out["notes"] = diff.notes;
  return json_text_of(out);
}

}  // namespace locant

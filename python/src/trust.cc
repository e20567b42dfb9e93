// SPDX-License-Identifier: Apache-2.0
// trust.h: how far positions can be trusted, of a model here or of a live runtime of Python.
#include "locant/trust.h"

#include <memory>
#include <utility>

#include "bindings.h"
#include "locant/report.h"
#include "python_runtime.h"
#include "session.h"

namespace locant::python {
namespace {

/// What is measured, and how.
struct TrustInput {
  nb::object runtime;
  std::vector<std::vector<std::int64_t>> documents;
  std::vector<std::int64_t> lead;
  double budget_s = 120;
  std::uint64_t seed = 1;
};

MeasuredTrust measured(const ModelSpec& spec, const StaticTrust& facts, TrustInput input) {
  std::unique_ptr<Runtime> adapter;
  Runtime* live = nullptr;
  if (nb::isinstance<LoadedModel>(input.runtime)) {
    live = nb::cast<LoadedModel&>(input.runtime).model.get();
  } else {
    adapter = std::make_unique<PythonRuntime>(input.runtime);
    live = adapter.get();
  }
  const DrivingRules rules = driving_rules(spec, facts.recipe);
  MeasureQuery query;
  query.runtime = live;
  query.facts = &facts;
  for (auto& ids : input.documents) query.documents.push_back({"", std::move(ids)});
  query.lead = std::move(input.lead);
  query.budget_s = input.budget_s;
  query.seed = input.seed;
  query.follows_length = rules.follows_length;
  query.absolute = rules.absolute;
  const nb::gil_scoped_release released;
  return measure_trust(query);
}

std::string run_trust(const ModelSpec& spec, std::string weights, std::string recipe,
                      std::optional<std::int64_t> to, std::optional<std::int64_t> trained, nb::object runtime,
                      std::vector<std::vector<std::int64_t>> documents, std::vector<std::int64_t> lead,
                      double budget_s, std::uint64_t seed) {
  TrustReport report;
  report.model = facts_of(spec, {.recipe = recipe}).model;
  report.facts = static_trust({.spec = &spec,
                               .weights = std::move(weights),
                               .recipe = std::move(recipe),
                               .to = to,
                               .trained = trained});
  if (!runtime.is_none()) {
    report.measured = measured(spec, report.facts,
                               {.runtime = std::move(runtime),
                                .documents = std::move(documents),
                                .lead = std::move(lead),
                                .budget_s = budget_s,
                                .seed = seed});
  }
  report.verdict = trust_verdict(report.facts, report.measured ? &*report.measured : nullptr);
  return trust_json(report);
}

}  // namespace

void bind_trust(nb::module_& m) {
  m.def("trust", &run_trust, nb::arg("spec"), nb::arg("weights"), nb::arg("recipe"), nb::arg("to").none(),
        nb::arg("trained").none(), nb::arg("runtime").none(), nb::arg("documents"), nb::arg("lead"),
        nb::arg("budget_s"), nb::arg("seed"));
}

}  // namespace locant::python

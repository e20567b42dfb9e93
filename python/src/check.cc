// SPDX-License-Identifier: Apache-2.0
// check.h, report.h: the checker and its report.
#include "locant/check.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <utility>

#include "bindings.h"
#include "cli/check_text.h"
#include "locant/report.h"
#include "python_runtime.h"
#include "session.h"
#include "streams.h"

namespace locant::python {
namespace {

nb::object value_of(const Fact& fact) {
  if (const auto* const number = std::get_if<double>(&fact)) return nb::float_(*number);
  if (const auto* const word = std::get_if<std::string>(&fact)) return nb::str(word->c_str());
  return nb::none();
}

Severity severity_named(std::string_view name) {
  for (const Severity severity : {Severity::note, Severity::warning, Severity::error}) {
    if (name_of(severity) == name) return severity;
  }
  throw SpecError(fmt::format("check: severity is note, warning or error, got \"{}\"", name));
}

struct CheckInput {
  const ModelSpec* spec = nullptr;
  std::string weights;
  const ModelSpec* against = nullptr;
  std::string against_weights;
};

CheckReport run_check(const CheckInput& input, std::vector<std::string> traces, std::string recipe,
                      const nb::object& runtime, std::vector<std::int64_t> ids,
                      std::vector<std::string> select, std::vector<std::string> ignore,
                      std::string_view hash) {
  if (hash != "headers" && hash != "whole")
    throw SpecError(fmt::format("check: hash is headers or whole, got \"{}\"", hash));
  std::unique_ptr<Runtime> adapter;
  Runtime* live = nullptr;
  if (nb::isinstance<LoadedModel>(runtime)) {
    live = nb::cast<LoadedModel&>(runtime).model.get();
  } else if (!runtime.is_none()) {
    adapter = std::make_unique<PythonRuntime>(runtime);
    live = adapter.get();
  }
  const CheckQuery query{.spec = input.spec,
                         .weights = input.weights,
                         .against = input.against,
                         .against_weights = input.against_weights,
                         .traces = std::move(traces),
                         .recipe = std::move(recipe),
                         .runtime = live,
                         .live_ids = std::move(ids),
                         .select = std::move(select),
                         .ignore = std::move(ignore),
                         .hash = hash == "whole" ? HashScope::whole : HashScope::headers};
  const nb::gil_scoped_release released;
  return check(query);
}

std::string text_of(const CheckReport& report) {
  TextHost host;
  cli::CommonFlags flags;
  flags.color = "never";
  cli::Answer answer(host, flags);
  cli::write_check_text(report, answer);
  answer.finish();
  return host.out_text();
}

void bind_findings(nb::module_& m) {
  nb::class_<Rule>(m, "Rule", "A rule of the checker, and what its page says.")
      .def_prop_ro("id", [](const Rule& r) { return text(r.id); })
      .def_prop_ro("name", [](const Rule& r) { return text(r.name); })
      .def_prop_ro("severity", [](const Rule& r) { return text(name_of(r.severity)); })
      .def_prop_ro("summary", [](const Rule& r) { return text(r.summary); })
      .def_prop_ro("needs", [](const Rule& r) { return text(r.needs); })
      .def_prop_ro("example", [](const Rule& r) { return text(r.example); })
      .def_prop_ro("cannot_tell", [](const Rule& r) { return text(r.cannot_tell); })
      .def_prop_ro("fix", [](const Rule& r) { return text(r.fix); })
      .def("__repr__", [](const Rule& r) { return fmt::format("Rule('{} {}')", r.id, r.name); });
  nb::class_<Place>(m, "Place", "Where a finding begins; what does not apply is empty or None.")
      .def_ro("file", &Place::file)
      .def_ro("key", &Place::key)
      .def_ro("tensor", &Place::tensor)
      .def_ro("layer", &Place::layer)
      .def_ro("head", &Place::head)
      .def_ro("step", &Place::step)
      .def_ro("row", &Place::row)
      .def_ro("token", &Place::token)
      .def("__str__", &place_text)
      .def("__repr__", [](const Place& p) { return fmt::format("Place('{}')", place_text(p)); });
  nb::class_<Hypothesis>(m, "Hypothesis", "A cause that would reproduce what was recorded, and how well.")
      .def_ro("cause", &Hypothesis::cause)
      .def_prop_ro(
          "parameters",
          [](const Hypothesis& h) {
            nb::dict all;
            for (const auto& [name, value] : h.parameters) all[nb::str(name.c_str())] = value;
            return all;
          },
          nb::sig("def parameters(self) -> dict[str, float]"))
      .def_ro("residual", &Hypothesis::residual, "Relative root mean square of what it leaves unexplained.")
      .def_ro("budget", &Hypothesis::budget, "What rounding alone explains, in the same measure.")
      .def("__repr__", [](const Hypothesis& h) { return fmt::format("Hypothesis('{}')", h.cause); });
  nb::class_<Finding>(m, "Finding", "What a rule found.")
      .def_prop_ro(
          "rule", [](const Finding& f) { return text(f.rule->id); }, "Its id: \"R103\".")
      .def_prop_ro(
          "name", [](const Finding& f) { return text(f.rule->name); }, "Its name: \"rotated-twice\".")
      .def_prop_ro("severity", [](const Finding& f) { return text(name_of(f.severity)); })
      .def_ro("message", &Finding::message, "One sentence with numbers.")
      .def_ro("where", &Finding::where)
      .def_prop_ro(
          "expected", [](const Finding& f) { return value_of(f.expected); },
          nb::sig("def expected(self) -> float | str | None"))
      .def_prop_ro(
          "observed", [](const Finding& f) { return value_of(f.observed); },
          nb::sig("def observed(self) -> float | str | None"))
      .def_ro("hypotheses", &Finding::hypotheses, "Best first.")
      .def_ro("next", &Finding::next, "What to look at or record.")
      .def("__repr__", [](const Finding& f) {
        return fmt::format("Finding('{} {}', '{}')", f.rule->id, name_of(f.severity), f.message);
      });
  nb::class_<Explained>(m, "Explained", "A finding that another one reproduces: not counted.")
      .def_ro("finding", &Explained::finding)
      .def_ro("by", &Explained::by, "Id of the rule that explains it.");
  nb::class_<Skipped>(m, "Skipped", "A rule that could not be asked.")
      .def_prop_ro("rule", [](const Skipped& s) { return text(s.rule->id); })
      .def_ro("needs", &Skipped::needs);
  nb::class_<EvidenceItem>(m, "Evidence", "What was looked at.")
      .def_prop_ro(
          "kind", [](const EvidenceItem& e) { return text(name_of(e.kind)); },
          "\"files\", \"tables\", \"trace\" or \"live\".")
      .def_ro("path", &EvidenceItem::path)
      .def_ro("sha256", &EvidenceItem::sha256);
}

}  // namespace

void bind_check(nb::module_& m) {
  bind_findings(m);
  nb::class_<CheckReport>(m, "CheckReport", "What check() found.")
      .def_ro("evidence", &CheckReport::evidence)
      .def_ro("findings", &CheckReport::findings)
      .def_ro("known", &CheckReport::known)
      .def_ro("explained", &CheckReport::explained)
      .def_ro("skipped", &CheckReport::skipped)
      .def_prop_ro("passed",
                   [](const CheckReport& r) {
                     std::vector<std::string> ids;
                     for (const Rule* const rule : r.passed) ids.emplace_back(rule->id);
                     return ids;
                   })
      .def("to_json", &report_json)
      .def("to_sarif", &report_sarif)
      .def(
          "to_junit",
          [](const CheckReport& r, std::string_view fail_on) {
            return report_junit(r, severity_named(fail_on));
          },
          nb::arg("fail_on"))
      .def("to_baseline", &baseline_json)
      .def(
          "apply_baseline",
          [](CheckReport& r, const std::string& path) {
            std::vector<std::string> gone;
            for (const KnownFinding& one : apply_baseline(r, read_baseline(path)))
              gone.push_back(one.place.empty() ? one.rule : one.rule + " at " + one.place);
            return gone;
          },
          nb::arg("path"))
      .def("text", &text_of);
  m.def(
      "check",
      [](const ModelSpec* spec, std::string weights, const ModelSpec* against, std::string against_weights,
         std::vector<std::string> traces, std::string recipe, const nb::object& runtime,
         std::vector<std::int64_t> ids, std::vector<std::string> select, std::vector<std::string> ignore,
         std::string_view hash) {
        return run_check({spec, std::move(weights), against, std::move(against_weights)}, std::move(traces),
                         std::move(recipe), runtime, std::move(ids), std::move(select), std::move(ignore),
                         hash);
      },
      nb::arg("spec").none(), nb::arg("weights"), nb::arg("against").none(), nb::arg("against_weights"),
      nb::arg("traces"), nb::arg("recipe"), nb::arg("runtime").none(), nb::arg("ids"), nb::arg("select"),
      nb::arg("ignore"), nb::arg("hash"));
  m.def(
      "rules",
      [] {
        nb::list all;
        for (const Rule& rule : rules()) all.append(nb::cast(&rule, nb::rv_policy::reference));
        return all;
      },
      nb::sig("def rules() -> list[Rule]"), "All rules of the checker, by id.");
}

}  // namespace locant::python

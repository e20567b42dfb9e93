// SPDX-License-Identifier: Apache-2.0
// plan.h: what a model says about positions, and what follows from it.
#include "locant/plan.h"

#include <fmt/format.h>
#include <nanobind/operators.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/variant.h>

#include <map>

#include "bindings.h"
#include "locant/positions.h"

namespace locant::python {
namespace {

PositionSpec make_spec(std::string mechanism, const std::map<std::string, ParameterValue>& parameters) {
  PositionSpec spec;
  spec.mechanism = std::move(mechanism);
  for (const auto& [name, value] : parameters) spec.set(name, value);
  return spec;
}

std::map<std::string, ParameterValue> values_of(const PositionSpec& spec) {
  std::map<std::string, ParameterValue> values;
  for (const Parameter& parameter : spec.parameters) values[parameter.name] = parameter.value;
  return values;
}

std::map<std::string, std::string> keys_of(const PositionSpec& spec) {
  std::map<std::string, std::string> keys;
  for (const Parameter& parameter : spec.parameters) keys[parameter.name] = parameter.key;
  return keys;
}

SitePlan plan_of(const PositionSpec& spec, std::string_view recipe, std::int64_t seen,
                 std::int64_t capacity) {
  return find_mechanism(spec.mechanism).plan(spec, find_recipe(recipe), {.seen = seen, .capacity = capacity});
}

void bind_sites(nb::module_& m) {
  nb::class_<Rotation>(m, "Rotation", "Rotation of pairs of channels of q and k (the RoPE family).")
      .def_prop_ro(
          "inv_freq", [](const Rotation& r) { return numpy_copy(r.inv_freq); },
          nb::sig("def inv_freq(self) -> numpy.typing.NDArray[numpy.float64]"), "[P] rad/token, f64.")
      .def_prop_ro(
          "axis", [](const Rotation& r) { return numpy_copy(r.axis); },
          nb::sig("def axis(self) -> numpy.typing.NDArray[numpy.int64]"),
          "[P] the position axis that drives a pair; empty: axis 0 for all.")
      .def_ro("amplitude", &Rotation::amplitude, "Factor on cos and sin.")
      .def_prop_ro(
          "pairing", [](const Rotation& r) { return text(name_of(r.read)); },
          "\"half\" (i, i + d/2) or \"interleaved\" (2i, 2i+1): how input channels are paired.")
      .def_prop_ro(
          "write_pairing", [](const Rotation& r) { return text(name_of(r.write)); },
          "How output channels are laid out.")
      .def_ro("head_dim", &Rotation::head_dim, "Elements of one head.")
      .def_ro("offset", &Rotation::offset, "First rotated channel.")
      .def_ro("rotary_dim", &Rotation::width, "Rotated channels, 2P.")
      .def_ro("sign", &Rotation::sign, "-1 rotates the other way.")
      .def_ro("shared_key", &Rotation::shared_key, "One rotated key for all heads.")
      .def_prop_ro(
          "acts_on",
          [](const Rotation& r) {
            std::vector<std::string> names;
            if (r.acts_on.q) names.emplace_back("q");
            if (r.acts_on.k) names.emplace_back("k");
            if (r.acts_on.v) names.emplace_back("v");
            if (r.acts_on.output_inverse) names.emplace_back("output_inverse");
            return names;
          },
          "Which of q, k, v and (rotated back) the attention output.")
      .def(nb::self == nb::self, nb::sig("def __eq__(self, arg: object, /) -> bool"))
      .def("__repr__", [](const Rotation& r) {
        return fmt::format("Rotation(rotary_dim={}, head_dim={}, pairing='{}', amplitude={})", r.width,
                           r.head_dim, name_of(r.read), r.amplitude);
      });
  nb::class_<Bias>(m, "Bias", "Addition to the attention scores.")
      .def_prop_ro(
          "form", [](const Bias& b) { return text(name_of(b.form)); },
          "\"slopes\" (ALiBi), \"buckets\" (T5), \"function\" or \"content\".")
      .def_ro("heads", &Bias::heads)
      .def_prop_ro(
          "slopes", [](const Bias& b) { return numpy_copy(b.slopes); },
          nb::sig("def slopes(self) -> numpy.typing.NDArray[numpy.float64]"), "[heads] 1/token, form slopes.")
      .def_ro("buckets", &Bias::buckets, "Rows of the table, form buckets.")
      .def_ro("max_distance", &Bias::max_distance, "Tokens.")
      .def_prop_ro("counts_from", [](const Bias& b) { return text(name_of(b.counts_from)); })
      .def_ro("bidirectional", &Bias::bidirectional)
      .def(nb::self == nb::self, nb::sig("def __eq__(self, arg: object, /) -> bool"))
      .def("__repr__",
           [](const Bias& b) { return fmt::format("Bias(form='{}', heads={})", name_of(b.form), b.heads); });
  nb::class_<QueryScale>(m, "QueryScale", "Factor on q as a function of its position.")
      .def_ro("form", &QueryScale::form)
      .def_ro("scale", &QueryScale::scale)
      .def_ro("floor", &QueryScale::floor, "Tokens.")
      .def_ro("shift", &QueryScale::shift, "Tokens.")
      .def(
          "factor", [](const QueryScale& s, std::int64_t position) { return query_factor(s, position); },
          nb::arg("position"), "The factor at a position, f64.")
      .def(nb::self == nb::self, nb::sig("def __eq__(self, arg: object, /) -> bool"));
  nb::class_<PositionEmbedding>(m, "PositionEmbedding", "Addition to the token state.")
      .def_prop_ro(
          "form",
          [](const PositionEmbedding& e) {
            return std::string(e.form == EmbeddingForm::table      ? "table"
                               : e.form == EmbeddingForm::sinusoid ? "sinusoid"
                                                                   : "token_types");
          },
          "\"table\", \"sinusoid\" or \"token_types\".")
      .def_ro("rows", &PositionEmbedding::rows, "Rows of the table; 0: a generator without end.")
      .def_ro("width", &PositionEmbedding::width)
      .def_ro("offset", &PositionEmbedding::offset, "row = position + offset.")
      .def_ro("first_position", &PositionEmbedding::first_position)
      .def_ro("scale", &PositionEmbedding::scale)
      .def_prop_ro(
          "inv_freq", [](const PositionEmbedding& e) { return numpy_copy(e.inv_freq); },
          nb::sig("def inv_freq(self) -> numpy.typing.NDArray[numpy.float64]"),
          "[width/2] rad/token, form sinusoid.")
      .def(nb::self == nb::self, nb::sig("def __eq__(self, arg: object, /) -> bool"));
}

}  // namespace

void bind_plan(nb::module_& m) {
  bind_sites(m);
  nb::class_<PositionSpec>(m, "PositionSpec", "One mechanism with its parameters, as a model states it.")
      .def(
          "__init__",
          [](PositionSpec* self, std::string mechanism,
             const std::map<std::string, ParameterValue>& parameters) {
            new (self) PositionSpec(make_spec(std::move(mechanism), parameters));
          },
          nb::arg("mechanism"), nb::arg("parameters") = std::map<std::string, ParameterValue>())
      .def_ro("mechanism", &PositionSpec::mechanism, "\"rope\", \"yarn\", \"alibi\", \"learned\", ...")
      .def_prop_ro("parameters", values_of, "What is stated, by name.")
      .def_prop_ro("keys", keys_of, "The config key that each parameter was read from; \"\": a default.")
      .def("plan", plan_of, nb::arg("recipe") = "exact", nb::kw_only(), nb::arg("seen") = 0,
           nb::arg("capacity") = 0,
           "What follows from it when `seen` tokens are there and the runtime was opened for `capacity`. "
           "SpecError\n"
           "\"mechanism: rule, what we got\" on a bad parameter.")
      .def("__repr__", [](nb::handle self) {
        return fmt::format("PositionSpec('{}', {})", nb::cast<std::string>(self.attr("mechanism")),
                           nb::repr(self.attr("parameters")).c_str());
      });
  nb::class_<LayerPositions>(m, "LayerPositions",
                             "The sites of one kind of layer; nothing: a layer without positions.")
      .def_ro("rotation", &LayerPositions::rotation)
      .def_ro("bias", &LayerPositions::bias)
      .def_ro("query_scale", &LayerPositions::query_scale);
  nb::class_<NamedPlan>(m, "Plan", "The positions of one stack under a recipe.")
      .def_prop_ro("recipe", [](const NamedPlan& p) { return text(p.recipe->name); })
      .def_prop_ro("stack", [](const NamedPlan& p) { return text(name_of(p.plan.stack)); })
      .def_prop_ro(
          "embedding", [](const NamedPlan& p) { return p.plan.embedding; },
          "What is added to the token state.")
      .def_prop_ro(
          "layers", [](const NamedPlan& p) { return p.plan.layers; }, "[layers] index into `kinds`.")
      .def_prop_ro("kinds", [](const NamedPlan& p) { return p.plan.kinds; })
      .def(
          "layer",
          [](const NamedPlan& p, std::int64_t layer) {
            const auto count = static_cast<std::int64_t>(p.plan.layers.size());
            if (layer < 0 || layer >= count)
              throw std::out_of_range(fmt::format("plan: layer {} is outside {} layers", layer, count));
            return p.plan.kinds[static_cast<std::size_t>(p.plan.layers[static_cast<std::size_t>(layer)])];
          },
          nb::arg("layer"), "The sites of one layer; IndexError past the last.")
      .def(
          "__eq__", [](const NamedPlan& a, const NamedPlan& b) { return a.plan == b.plan; },
          nb::is_operator(), nb::sig("def __eq__(self, arg: object, /) -> bool"),
          "Equal numbers, whatever the recipe's name.")
      .def("__repr__", [](const NamedPlan& p) {
        return fmt::format("Plan(layers={}, kinds={}, recipe='{}')", p.plan.layers.size(),
                           p.plan.kinds.size(), p.recipe->name);
      });
}

}  // namespace locant::python

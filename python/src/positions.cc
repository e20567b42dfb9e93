// SPDX-License-Identifier: Apache-2.0
// positions.h: mechanisms, tables, slopes and buckets, position ids.
#include "locant/positions.h"

#include <fmt/format.h>

#include "arrays.h"
#include "bindings.h"

namespace locant::python {
namespace {

Numerics numerics_named(std::string_view recipe, std::string_view run_dtype) {
  return numerics_of(find_recipe(recipe), dtype_named(run_dtype));
}

/// positions [T] or [axes, T].
View<const std::int64_t, 2> positions_of(const Array& array) {
  if (array.rank() == 2) return array.view<const std::int64_t, 2>();
  const auto one = array.view<const std::int64_t, 1>();
  return {one.data_handle(), {1, one.extent(0)}, {0, one.stride(0)}};
}

nb::tuple rotation_tables(const Rotation& rotation, nb::handle positions, std::string_view recipe,
                          std::string_view run_dtype) {
  const Array array = Array::to_read(positions, "tables", "positions");
  const auto at = positions_of(array);
  const auto tokens = static_cast<std::size_t>(at.extent(1));
  const std::size_t pairs = rotation.inv_freq.size();
  std::vector<float> cos(tokens * pairs);
  std::vector<float> sin(tokens * pairs);
  const std::array<std::int64_t, 2> shape{at.extent(1), static_cast<std::int64_t>(pairs)};
  const Numerics numerics = numerics_named(recipe, run_dtype);
  {
    const nb::gil_scoped_release released;
    rotation_table(rotation, numerics, at, {cos.data(), shape}, {sin.data(), shape});
  }
  return nb::make_tuple(numpy_of(std::move(cos), {tokens, pairs}), numpy_of(std::move(sin), {tokens, pairs}));
}

nb::object sinusoid(const PositionEmbedding& embedding, nb::handle positions, std::string_view recipe,
                    std::string_view run_dtype) {
  const Array array = Array::to_read(positions, "tables", "positions");
  const auto at = array.view<const std::int64_t, 1>();
  const auto tokens = static_cast<std::size_t>(at.extent(0));
  const auto width = static_cast<std::size_t>(embedding.width);
  std::vector<float> rows(tokens * width);
  const Numerics numerics = numerics_named(recipe, run_dtype);
  {
    const nb::gil_scoped_release released;
    sinusoid_rows(embedding, numerics, at, {rows.data(), {at.extent(0), embedding.width}});
  }
  return numpy_of(std::move(rows), {tokens, width});
}

nb::object bias_scores(const Bias& bias, nb::handle queries, nb::handle keys, std::string_view recipe) {
  const Array query_array = Array::to_read(queries, "bias_scores", "queries");
  const Array key_array = Array::to_read(keys, "bias_scores", "keys");
  const auto q = query_array.view<const std::int64_t, 1>();
  const auto k = key_array.view<const std::int64_t, 1>();
  const std::array<std::int64_t, 3> shape{bias.heads, q.extent(0), k.extent(0)};
  std::vector<float> scores(static_cast<std::size_t>(shape[0] * shape[1] * shape[2]));
  const Numerics numerics = find_recipe(recipe).numerics;
  {
    const nb::gil_scoped_release released;
    slope_scores(bias, numerics, q, k, {scores.data(), shape});
  }
  return numpy_of(std::move(scores), {static_cast<std::size_t>(shape[0]), static_cast<std::size_t>(shape[1]),
                                      static_cast<std::size_t>(shape[2])});
}

void bind_mechanisms(nb::module_& m) {
  nb::class_<ParameterDescription>(m, "ParameterDescription", "A parameter of a mechanism.")
      .def_prop_ro("name", [](const ParameterDescription& p) { return text(p.name); })
      .def_prop_ro("unit", [](const ParameterDescription& p) { return text(p.unit); })
      .def_prop_ro(
          "default", [](const ParameterDescription& p) { return text(p.default_text); }, "\"\": required.")
      .def_prop_ro("config_keys", [](const ParameterDescription& p) { return text(p.config_keys); })
      .def_prop_ro("meaning", [](const ParameterDescription& p) { return text(p.meaning); });
  nb::class_<Mechanism>(m, "Mechanism", "A way to tell a model where a token stands.")
      .def_prop_ro("name", [](const Mechanism& x) { return text(x.name); })
      .def_prop_ro(
          "aliases",
          [](const Mechanism& x) { return std::vector<std::string>(x.aliases.begin(), x.aliases.end()); })
      .def_prop_ro("site", [](const Mechanism& x) { return text(name_of(x.site)); })
      .def_prop_ro("summary", [](const Mechanism& x) { return text(x.summary); })
      .def_prop_ro("formula", [](const Mechanism& x) { return text(x.formula); })
      .def_prop_ro("paper", [](const Mechanism& x) { return text(x.paper); })
      .def_prop_ro("parameters",
                   [](const Mechanism& x) {
                     return std::vector<ParameterDescription>(x.parameters.begin(), x.parameters.end());
                   })
      .def("__repr__", [](const Mechanism& x) { return fmt::format("Mechanism('{}')", x.name); });
  m.def(
      "mechanisms",
      [] {
        nb::list all;
        for (const Mechanism& one : mechanisms()) all.append(nb::cast(&one, nb::rv_policy::reference));
        return all;
      },
      nb::sig("def mechanisms() -> list[Mechanism]"), "All mechanisms.");
  m.def(
      "mechanism", [](std::string_view name) { return &find_mechanism(name); }, nb::arg("name"),
      nb::rv_policy::reference, "By name or alias; SpecError with the nearest one otherwise.");
}

}  // namespace

void bind_positions(nb::module_& m) {
  bind_mechanisms(m);
  m.def("rotation_tables", rotation_tables, nb::arg("rotation"), nb::arg("positions"), nb::arg("recipe"),
        nb::arg("run_dtype"),
        nb::sig("def rotation_tables(rotation: Rotation, positions: object, recipe: str, run_dtype: str) -> "
                "tuple[numpy.typing.NDArray[numpy.float32], numpy.typing.NDArray[numpy.float32]]"),
        "cos and sin [T, P]; positions [T] or [axes, T] int64.");
  m.def("sinusoid_rows", sinusoid, nb::arg("embedding"), nb::arg("positions"), nb::arg("recipe"),
        nb::arg("run_dtype"),
        nb::sig("def sinusoid_rows(embedding: PositionEmbedding, positions: object, recipe: str, run_dtype: "
                "str) -> "
                "numpy.typing.NDArray[numpy.float32]"),
        "What is added at positions [T]: [T, width].");
  m.def("bias_scores", bias_scores, nb::arg("bias"), nb::arg("queries"), nb::arg("keys"), nb::arg("recipe"),
        nb::sig("def bias_scores(bias: Bias, queries: object, keys: object, recipe: str) -> "
                "numpy.typing.NDArray[numpy.float32]"),
        "What a bias of form slopes adds: [heads, Q, K] for positions [Q] and [K] int64.");
  m.def(
      "alibi_slopes",
      [](std::int64_t heads, double bias_max) { return numpy_copy(alibi_slopes(heads, bias_max)); },
      nb::arg("heads"), nb::arg("bias_max") = 8.0,
      nb::sig("def alibi_slopes(heads: int, bias_max: float = 8.0) -> numpy.typing.NDArray[numpy.float64]"),
      "ALiBi's slopes for any number of heads, f64, 1/token.");
  m.def(
      "t5_bucket",
      [](std::int64_t relative, std::int64_t buckets, std::int64_t max_distance, bool bidirectional) {
        return t5_bucket(relative,
                         {.buckets = buckets, .max_distance = max_distance, .bidirectional = bidirectional});
      },
      nb::arg("relative"), nb::kw_only(), nb::arg("buckets") = 32, nb::arg("max_distance") = 128,
      nb::arg("bidirectional") = true,
      "T5's bucket of key position - query position, exact at any distance.");
  m.def(
      "deberta_bucket",
      [](std::int64_t relative, std::int64_t buckets, std::int64_t max_distance) {
        return deberta_bucket(relative, {.buckets = buckets, .max_distance = max_distance});
      },
      nb::arg("relative"), nb::kw_only(), nb::arg("buckets") = 256, nb::arg("max_distance") = 512,
      "DeBERTa-v2's signed bucket of query position - key position.");
  m.def(
      "masked_positions",
      [](nb::handle mask, std::int64_t start, std::int64_t pad_value) {
        const Array array = Array::to_read(mask, "masked_positions", "mask");
        const auto view = array.view<const std::int64_t, 2>();
        const nb::module_ numpy = nb::module_::import_("numpy");
        nb::object out = numpy.attr("empty")(nb::make_tuple(view.extent(0), view.extent(1)), "int64");
        masked_positions(view, start, pad_value,
                         Array::to_write(out, "masked_positions", "out").view<std::int64_t, 2>());
        return out;
      },
      nb::arg("mask"), nb::arg("start") = 0, nb::arg("pad_value") = 0,
      nb::sig("def masked_positions(mask: object, start: int = 0, pad_value: int = 0) -> "
              "numpy.typing.NDArray[numpy.int64]"),
      "Positions of a padded batch, mask [B, T] int64 with 1 = token: content counts from `start` in each "
      "row.");
}

}  // namespace locant::python

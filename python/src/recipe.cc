// SPDX-License-Identifier: Apache-2.0
// recipe.h: whose meaning a config is read under.
#include "locant/recipe.h"

#include "bindings.h"

namespace locant::python {
void bind_recipe(nb::module_& m) {
  nb::class_<Deviation>(m, "Deviation", "One difference of a recipe from the published formula.")
      .def_prop_ro("touches", [](const Deviation& d) { return text(name_of(d.touches)); })
      .def_prop_ro("what", [](const Deviation& d) { return text(d.what); })
      .def_prop_ro("evidence", [](const Deviation& d) { return text(d.evidence); })
      .def_ro("tested_live", &Deviation::tested_live);
  nb::class_<Recipe>(m, "Recipe",
                     "Whose meaning a config is read under: \"exact\", \"hf\", \"llama.cpp\", ...")
      .def_prop_ro("name", [](const Recipe& r) { return text(r.name); })
      .def_prop_ro("summary", [](const Recipe& r) { return text(r.summary); })
      .def_prop_ro(
          "deviations",
          [](const Recipe& r) { return std::vector<Deviation>(r.deviations.begin(), r.deviations.end()); })
      .def("__repr__", [](const Recipe& r) { return "Recipe('" + text(r.name) + "')"; });
  m.def(
      "recipes",
      [] {
        nb::list all;
        for (const Recipe& recipe : recipes()) all.append(nb::cast(&recipe, nb::rv_policy::reference));
        return all;
      },
      nb::sig("def recipes() -> list[Recipe]"), "All recipes.");
  m.def(
      "recipe", [](std::string_view name) { return &find_recipe(name); }, nb::arg("name"),
      nb::rv_policy::reference, "The recipe of that name; SpecError with the nearest one otherwise.");
}

}  // namespace locant::python

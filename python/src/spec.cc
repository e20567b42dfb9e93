// SPDX-License-Identifier: Apache-2.0
// spec.h, facts.h: what a model says of itself, and the facts that follow.
#include "locant/spec.h"

#include <fmt/format.h>

#include "bindings.h"
#include "cli/inspect_report.h"
#include "cli/models.h"
#include "locant/facts.h"

namespace locant::python {
namespace {

/// Whose meaning a checkpoint is read under when nobody says.
std::string recipe_or_default(std::string_view recipe, const ModelSpec& spec) {
  if (!recipe.empty()) return std::string(recipe);
  return spec.format == "gguf" ? "llama.cpp" : "hf";
}

const StackPositions& stack_named(const ModelSpec& spec, std::string_view stack) {
  if (stack.empty() || name_of(spec.positions.stack) == stack) return spec.positions;
  for (const StackSpec& other : spec.others) {
    if (name_of(other.positions.stack) == stack) return other.positions;
  }
  throw SpecError(fmt::format("plan: the model has no stack \"{}\"", stack));
}

NamedPlan plan_of(const ModelSpec& spec, std::string_view recipe, std::int64_t seen, std::int64_t capacity,
                  std::string_view stack) {
  const Recipe& under = find_recipe(recipe_or_default(recipe, spec));
  return {plan(stack_named(spec, stack), under, {.seen = seen, .capacity = capacity}), &under};
}

std::string facts_json(const ModelSpec& spec, const FactsQuery& query) {
  return cli::inspect_json(facts_of(spec, query)).dump();
}

}  // namespace

void bind_spec(nb::module_& m) {
  nb::class_<Note>(m, "Note", "Something odd in what a model says, or a key that nobody reads.")
      .def_ro("text", &Note::text)
      .def_ro("rule", &Note::rule, "Id of the rule that says more; \"\": none.")
      .def_ro("key", &Note::key, "The dotted key it is about; \"\": no single one.")
      .def("__repr__", [](const Note& n) { return fmt::format("Note('{}')", n.text); });
  nb::class_<ModelSpec>(m, "Spec", "What a model says of itself, read from its config.")
      .def_static(
          "from_config",
          [](nb::object config) { return nb::module_::import_("locant.sources").attr("read_spec")(config); },
          nb::arg("config"), nb::sig("def from_config(config: object) -> Spec"),
          "From a path, a bundled model's name, a config as a dict, or a transformers model or config.")
      .def_ro("family", &ModelSpec::family, "\"llama\", \"gpt2\", ...")
      .def_ro("format", &ModelSpec::format, "\"hf\", \"meta\", \"llama2c\" or \"gguf\".")
      .def_ro("path", &ModelSpec::path, "Of the config.")
      .def_ro("layers", &ModelSpec::layers)
      .def_ro("hidden", &ModelSpec::hidden)
      .def_ro("heads", &ModelSpec::heads)
      .def_ro("kv_heads", &ModelSpec::kv_heads)
      .def_ro("head_dim", &ModelSpec::head_dim)
      .def_ro("vocab", &ModelSpec::vocab)
      .def_ro("generic", &ModelSpec::generic,
              "The family is not known: keys are read as most families mean them.")
      .def_prop_ro(
          "trained_length", [](const ModelSpec& s) { return s.lengths.trained; },
          "Tokens, where a key states it.")
      .def_prop_ro(
          "configured_length", [](const ModelSpec& s) { return s.lengths.configured; },
          "Tokens that it offers.")
      .def_prop_ro(
          "embedding_positions", [](const ModelSpec& s) { return s.positions.embedding; },
          "Mechanisms at the embedding.")
      .def_prop_ro(
          "layer_positions", [](const ModelSpec& s) { return s.positions.layers; },
          "[layers] the mechanisms of each layer; an empty list: a layer without positions.")
      .def_ro("notes", &ModelSpec::notes)
      .def_ro("eos", &ModelSpec::eos, "Ids that end a text.")
      .def_ro("decoder_start", &ModelSpec::decoder_start,
              "First id of a decoder beside an encoder; None where the config states none.")
      .def_ro("bos", &ModelSpec::bos, "Id that begins a text.")
      .def("__repr__", [](const ModelSpec& s) {
        return fmt::format("Spec(family='{}', layers={}, hidden={}, heads={})", s.family, s.layers, s.hidden,
                           s.heads);
      });
  m.def(
      "read_spec", [](const std::string& path) { return cli::read_model_spec(path); }, nb::arg("path"),
      "Reads config.json, params.json, a .gguf file or a directory; what is not understood becomes a note.");
  m.def(
      "read_spec_strict", [](const std::string& path) { return read_hf_config(path, Reading::strict); },
      nb::arg("path"), "Reads config.json of a Hugging Face model; what is not understood is a SpecError.");
  m.def("weights_beside", &cli::weights_beside, nb::arg("path"), nb::arg("spec"),
        "Where the weights of a model lie that was read at `path`; \"\" for a bare config.");
  m.def("plan", plan_of, nb::arg("spec"), nb::arg("recipe"), nb::arg("seen"), nb::arg("capacity"),
        nb::arg("stack"), "The plan of a stack; an empty recipe or stack: the model's own.");
  m.def(
      "facts_json",
      [](const ModelSpec& spec, const std::string& weights, const std::string& recipe,
         std::optional<std::int64_t> distance, std::optional<std::int64_t> capacity) {
        return facts_json(spec,
                          {.recipe = recipe, .distance = distance, .capacity = capacity, .weights = weights});
      },
      nb::arg("spec"), nb::arg("weights"), nb::arg("recipe"), nb::arg("distance").none(),
      nb::arg("capacity").none(), nb::call_guard<nb::gil_scoped_release>(),
      "What `locant inspect --json` prints.");
  m.def(
      "families",
      [] {
        std::vector<std::string> names;
        for (const std::string_view name : families()) names.emplace_back(name);
        return names;
      },
      "Families that configs are known of.");
}

}  // namespace locant::python

// SPDX-License-Identifier: Apache-2.0
// model.h: models that run.
#include "locant/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "session.h"

namespace locant::python {
namespace {

WeightStorage storage_named(std::string_view name) {
  if (name == "as_stored") return WeightStorage::as_stored;
  if (name == "f32") return WeightStorage::f32;
  if (name == "f16") return WeightStorage::f16;
  if (name == "bf16") return WeightStorage::bf16;
  throw SpecError(fmt::format("load: weights are kept as_stored, f32, f16 or bf16, got \"{}\"", name));
}

Activations activations_named(std::string_view name) {
  if (name == "f32") return Activations::f32;
  if (name == "int8") return Activations::int8;
  throw SpecError(fmt::format("load: activations are f32 or int8, got \"{}\"", name));
}

LoadedModel load(const std::string& path, const std::string& recipe, std::string_view run_dtype,
                 std::string_view weights, std::string_view activations, std::optional<int> count) {
  LoadedModel loaded;
  loaded.pool = count ? std::make_shared<ThreadPool>(*count) : threads();
  const LoadOptions options{
      .recipe = recipe,
      .run_dtype = dtype_named(run_dtype),
      .weights = storage_named(weights),
      .activations = activations_named(activations)};
  const nb::gil_scoped_release released;
  loaded.model = Model::load(path, options, *loaded.pool);
  return loaded;
}

using Rows = std::vector<std::vector<std::int64_t>>;

Rows generate(const LoadedModel& self, const Rows& prompts, std::int64_t tokens,
              const std::vector<std::int64_t>& end_tokens, const Sampling& sampling) {
  check_sampling(sampling);
  if (tokens < 0) throw SpecError(fmt::format("generate: tokens are 0 or more, got {}", tokens));
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> lengths;
  for (const auto& row : prompts) {
    if (row.empty())
      throw SpecError(fmt::format("generate: row {} is empty, expected a token or more", lengths.size()));
    ids.insert(ids.end(), row.begin(), row.end());
    lengths.push_back(static_cast<std::int64_t>(row.size()));
  }
  if (prompts.empty()) throw SpecError("generate: ids must hold a row or more, got none");
  if (tokens == 0) return Rows(prompts.size());
  const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  const auto session = self.model->open_session(
      {.rows = static_cast<std::int64_t>(prompts.size()), .capacity = longest + tokens - 1});
  std::vector<std::int64_t> first(prompts.size());
  session->feed({.ids = ids, .row_tokens = lengths, .positions = {}}, LogitsOf::last_of_row,
                [&](std::int64_t row, View<const float, 2> logits) {
                  for (std::int64_t i = 0; i < logits.extent(0); ++i) {
                    const View<const float, 1> one(logits.data_handle() + i * logits.stride(0),
                                                   {logits.extent(1)});
                    first[static_cast<std::size_t>(row + i)] = choose(one, sampling, row + i, 0);
                  }
                });
  Rows rows;
  const ContinueOptions options{
      .tokens = tokens, .first = first, .end_tokens = end_tokens, .sampling = sampling};
  for (Continuation& one : continue_rows(*session, options, [](std::int64_t, std::int64_t) {}))
    rows.push_back(std::move(one.ids));
  return rows;
}

}  // namespace

void bind_model(nb::module_& m) {
  nb::class_<LoadedModel>(m, "LoadedModel",
                          "A model that runs: ids to logits. Immutable, shared by its sessions.")
      .def_prop_ro(
          "spec", [](const LoadedModel& l) { return &l.model->spec(); }, nb::rv_policy::reference_internal)
      .def_prop_ro(
          "plan",
          [](const LoadedModel& l) {
            return NamedPlan{l.model->plan(), &l.model->recipe()};
          },
          nb::keep_alive<0, 1>())
      .def_prop_ro("recipe", [](const LoadedModel& l) { return text(l.model->recipe().name); })
      .def_prop_ro("name", [](const LoadedModel& l) { return l.model->name(); })
      .def_prop_ro("vocab", [](const LoadedModel& l) { return l.model->vocab(); })
      .def_prop_ro(
          "parameters", [](const LoadedModel& l) { return l.model->parameters(); },
          "Elements, tied ones once.")
      .def_prop_ro("weight_bytes", [](const LoadedModel& l) { return l.model->weight_bytes(); })
      .def_prop_ro(
          "last_position", [](const LoadedModel& l) { return l.model->last_position(); },
          "Last position that the embedding site has a row for; None without a table.")
      .def(
          "open",
          [](const LoadedModel& l, std::int64_t capacity, std::optional<std::int64_t> rows,
             std::string_view cache) {
            if (!rows && cache == "f32")
              return Session{.session = l.model->open(capacity), .vocab = l.model->vocab()};
            return Session{.session = l.model->open_session(
                               {.rows = rows.value_or(1), .capacity = capacity, .cache = dtype_named(cache)}),
                           .vocab = l.model->vocab()};
          },
          nb::arg("capacity"), nb::kw_only(), nb::arg("rows").none() = nb::none(), nb::arg("cache") = "f32",
          nb::keep_alive<0, 1>(),
          "A session for up to `capacity` tokens a row; `rows` = B, else that of the first call (1 for a "
          "cache in\n"
          "f16 or bf16). IndexError past a table's end.")
      .def(
          "generate_rows",
          [](const LoadedModel& l, const Rows& ids, std::int64_t tokens,
             const std::vector<std::int64_t>& end_tokens, double temperature, std::int64_t top_k,
             double top_p, std::uint64_t seed) {
            return generate(l, ids, tokens, end_tokens,
                            {.temperature = temperature, .top_k = top_k, .top_p = top_p, .seed = seed});
          },
          nb::arg("ids"), nb::arg("tokens"), nb::arg("end_tokens"), nb::kw_only(),
          nb::arg("temperature") = 0.0, nb::arg("top_k") = 0, nb::arg("top_p") = 1.0, nb::arg("seed") = 0,
          nb::call_guard<nb::gil_scoped_release>());
  m.def("load", load, nb::arg("path"), nb::arg("recipe"), nb::arg("run_dtype"), nb::arg("weights"),
        nb::arg("activations"), nb::arg("threads").none());
  m.def(
      "runnable_families",
      [] {
        std::vector<std::string> names;
        for (const std::string_view name : runnable_families()) names.emplace_back(name);
        return names;
      },
      "Families that load() runs.");
}

}  // namespace locant::python

// SPDX-License-Identifier: Apache-2.0
// model.h: models that run.
#include "locant/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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
  if (name == "bf16") return Activations::bf16;
  if (name == "int8") return Activations::int8;
  throw SpecError(fmt::format("load: activations are f32, bf16 or int8, got \"{}\"", name));
}

LoadedModel load(const std::string& path, const std::string& recipe, std::string_view run_dtype,
                 std::string_view weights, std::string_view activations, std::optional<int> count) {
  LoadedModel loaded;
  loaded.pool = count ? std::make_shared<ThreadPool>(*count) : threads();
  const LoadOptions options{.recipe = recipe,
                            .run_dtype = dtype_named(run_dtype),
                            .weights = storage_named(weights),
                            .activations = activations_named(activations)};
  const nb::gil_scoped_release released;
  loaded.model = Model::load(path, options, *loaded.pool);
  return loaded;
}

DType cache_named(std::string_view name) {
  return name == "int8" ? DType::i8 : dtype_named(name);
}

using Rows = std::vector<std::vector<std::int64_t>>;

/// Rows one behind the other.
struct FlatRows {
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> lengths;
  std::int64_t longest = 0;

  FlatRows(std::string_view who, const Rows& rows) {
    for (const auto& row : rows) {
      if (row.empty())
        throw SpecError(fmt::format("{}: row {} is empty, expected a token or more", who, lengths.size()));
      ids.insert(ids.end(), row.begin(), row.end());
      lengths.push_back(static_cast<std::int64_t>(row.size()));
      longest = std::max(longest, lengths.back());
    }
    if (rows.empty()) throw SpecError(fmt::format("{}: ids must hold a row or more, got none", who));
  }
  [[nodiscard]] FeedCall call() const { return {.ids = ids, .row_tokens = lengths, .positions = {}}; }
  [[nodiscard]] std::int64_t rows() const { return static_cast<std::int64_t>(lengths.size()); }
};

/// [B, T, width] with NaN behind shorter rows, filled as the rows of a call come.
class Padded {
 public:
  Padded(const FlatRows& rows, std::int64_t width)
      : longest_(rows.longest),
        width_(width),
        values_(static_cast<std::size_t>(rows.rows() * longest_ * width), std::nanf("")) {
    for (std::int64_t row = 0; row < rows.rows(); ++row) {
      for (std::int64_t i = 0; i < rows.lengths[static_cast<std::size_t>(row)]; ++i)
        places_.push_back(row * longest_ + i);
    }
  }
  void take(std::int64_t first, View<const float, 2> values) {
    for (std::int64_t i = 0; i < values.extent(0); ++i) {
      const float* const from = values.data_handle() + i * values.stride(0);
      std::copy_n(from, width_,
                  values_.begin() +
                      static_cast<std::ptrdiff_t>(places_[static_cast<std::size_t>(first + i)] * width_));
    }
  }
  [[nodiscard]] nb::object array() && {
    auto* const kept = new std::vector<float>(std::move(values_));
    const nb::capsule owner(kept, [](void* data) noexcept { delete static_cast<std::vector<float>*>(data); });
    const auto width = static_cast<std::size_t>(width_);
    const auto longest = static_cast<std::size_t>(longest_);
    return nb::cast(nb::ndarray<nb::numpy, float>(kept->data(),
                                                  {kept->size() / (longest * width), longest, width}, owner));
  }

 private:
  std::int64_t longest_;
  std::int64_t width_;
  std::vector<float> values_;
  std::vector<std::int64_t> places_;
};

/// A session whose encoder has read its rows, where the model has one.
std::unique_ptr<locant::Session> session_for(const LoadedModel& self, const SessionOptions& options,
                                             const Rows& encoder) {
  if (!self.model->has_encoder()) {
    if (!encoder.empty())
      throw SpecError(
          fmt::format("encoder_ids are for a model with an encoder, {} has none", self.model->spec().family));
    return self.model->open_session(options);
  }
  const FlatRows read("encoder_ids", encoder);
  if (read.rows() != options.rows) {
    throw SpecError(
        fmt::format("encoder_ids must hold {} rows, as many as ids, got {}", options.rows, read.rows()));
  }
  auto session = self.model->open_session(options);
  session->encode(read.call(), {});
  return session;
}

nb::object logits(const LoadedModel& self, const Rows& ids, const Rows& encoder) {
  const FlatRows flat("logits", ids);
  Padded out(flat, self.model->vocab());
  {
    const nb::gil_scoped_release released;
    session_for(self, {.rows = flat.rows(), .capacity = flat.longest}, encoder)
        ->feed(flat.call(), LogitsOf::all,
               [&](std::int64_t first, View<const float, 2> values) { out.take(first, values); });
  }
  return std::move(out).array();
}

nb::object states(const LoadedModel& self, const Rows& ids) {
  const FlatRows flat("states", ids);
  Padded out(flat, self.model->spec().hidden);
  {
    const nb::gil_scoped_release released;
    const auto session = self.model->open_session({.rows = flat.rows(), .capacity = flat.longest});
    const StatesReader take = [&](std::int64_t first, View<const float, 2> values) {
      out.take(first, values);
    };
    if (self.model->has_encoder()) {
      session->encode(flat.call(), take);
    } else {
      session->feed_states(flat.call(), take);
    }
  }
  return std::move(out).array();
}

Rows generate(const LoadedModel& self, const Rows& prompts, std::int64_t tokens,
              const std::vector<std::int64_t>& end_tokens, const Sampling& sampling, const Rows& encoder) {
  check_sampling(sampling);
  if (tokens < 0) throw SpecError(fmt::format("generate: tokens are 0 or more, got {}", tokens));
  const FlatRows flat("generate", prompts);
  if (self.model->is_bidirectional() && !self.model->has_encoder()) {
    throw SpecError(fmt::format("generate: a model that predicts the next token is needed, got {}",
                                self.model->spec().family));
  }
  if (tokens == 0) return Rows(prompts.size());
  const auto session =
      session_for(self, {.rows = flat.rows(), .capacity = flat.longest + tokens - 1}, encoder);
  std::vector<std::int64_t> first(prompts.size());
  session->feed(flat.call(), LogitsOf::last_of_row, [&](std::int64_t row, View<const float, 2> logits) {
    for (std::int64_t i = 0; i < logits.extent(0); ++i) {
      const View<const float, 1> one(logits.data_handle() + i * logits.stride(0), {logits.extent(1)});
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
  nb::class_<LoadedModel> model(m, "LoadedModel",
                                "A model that runs: ids to logits. Immutable, shared by its sessions.");
  model
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
                               {.rows = rows.value_or(1), .capacity = capacity, .cache = cache_named(cache)}),
                           .vocab = l.model->vocab()};
          },
          nb::arg("capacity"), nb::kw_only(), nb::arg("rows").none() = nb::none(), nb::arg("cache") = "f32",
          nb::keep_alive<0, 1>(),
          "A session for up to `capacity` tokens a row; `rows` = B, else that of the first call (1 for a "
          "cache in\n"
          "f16, bf16 or int8). IndexError past a table's end.")
      .def(
          "generate_rows",
          [](const LoadedModel& l, const Rows& ids, std::int64_t tokens,
             const std::vector<std::int64_t>& end_tokens, double temperature, std::int64_t top_k,
             double top_p, std::uint64_t seed, const Rows& encoder_ids) {
            return generate(l, ids, tokens, end_tokens,
                            {.temperature = temperature, .top_k = top_k, .top_p = top_p, .seed = seed},
                            encoder_ids);
          },
          nb::arg("ids"), nb::arg("tokens"), nb::arg("end_tokens"), nb::kw_only(),
          nb::arg("temperature") = 0.0, nb::arg("top_k") = 0, nb::arg("top_p") = 1.0, nb::arg("seed") = 0,
          nb::arg("encoder_ids") = Rows(), nb::call_guard<nb::gil_scoped_release>());
  model.def_prop_ro("has_head", [](const LoadedModel& l) { return l.model->has_head(); })
      .def_prop_ro("has_encoder", [](const LoadedModel& l) { return l.model->has_encoder(); })
      .def("logits_rows", logits, nb::arg("ids"), nb::arg("encoder_ids"),
           nb::sig(
               "def logits_rows(self, ids: Sequence[Sequence[int]], encoder_ids: Sequence[Sequence[int]]) -> "
               "numpy.typing.NDArray[numpy.float32]"))
      .def("states_rows", states, nb::arg("ids"),
           nb::sig("def states_rows(self, ids: Sequence[Sequence[int]]) -> "
                   "numpy.typing.NDArray[numpy.float32]"));
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

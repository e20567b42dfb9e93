// SPDX-License-Identifier: Apache-2.0
// runtime.h: sessions of Locant's own models for Python, and Python's runtimes for the rules.
#include "locant/runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "arrays.h"
#include "python_runtime.h"
#include "session.h"

namespace locant::python {
namespace {

template <std::size_t Rank>
nb::object numpy_int64(View<const std::int64_t, Rank> view) {
  std::array<std::size_t, Rank> shape{};
  for (std::size_t axis = 0; axis < Rank; ++axis) shape[axis] = static_cast<std::size_t>(view.extent(axis));
  auto* const kept = new std::vector<std::int64_t>();
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<std::int64_t>*>(p); });
  kept->reserve(static_cast<std::size_t>(view.size()));
  if constexpr (Rank == 2) {
    for (std::int64_t i = 0; i < view.extent(0); ++i)
      for (std::int64_t j = 0; j < view.extent(1); ++j) kept->push_back(view(i, j));
  } else {
    for (std::int64_t a = 0; a < view.extent(0); ++a)
      for (std::int64_t i = 0; i < view.extent(1); ++i)
        for (std::int64_t j = 0; j < view.extent(2); ++j) kept->push_back(view(a, i, j));
  }
  return nb::cast(nb::ndarray<nb::numpy, std::int64_t>(kept->data(), Rank, shape.data(), owner));
}

class PythonSession final : public RuntimeSession {
 public:
  explicit PythonSession(nb::object object) : object_(std::move(object)) {}
  ~PythonSession() override {
    const nb::gil_scoped_acquire held;
    object_.reset();
  }
  PythonSession(const PythonSession&) = delete;
  PythonSession& operator=(const PythonSession&) = delete;

  void forward(const ForwardCall& call, View<float, 3> logits) override {
    const nb::gil_scoped_acquire held;
    calling_python([&] {
      const nb::object mask = call.mask ? numpy_int64<2>(*call.mask) : nb::none();
      const nb::object positions = call.positions ? numpy_int64<3>(*call.positions) : nb::none();
      const nb::object answer = object_.attr("forward")(numpy_int64<2>(call.ids), mask, positions);
      const nb::tuple shape = nb::make_tuple(logits.extent(0), logits.extent(1), logits.extent(2));
      const nb::object checked = nb::module_::import_("locant.runtime").attr("checked_logits")(answer, shape);
      const Array array = Array::to_read(checked, "forward", "logits");
      const auto given = array.view<const float, 3>();
      for (std::int64_t b = 0; b < given.extent(0); ++b)
        for (std::int64_t t = 0; t < given.extent(1); ++t)
          for (std::int64_t v = 0; v < given.extent(2); ++v) logits(b, t, v) = given(b, t, v);
    });
  }
  [[nodiscard]] std::unique_ptr<RuntimeSession> fork() const override {
    const nb::gil_scoped_acquire held;
    return calling_python([&]() -> std::unique_ptr<RuntimeSession> {
      if (!nb::hasattr(object_, "fork")) return nullptr;
      nb::object copy = object_.attr("fork")();
      if (copy.is_none()) return nullptr;
      return std::make_unique<PythonSession>(std::move(copy));
    });
  }

 private:
  nb::object object_;
};

}  // namespace

PythonRuntime::PythonRuntime(nb::object object) : object_(std::move(object)) {}
PythonRuntime::~PythonRuntime() {
  const nb::gil_scoped_acquire held;
  object_.reset();
}
std::string PythonRuntime::name() const {
  const nb::gil_scoped_acquire held;
  return calling_python([&] { return nb::cast<std::string>(object_.attr("name")); });
}
std::int64_t PythonRuntime::vocab() const {
  const nb::gil_scoped_acquire held;
  return calling_python([&] { return nb::cast<std::int64_t>(object_.attr("vocab")); });
}
std::unique_ptr<RuntimeSession> PythonRuntime::open(std::int64_t capacity) {
  const nb::gil_scoped_acquire held;
  return calling_python(
      [&] { return std::make_unique<PythonSession>(nb::object(object_.attr("open")(capacity))); });
}
std::unique_ptr<Runtime> PythonRuntime::with(const PositionSpec& spec) {
  const nb::gil_scoped_acquire held;
  return calling_python([&]() -> std::unique_ptr<Runtime> {
    if (!nb::hasattr(object_, "with_positions")) return nullptr;
    nb::object other = object_.attr("with_positions")(spec);
    if (other.is_none()) return nullptr;
    return std::make_unique<PythonRuntime>(std::move(other));
  });
}

nb::object Session::forward(nb::handle ids, const std::optional<nb::object>& mask,
                            const std::optional<nb::object>& positions) {
  const Array tokens = Array::to_read(ids, "forward", "ids");
  std::optional<Array> given_mask;
  std::optional<Array> given_positions;
  ForwardCall call{
      .ids = tokens.view<const std::int64_t, 2>(), .mask = std::nullopt, .positions = std::nullopt};
  if (mask) {
    given_mask = Array::to_read(*mask, "forward", "mask");
    call.mask = given_mask->view<const std::int64_t, 2>();
  }
  if (positions) {
    given_positions = Array::to_read(*positions, "forward", "positions");
    call.positions = given_positions->view<const std::int64_t, 3>();
  }
  const std::array<std::int64_t, 3> shape{call.ids.extent(0), call.ids.extent(1), vocab};
  std::vector<float> logits(static_cast<std::size_t>(shape[0] * shape[1] * shape[2]));
  {
    const nb::gil_scoped_release released;
    session->forward(call, {logits.data(), shape});
  }
  return numpy_of(std::move(logits), {static_cast<std::size_t>(shape[0]), static_cast<std::size_t>(shape[1]),
                                      static_cast<std::size_t>(shape[2])});
}

void bind_runtime(nb::module_& m) {
  nb::class_<Session>(m, "Session", "The caches of a batch of rows. One call at a time.")
      .def("forward", &Session::forward, nb::arg("ids"), nb::arg("mask").none() = nb::none(),
           nb::arg("positions").none() = nb::none(),
           nb::sig("def forward(self, ids: object, mask: object | None = None, positions: object | None = "
                   "None) -> "
                   "numpy.typing.NDArray[numpy.float32]"),
           "Feeds ids [B, T] (int64) behind what the cache holds; returns logits [B, T, V], NaN at "
           "padding.\n\n"
           "mask [B, S] int64, 1 = token; its last T columns are this call's. positions [axes, B, T] int64; "
           "none:\n"
           "each row's content counts on from its cache. IndexError: an id, a position, the capacity; "
           "SpecError:\n"
           "shapes. Nothing is fed when it raises.")
      .def(
          "fork",
          [](const Session& self) {
            auto copy = self.session->fork();
            if (copy == nullptr) throw SpecError("fork: the runtime cannot copy a session");
            return Session{.session = std::move(copy), .vocab = self.vocab};
          },
          nb::keep_alive<0, 1>(), "An independent copy of the state; SpecError where the runtime cannot.");
  m.def(
      "open_session",
      [](nb::object runtime, std::int64_t capacity) {
        PythonRuntime adapter(std::move(runtime));
        return Session{.session = adapter.open(capacity), .vocab = adapter.vocab()};
      },
      nb::arg("runtime"), nb::arg("capacity"),
      "A session of a locant.Runtime, driven as the rules drive it.");
}

}  // namespace locant::python

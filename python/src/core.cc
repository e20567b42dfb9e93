// SPDX-License-Identifier: Apache-2.0
// core.h, threads.h: version, the errors as Python's own kinds, threads.
#include "locant/core.h"

#include <fmt/format.h>
#include <pthread.h>

#include <mutex>
#include <utility>

#include "bindings.h"
#include "cli/arguments.h"
#include "locant/ops.h"

namespace locant::python {
namespace {

struct Pool {
  std::mutex mutex;
  std::shared_ptr<ThreadPool> pool;
};

Pool& shared_pool() {
  static auto* const pool = new Pool;  // threads may still be at work when the process ends
  return *pool;
}

/// A child process has this memory without its threads: the pool is left behind, not joined.
void forget_pool() {
  Pool& shared = shared_pool();
  new (&shared.mutex) std::mutex;
  static_cast<void>(new std::shared_ptr<ThreadPool>(std::move(shared.pool)));
}

void set_threads(int count) {
  auto made = std::make_shared<ThreadPool>(count);
  const std::lock_guard lock(shared_pool().mutex);
  shared_pool().pool = std::move(made);
}

void translate_file_error(const std::exception_ptr& pointer, void* type) {
  try {
    std::rethrow_exception(pointer);
  } catch (const FileError& error) {
    const nb::handle kind(static_cast<PyObject*>(type));
    nb::object made = kind(error.what());
    made.attr("path") = nb::str(error.path.c_str());
    made.attr("offset") =
        error.offset == FileError::kNoOffset ? nb::none() : nb::object(nb::int_(error.offset));
    PyErr_SetObject(kind.ptr(), made.ptr());
  }
}

void translate_spec_error(const std::exception_ptr& pointer, void* type) {
  try {
    std::rethrow_exception(pointer);
  } catch (const SpecError& error) {
    PyErr_SetString(static_cast<PyObject*>(type), error.what());
  } catch (const cli::UsageError& error) {
    PyErr_SetString(static_cast<PyObject*>(type), error.what());
  }
}

}  // namespace

std::shared_ptr<ThreadPool> threads() {
  Pool& shared = shared_pool();
  const std::lock_guard lock(shared.mutex);
  if (!shared.pool) shared.pool = std::make_shared<ThreadPool>(ThreadPool::hardware());
  return shared.pool;
}

DType dtype_named(std::string_view name) {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    if (name_of(dtype) == name) return dtype;
  }
  throw SpecError(fmt::format("dtype: one of f64, f32, f16, bf16, got \"{}\"", name));
}

nb::object numpy_copy(const std::vector<double>& values) {
  auto* const kept = new std::vector<double>(values);
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<double>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, double, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

nb::object numpy_copy(const std::vector<std::int64_t>& values) {
  auto* const kept = new std::vector<std::int64_t>(values);
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<std::int64_t>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, std::int64_t, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

nb::object numpy_of(std::vector<float> values, const std::vector<std::size_t>& shape) {
  auto* const kept = new std::vector<float>(std::move(values));
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<float>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, float>(kept->data(), shape.size(), shape.data(), owner));
}

void bind_core(nb::module_& m) {
  m.def(
      "version", [] { return text(version()); }, "The version of the library.");
  const nb::object spec_error = nb::steal(PyErr_NewExceptionWithDoc(
      "locant._locant.SpecError",
      "A config, spec, shape or argument that breaks a rule: \"who: rule, what we got\".", PyExc_ValueError,
      nullptr));
  m.attr("SpecError") = spec_error;
  nb::register_exception_translator(translate_spec_error, spec_error.ptr());
  const nb::object file_error = nb::steal(PyErr_NewExceptionWithDoc(
      "locant._locant.FileError",
      "A file that cannot be read, written or believed: `path`, and `offset` in bytes where it is known.",
      PyExc_OSError, nullptr));
  m.attr("FileError") = file_error;
  nb::register_exception_translator(translate_file_error, file_error.ptr());

  pthread_atfork(nullptr, nullptr, forget_pool);
  m.def("set_threads", set_threads, nb::arg("count"),
        "Threads of later operations and of models loaded from here on, 1 or more. Results do not depend on "
        "it.");
  m.def(
      "get_threads", [] { return threads()->size(); },
      "Threads in use; at the first call as many as the machine offers this process.");
  m.def("cpu_targets", &cpu_targets, "The instruction sets compiled in that this CPU has, best first.");
  m.def("use_cpu_target", &use_cpu_target, nb::arg("name"),
        "Every operation uses this one of cpu_targets(), \"\" = the best again. Not while operations run.");
}

}  // namespace locant::python

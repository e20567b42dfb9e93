// SPDX-License-Identifier: Apache-2.0
// A runtime that is an object of Python (locant.runtime.Runtime), as the rules drive it.
#pragma once

#include <memory>

#include "bindings.h"
#include "locant/runtime.h"

namespace locant::python {

class PythonRuntime final : public Runtime {
 public:
  /// An object with name, vocab, open(capacity) and with_positions(spec); see locant.runtime.Runtime.
  explicit PythonRuntime(nb::object object);
  ~PythonRuntime() override;
  PythonRuntime(const PythonRuntime&) = delete;
  PythonRuntime& operator=(const PythonRuntime&) = delete;
  [[nodiscard]] std::string name() const override;
  [[nodiscard]] std::int64_t vocab() const override;
  [[nodiscard]] std::unique_ptr<RuntimeSession> open(std::int64_t capacity) override;
  [[nodiscard]] std::unique_ptr<Runtime> with(const PositionSpec& spec) override;

 private:
  nb::object object_;
};

/// Calls Python and turns IndexError into std::out_of_range and SpecError into SpecError; other exceptions
/// pass through as they are. The GIL is held.
template <class F>
auto calling_python(F&& call) {
  try {
    return call();
  } catch (const nb::python_error& error) {
    const std::string sentence = nb::cast<std::string>(nb::str(error.value()));
    if (error.matches(PyExc_IndexError)) throw std::out_of_range(sentence);
    if (error.matches(nb::module_::import_("locant._locant").attr("SpecError"))) throw SpecError(sentence);
    throw;
  }
}

}  // namespace locant::python

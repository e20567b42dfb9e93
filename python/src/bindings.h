// SPDX-License-Identifier: Apache-2.0
// The parts of the extension locant._locant, one per public header, and the small types that they share.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "locant/core.h"
#include "locant/plan.h"
#include "locant/recipe.h"
#include "locant/threads.h"

namespace locant::python {

namespace nb = nanobind;

void bind_core(nb::module_& m);
void bind_recipe(nb::module_& m);
void bind_plan(nb::module_& m);
void bind_positions(nb::module_& m);
void bind_spec(nb::module_& m);
void bind_ops(nb::module_& m);
void bind_text(nb::module_& m);
void bind_runtime(nb::module_& m);
void bind_model(nb::module_& m);
void bind_trace(nb::module_& m);
void bind_check(nb::module_& m);
void bind_trust(nb::module_& m);
void bind_cli(nb::module_& m);

/// A plan and the recipe whose numbers its tables are made of.
struct NamedPlan {
  Plan plan;
  const Recipe* recipe = nullptr;
};

/// Throws SpecError "dtype: ...".
[[nodiscard]] DType dtype_named(std::string_view name);

/// The threads that operations and models work on; made at the first call, shared by all.
[[nodiscard]] std::shared_ptr<ThreadPool> threads();

[[nodiscard]] inline std::string text(std::string_view view) {
  return std::string(view);
}

/// A numpy array that owns a copy.
[[nodiscard]] nb::object numpy_copy(const std::vector<double>& values);
[[nodiscard]] nb::object numpy_copy(const std::vector<std::int64_t>& values);
/// A numpy array of f32 that owns what `values` held; shape as given.
[[nodiscard]] nb::object numpy_of(std::vector<float> values, const std::vector<std::size_t>& shape);

}  // namespace locant::python

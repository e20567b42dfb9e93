// SPDX-License-Identifier: Apache-2.0
// A session of a model of Locant's own, as Python holds it.
#pragma once

#include <memory>
#include <optional>

#include "bindings.h"
#include "locant/model.h"

namespace locant::python {

struct Session {
  std::unique_ptr<RuntimeSession> session;
  std::int64_t vocab = 0;

  [[nodiscard]] nb::object forward(nb::handle ids, const std::optional<nb::object>& mask,
                                   const std::optional<nb::object>& positions);
};

/// A model and the threads that it works on, which outlive it.
struct LoadedModel {
  std::shared_ptr<ThreadPool> pool;
  std::unique_ptr<Model> model;
};

}  // namespace locant::python

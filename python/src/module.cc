// SPDX-License-Identifier: Apache-2.0
#include "bindings.h"

NB_MODULE(_locant, m) {
  using namespace locant::python;
  m.doc() = "The compiled part of Locant; use it through the package `locant`.";
  bind_core(m);
  bind_recipe(m);
  bind_plan(m);
  bind_positions(m);
  bind_spec(m);
  bind_ops(m);
  bind_text(m);
  bind_runtime(m);
  bind_model(m);
  bind_trace(m);
  bind_check(m);
  bind_trust(m);
  bind_cli(m);
}

// SPDX-License-Identifier: Apache-2.0
// A spec states what a model's authors published; a runtime may compute something else.
#pragma once

#include "locant/recipe.h"
#include "locant/spec.h"

namespace locant {

/// What the runtime of a recipe computes outside positions where it does not compute what the spec says.
[[nodiscard]] ModelSpec under_recipe(ModelSpec spec, const Recipe& recipe);

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// What a model may say and no block computes is refused by name, never passed over.
#pragma once

#include "locant/positions.h"
#include "locant/spec.h"

namespace locant {

/// Throws SpecError with the file, the rule and what the model asks for.
void check_blocks(const ModelSpec& spec);

/// The plan of a stack at its start, every site of a kind that run computes.
[[nodiscard]] Plan computable_plan(const ModelSpec& spec, const StackPositions& positions,
                                   const Recipe& recipe);

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// Stacks made ready to run: plans, facts of layers, and biases as numbers.
#pragma once

#include <cstdint>
#include <optional>

#include "model/state.h"

namespace locant {

/// `state` has its spec, recipe and weights.
[[nodiscard]] StackModel main_stack(const Model::State& state, const Plan& plan);
[[nodiscard]] StackModel encoder_stack(const Model::State& state, const Plan& plan);

/// Of the cache of a stack's own keys and values.
[[nodiscard]] CacheShape cache_shape(const Model::State& state, const StackModel& stack) noexcept;

/// Index of the first value of a tensor that is not finite, in row-major order.
[[nodiscard]] std::optional<std::int64_t> first_non_finite(const SourceTensor& tensor);

}  // namespace locant

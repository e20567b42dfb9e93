// SPDX-License-Identifier: Apache-2.0
// The rotation that a GGUF file asks for: rope.* keys, and the tensors rope_freqs.weight (divisors),
// rope_factors_long.weight and rope_factors_short.weight (LongRoPE).
#pragma once

#include "spec/gguf_architecture.h"

namespace locant {

/// Layers that see everything, or those with a window.
enum class GgufScope : std::uint8_t { full, local };

/// Throws FileError: a word, a number or a tensor that no rotation has.
[[nodiscard]] PositionSpec read_gguf_rope(GgufKeys& keys, const GgufArchitecture& row, std::int64_t head_dim,
                                          GgufScope scope);

/// A parameter as a number; `otherwise` where it is not stated.
[[nodiscard]] double parameter_or(const PositionSpec& spec, std::string_view name, double otherwise);

}  // namespace locant

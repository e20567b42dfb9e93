// SPDX-License-Identifier: Apache-2.0
// Weights of a llama2.c export of version 0: f32 tensors in one fixed order behind 28 bytes of header.
#pragma once

#include <string>

#include "model/weight_source.h"

namespace locant {

/// Names as a Hugging Face llama has them; q and k stay in the order of the file, which pairs neighbours.
/// FileError for another version and for a file that is not exactly as long as its header says.
[[nodiscard]] WeightSource from_llama2c(const ModelSpec& spec, const std::string& path);

}  // namespace locant

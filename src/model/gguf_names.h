// SPDX-License-Identifier: Apache-2.0
// Names of the tensors of a GGUF file, as gguf's constants have them.
#pragma once

#include "locant/formats.h"
#include "locant/spec.h"
#include "model/family.h"

namespace locant {

/// The names by which this file's tensors stand: fused where the file fuses them.
[[nodiscard]] FamilyWeights gguf_names(const GgufFile& file, const ModelSpec& spec);

}  // namespace locant

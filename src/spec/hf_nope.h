// SPDX-License-Identifier: Apache-2.0
// Families of which layers with a window rotate and the others mark no positions (NoPE).
#pragma once

#include "spec/hf_layers.h"

namespace locant {

void finish_cohere2(Config& config, ModelSpec& spec, const HfFamily& family);
void finish_exaone4(Config& config, ModelSpec& spec, const HfFamily& family);

}  // namespace locant

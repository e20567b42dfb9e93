// SPDX-License-Identifier: Apache-2.0
// Gemma 2 to 4: rows times sqrt(hidden), windows between layers of full attention, a base for each kind of
// layer.
#pragma once

#include "spec/hf_layers.h"

namespace locant {

void finish_gemma2(Config& config, ModelSpec& spec, const HfFamily& family);
void finish_gemma3(Config& config, ModelSpec& spec, const HfFamily& family);
void finish_gemma3n(Config& config, ModelSpec& spec, const HfFamily& family);
void finish_gemma4(Config& config, ModelSpec& spec, const HfFamily& family);

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// Granite's multipliers of embeddings, scores, branches and logits, and its kinds of layers.
#pragma once

#include "spec/hf_layers.h"

namespace locant {

void finish_granite(Config& config, ModelSpec& spec, const HfFamily& family);
void finish_granitemoehybrid(Config& config, ModelSpec& spec, const HfFamily& family);
void finish_granite_swa(Config& config, ModelSpec& spec, const HfFamily& family);

}  // namespace locant

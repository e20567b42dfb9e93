// SPDX-License-Identifier: Apache-2.0
// Specs of one layer, for what follows from lengths and schedules alone.
#pragma once

#include <string>
#include <utility>

#include "locant/spec.h"

namespace locant::tests {

inline ModelSpec spec_of(PositionSpec position, std::int64_t declared) {
  ModelSpec spec;
  spec.family = "llama";
  spec.format = "hf";
  spec.layers = 1;
  spec.hidden = 64;
  spec.heads = 1;
  spec.kv_heads = 1;
  spec.head_dim = 64;
  spec.vocab = 32;
  spec.attention.resize(1);
  spec.positions.layers.push_back({std::move(position)});
  spec.lengths.configured = declared;
  spec.lengths.configured_key = "max_position_embeddings";
  return spec;
}

inline PositionSpec rope_of(std::int64_t head_dim, double theta) {
  PositionSpec rope{.mechanism = "rope", .parameters = {}};
  rope.set("theta", theta);
  rope.set("head_dim", head_dim);
  return rope;
}

}  // namespace locant::tests

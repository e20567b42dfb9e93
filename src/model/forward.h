// SPDX-License-Identifier: Apache-2.0
// One pass: N tokens of several rows through every block, caches extended. The order of a block is data
// (FamilyWeights, ModelSpec), the arithmetic is ops; no family is named here.
#pragma once

#include <cstdint>
#include <span>

#include "model/state.h"
#include "model/trace_pass.h"

namespace locant {

struct Pass {
  std::span<const std::int64_t> ids;      ///< [N]
  std::span<const std::int64_t> types;    ///< [N] or empty
  View<const std::int64_t, 2> positions;  ///< [axes, N]
  std::span<const Segment> segments;      ///< cover the N tokens in order
};

/// What a pass runs through and what it changes.
struct Running {
  const Model::State& model;
  const StackModel& stack;
  Cache& cache;
  const Cache* encoded;  ///< keys and values of the encoder's answer, or null
  Workspace& work;
  TracePass* trace;  ///< or null
};

/// Runs the blocks over a validated pass; the result stands in work.normed [N, hidden], behind the final
/// norm. The caches hold the new tokens afterwards.
void run_blocks(const Running& running, const Pass& pass);

/// logits[i] = head(rows[i]).
void run_head(const Model::State& model, Workspace& work, View<const float, 2> rows, View<float, 2> logits);

/// Keys and values of an encoder's answer [tokens, hidden] for every layer of the decoder, into a row's
/// slots.
void store_encoded(const Model::State& model, Workspace& work, View<const float, 2> states, Cache& encoded,
                   std::int64_t row);

}  // namespace locant

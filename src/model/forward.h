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
  View<const std::int64_t, 2> positions;  ///< [axes, N]
  std::span<const Segment> segments;      ///< cover the N tokens in order
};

/// Runs the blocks over a validated pass; the result stands in work.normed [N, hidden], behind the final
/// norm. The caches hold the new tokens afterwards. trace may be null.
void run_blocks(const Model::State& model, Cache& cache, Workspace& work, const Pass& pass, TracePass* trace);

/// logits[i] = head(rows[i]).
void run_head(const Model::State& model, View<const float, 2> rows, View<float, 2> logits);

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// Buffers for passes of up to `tokens` tokens through one stack; views are cut from one block.
#pragma once

#include <cstdint>
#include <vector>

#include "locant/model.h"
#include "locant/ops.h"

namespace locant {

struct StackModel;

/// Consecutive tokens of one row inside a pass.
struct Segment {
  std::int64_t row = 0;
  std::int64_t first = 0;  ///< index of its first token in the pass
  std::int64_t tokens = 0;
  std::int64_t past = 0;       ///< tokens of the row in the cache before
  const Plan* plan = nullptr;  ///< in force for it
};

/// What only mixtures of experts need.
struct ExpertSpace {
  View<float, 2> logits;           ///< [N, experts]
  View<float, 2> weights;          ///< [N, chosen]
  View<float, 2> gathered;         ///< [N, hidden] what one expert reads
  View<float, 2> answer;           ///< [N, hidden]
  View<float, 2> gate;             ///< [N, 1] of the shared expert
  std::vector<std::int64_t> ids;   ///< [N, chosen]
  std::vector<std::int64_t> rows;  ///< [N] tokens of one expert
  std::vector<float> factors;      ///< [N]
};

struct Workspace {
  Workspace(const Model::State& model, const StackModel& stack, std::int64_t rows, std::int64_t tokens_);
  /// Tokens a pass should have in a session.
  [[nodiscard]] static std::int64_t pass_tokens(const StackModel& stack,
                                                const SessionOptions& options) noexcept;
  /// Floats of such a workspace.
  [[nodiscard]] static std::int64_t floats(const Model::State& model, const StackModel& stack,
                                           std::int64_t rows, std::int64_t tokens);

  std::int64_t tokens = 0;      ///< per pass
  std::int64_t logit_rows = 0;  ///< per piece of the head
  Buffer block;
  View<float, 2> state;      ///< [N, hidden] the residual stream
  View<float, 2> normed;     ///< [N, hidden]
  View<float, 2> branch;     ///< [N, hidden] a branch alone
  View<float, 2> added;      ///< [N, hidden] positions to add
  View<float, 2> narrow;     ///< [N, table's width] where that is not hidden
  View<float, 2> q;          ///< [N, heads head_dim]
  View<float, 2> k;          ///< [N, kv_heads head_dim]
  View<float, 2> v;          ///< [N, kv_heads width of values]
  View<float, 2> fused;      ///< [N, rows of a fused matrix, or of latent attention]
  View<float, 2> q_latent;   ///< [N, q_rank]
  View<float, 2> kv_latent;  ///< [N, kv_rank + rotating]
  View<float, 2> mixed;      ///< [N, heads width of values] attention before its output matrix
  View<float, 2> up;         ///< [N, widest mlp]
  View<float, 2> gate;       ///< [N, widest mlp] or empty
  View<float, 2> last;       ///< [rows, hidden] last tokens of rows
  View<float, 2> head_in;    ///< [logit_rows, width of the head] where a transform stands before it
  View<float, 2> logits;     ///< [logit_rows, V]
  std::vector<View<float, 2>> cos, sin;  ///< [kinds] of [N, P]
  ExpertSpace experts;
  std::vector<float> factors;            ///< [N] on queries
  std::vector<float> bias;               ///< scores' additions where a tensor must be made; grows
  std::vector<std::int64_t> positions;   ///< [axes, N]
  std::vector<std::int64_t> table_rows;  ///< [N]
  std::vector<Segment> segments;
  std::vector<AttendCall> attends;
};

}  // namespace locant

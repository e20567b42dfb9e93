// SPDX-License-Identifier: Apache-2.0
// What Model and Session hold: a model's facts and weights, a session's caches and workspace.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "locant/model.h"
#include "locant/ops.h"
#include "model/cache.h"
#include "model/weights.h"

namespace locant {

struct Model::State {
  ModelSpec spec;
  const Recipe* recipe = nullptr;
  Numerics numerics;
  Plan plan;
  Weights weights;
  std::vector<std::vector<float>> slopes;  ///< [kinds][heads], empty without a slope bias
  ThreadPool* pool = nullptr;
};

/// How many position axes a plan reads.
[[nodiscard]] std::int64_t axes_of(const Plan& plan) noexcept;

/// Consecutive tokens of one row inside a pass.
struct Segment {
  std::int64_t row = 0;
  std::int64_t first = 0;  ///< index of its first token in the pass
  std::int64_t tokens = 0;
  std::int64_t past = 0;  ///< tokens of the row in the cache before
};

/// Buffers for passes of up to `tokens` tokens; views are cut from one block.
struct Workspace {
  Workspace(const Model::State& model, std::int64_t rows, std::int64_t tokens_);
  /// Tokens a pass should have in a session.
  [[nodiscard]] static std::int64_t pass_tokens(const SessionOptions& options) noexcept;

  std::int64_t tokens = 0;      ///< per pass
  std::int64_t logit_rows = 0;  ///< per piece of the head
  Buffer block;
  View<float, 2> state;                  ///< [N, hidden] the residual stream
  View<float, 2> normed;                 ///< [N, hidden]
  View<float, 2> added;                  ///< [N, hidden] positions to add
  View<float, 2> qkv;                    ///< [N, (heads + 2 kv_heads) head_dim]
  View<float, 2> mixed;                  ///< [N, heads head_dim] attention before its output matrix
  View<float, 2> up;                     ///< [N, mlp width]
  View<float, 2> gate;                   ///< [N, mlp width] or empty
  View<float, 2> last;                   ///< [rows, hidden] last tokens of rows
  View<float, 2> logits;                 ///< [logit_rows, V]
  std::vector<View<float, 2>> cos, sin;  ///< [kinds] of [N, P]
  std::vector<std::int64_t> positions;   ///< [axes, N]
  std::vector<std::int64_t> table_rows;  ///< [N]
  std::vector<Segment> segments;
  std::vector<AttendCall> attends;
};

struct Session::State {
  State(const Model::State& model_, const SessionOptions& options_);

  const Model::State& model;
  SessionOptions options;
  Cache cache;
  Workspace work;
  std::vector<std::int64_t> next_position;  ///< [rows]
  TraceSink* trace = nullptr;
  Padding padding = Padding::right;
};

}  // namespace locant

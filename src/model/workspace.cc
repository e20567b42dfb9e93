// SPDX-License-Identifier: Apache-2.0
// Sizes of a session's workspace: enough tokens per pass that products run at full speed, a bounded piece of
// logits whatever the vocabulary.
#include <algorithm>
#include <utility>

#include "model/state.h"

namespace locant {
namespace {

constexpr std::int64_t kTokensPerPass = 256;
constexpr std::int64_t kLogitBytes = 16LL << 20;
constexpr std::int64_t kAlignment = 16;  // floats; a cache line

// Cuts aligned views from one block; the first round counts, the second hands out.
class Cutter {
 public:
  explicit Cutter(float* base) : base_(base) {}
  View<float, 2> cut(std::int64_t rows, std::int64_t columns) {
    float* const at = base_ == nullptr ? nullptr : base_ + used_;
    used_ += (rows * columns + kAlignment - 1) / kAlignment * kAlignment;
    return {at, {rows, columns}};
  }
  [[nodiscard]] std::int64_t used() const noexcept { return used_; }

 private:
  float* base_;
  std::int64_t used_ = 0;
};

void cut_all(const Model::State& model, std::int64_t rows, Workspace& work, Cutter cutter,
             std::int64_t& used) {
  const ModelSpec& spec = model.spec;
  const std::int64_t n = work.tokens;
  work.state = cutter.cut(n, spec.hidden);
  work.normed = cutter.cut(n, spec.hidden);
  work.added = cutter.cut(n, model.plan.embedding.empty() ? 0 : spec.hidden);
  work.qkv = cutter.cut(n, (spec.heads + 2 * spec.kv_heads) * spec.head_dim);
  work.mixed = cutter.cut(n, spec.heads * spec.head_dim);
  work.up = cutter.cut(n, spec.mlp.width);
  work.gate = cutter.cut(n, spec.mlp.gated ? spec.mlp.width : 0);
  work.last = cutter.cut(rows, spec.hidden);
  work.logits = cutter.cut(work.logit_rows, spec.vocab);
  for (std::size_t kind = 0; kind < model.plan.kinds.size(); ++kind) {
    const auto& rotation = model.plan.kinds[kind].rotation;
    const auto pairs = rotation ? static_cast<std::int64_t>(rotation->inv_freq.size()) : 0;
    work.cos[kind] = cutter.cut(n, pairs);
    work.sin[kind] = cutter.cut(n, pairs);
  }
  used = cutter.used();
}

}  // namespace

std::int64_t axes_of(const Plan& plan) noexcept {
  std::int64_t axes = 1;
  for (const LayerPositions& kind : plan.kinds) {
    if (!kind.rotation) continue;
    for (const std::int64_t axis : kind.rotation->axis) axes = std::max(axes, axis + 1);
  }
  return axes;
}

std::int64_t Workspace::pass_tokens(const SessionOptions& options) noexcept {
  const std::int64_t per_row = std::max<std::int64_t>(kTokensPerPass / options.rows, 1);
  return std::min(options.capacity, per_row) * options.rows;
}

Workspace::Workspace(const Model::State& model, std::int64_t rows, std::int64_t tokens_)
    : tokens(tokens_),
      logit_rows(std::clamp<std::int64_t>(kLogitBytes / 4 / model.spec.vocab, 1, tokens)),
      cos(model.plan.kinds.size()),
      sin(model.plan.kinds.size()) {
  std::int64_t used = 0;
  cut_all(model, rows, *this, Cutter(nullptr), used);
  block = Buffer(static_cast<std::size_t>(used) * sizeof(float));
  cut_all(model, rows, *this, Cutter(block.as<float>()), used);
  positions.resize(static_cast<std::size_t>(tokens * axes_of(model.plan)));
  table_rows.resize(static_cast<std::size_t>(tokens));
  segments.reserve(static_cast<std::size_t>(rows));
  attends.reserve(static_cast<std::size_t>(rows));
}

}  // namespace locant

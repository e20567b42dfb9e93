// SPDX-License-Identifier: Apache-2.0
// Sizes of a session's workspace: enough tokens per pass that products run at full speed, a bounded piece of
// logits whatever the vocabulary.
#include "model/workspace.h"

#include <algorithm>
#include <utility>

#include "model/state.h"

namespace locant {
namespace {

constexpr std::int64_t kTokensPerPass = 256;
constexpr std::int64_t kLogitBytes = 8LL << 20;
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

struct Views {
  Workspace& work;
  std::int64_t tokens;
  std::int64_t rows;
};

void cut_attention(const Model::State& model, const StackModel& stack, const Views& views, Cutter& cutter) {
  const ModelSpec& spec = model.spec;
  const LatentSpec& latent = spec.latent;
  Workspace& work = views.work;
  const std::int64_t n = views.tokens;
  const bool is_latent = latent.kv_rank > 0;
  const std::int64_t all = (stack.heads + 2 * stack.kv_heads) * spec.head_dim;
  const LayerWeights* const first = stack.weights->layers.empty() ? nullptr : &stack.weights->layers.front();
  const bool is_fused = first != nullptr && first->attention.layout != QkvLayout::separate;
  work.q = cutter.cut(n, stack.heads * spec.head_dim);
  work.k = cutter.cut(n, stack.kv_heads * spec.head_dim);
  work.v = cutter.cut(n, stack.kv_heads * model.value_width());
  work.fused = cutter.cut(n, is_latent  ? stack.heads * (latent.still + latent.value_width)
                             : is_fused ? all
                                        : 0);
  work.q_latent = cutter.cut(n, is_latent ? latent.q_rank : 0);
  work.kv_latent = cutter.cut(n, is_latent ? latent.kv_rank + latent.rotating : 0);
  work.mixed = cutter.cut(n, stack.heads * model.value_width());
  for (std::size_t kind = 0; kind < stack.plan.kinds.size(); ++kind) {
    const auto& rotation = stack.plan.kinds[kind].rotation;
    const auto pairs = rotation ? static_cast<std::int64_t>(rotation->inv_freq.size()) : 0;
    work.cos[kind] = cutter.cut(n, pairs);
    work.sin[kind] = cutter.cut(n, pairs);
  }
}

// What an mlp's input grows to, by the weights that are there.
std::int64_t mlp_width(const MlpWeights& weights) noexcept {
  return std::max(weights.up.weight.rows, weights.gate.weight.rows);
}

std::int64_t widest_mlp(const StackWeights& stack) noexcept {
  std::int64_t widest = 0;
  for (const LayerWeights& layer : stack.layers) {
    widest = std::max({widest, mlp_width(layer.mlp), mlp_width(layer.experts.shared)});
    for (const MlpWeights& expert : layer.experts.experts) widest = std::max(widest, mlp_width(expert));
  }
  return widest;
}

bool has_experts_in(const StackWeights& stack) noexcept {
  return std::any_of(stack.layers.begin(), stack.layers.end(),
                     [](const LayerWeights& layer) { return layer.experts.router.there(); });
}

// Tables beside the token state may be wider than it (ALBERT).
std::int64_t widest_table(const Plan& plan) noexcept {
  std::int64_t widest = 0;
  for (const PositionEmbedding& embedding : plan.embedding) widest = std::max(widest, embedding.width);
  return widest;
}

void cut_mlp(const Model::State& model, const StackModel& stack, const Views& views, Cutter& cutter) {
  const ModelSpec& spec = model.spec;
  const ExpertsSpec& experts = spec.experts;
  Workspace& work = views.work;
  const std::int64_t n = views.tokens;
  const bool has_experts = has_experts_in(*stack.weights);
  const std::int64_t widest = widest_mlp(*stack.weights);
  work.up = cutter.cut(n, widest);
  work.gate = cutter.cut(n, spec.mlp.gated ? widest : 0);
  work.experts.logits = cutter.cut(n, has_experts ? experts.count : 0);
  work.experts.weights = cutter.cut(n, has_experts ? experts.chosen : 0);
  work.experts.gathered = cutter.cut(n, has_experts ? spec.hidden : 0);
  work.experts.answer = cutter.cut(n, has_experts ? spec.hidden : 0);
  work.experts.gate = cutter.cut(n, has_experts && experts.shared_gate ? 1 : 0);
}

std::int64_t cut_all(const Model::State& model, const StackModel& stack, const Views& views, Cutter cutter) {
  const ModelSpec& spec = model.spec;
  Workspace& work = views.work;
  const std::int64_t n = views.tokens;
  work.state = cutter.cut(n, spec.hidden);
  work.normed = cutter.cut(n, spec.hidden);
  work.branch = cutter.cut(n, spec.hidden);
  work.added = cutter.cut(n, widest_table(stack.plan));
  work.narrow = cutter.cut(n, spec.embedding.factorised_width);
  cut_attention(model, stack, views, cutter);
  cut_mlp(model, stack, views, cutter);
  work.last = cutter.cut(stack.is_encoder ? 0 : views.rows, spec.hidden);
  const bool has_head = model.weights.head.there() && !stack.is_encoder;
  const bool transforms = model.weights.head_dense.there() || model.weights.embedding_out.there();
  work.head_in = cutter.cut(has_head && transforms ? work.logit_rows : 0, spec.embedding.width);
  work.logits = cutter.cut(has_head ? work.logit_rows : 0, spec.vocab);
  return cutter.used();
}

std::int64_t logit_rows(const ModelSpec& spec, std::int64_t tokens) {
  return std::clamp<std::int64_t>(kLogitBytes / 4 / spec.vocab, 1, std::max<std::int64_t>(tokens, 1));
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

std::int64_t Workspace::pass_tokens(const StackModel& stack, const SessionOptions& options) noexcept {
  // a token that sees later ones needs them in its pass: at least one whole row
  if (stack.is_bidirectional) return std::max(options.capacity, kTokensPerPass);
  const std::int64_t per_row = std::max<std::int64_t>(kTokensPerPass / options.rows, 1);
  return std::min(options.capacity, per_row) * options.rows;
}

std::int64_t Workspace::floats(const Model::State& model, const StackModel& stack, std::int64_t rows,
                               std::int64_t tokens) {
  Workspace none(model, stack, rows, 0);
  none.logit_rows = locant::logit_rows(model.spec, tokens);
  return cut_all(model, stack, {none, tokens, rows}, Cutter(nullptr));
}

Workspace::Workspace(const Model::State& model, const StackModel& stack, std::int64_t rows,
                     std::int64_t tokens_)
    : tokens(tokens_),
      logit_rows(locant::logit_rows(model.spec, tokens)),
      cos(stack.plan.kinds.size()),
      sin(stack.plan.kinds.size()) {
  const Views views{*this, tokens, rows};
  const std::int64_t used = cut_all(model, stack, views, Cutter(nullptr));
  block = Buffer(static_cast<std::size_t>(used) * sizeof(float));
  (void)cut_all(model, stack, views, Cutter(block.as<float>()));
  const auto n = static_cast<std::size_t>(tokens);
  const ExpertsSpec& mixture = model.spec.experts;
  if (has_experts_in(*stack.weights)) {
    experts.ids.resize(n * static_cast<std::size_t>(mixture.chosen));
    experts.rows.resize(n);
    experts.factors.resize(n);
  }
  factors.resize(n);
  positions.resize(n * static_cast<std::size_t>(axes_of(stack.plan)));
  table_rows.resize(n);
  segments.reserve(static_cast<std::size_t>(rows));
  attends.reserve(static_cast<std::size_t>(rows));
}

}  // namespace locant

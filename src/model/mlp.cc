// SPDX-License-Identifier: Apache-2.0
// down(activation(gate(x)) * up(x)), or down(activation(up(x))); mixtures route each token to its experts and
// add their answers, weighed.
#include <algorithm>
#include <cmath>

#include "model/blocks.h"

namespace locant {

void run_mlp(const Step& step, const MlpWeights& weights, View<const float, 2> x, View<float, 2> out,
             Write write) {
  const std::int64_t tokens = x.extent(0);
  const View<float, 2> up = packed(step.work.up, tokens, weights.up.weight.rows);
  ActivateCall call{.activation = step.spec.mlp.activation,
                    .x = up,
                    .up = {},
                    .limit = static_cast<float>(step.spec.mlp.limit),
                    .out = up};
  if (weights.gate.there()) {
    const View<float, 2> gate = packed(step.work.gate, tokens, weights.gate.weight.rows);
    linear(step, x, {{weights.up, up}, {weights.gate, gate}});
    call.x = gate;
    call.up = up;
  } else {
    linear(step, weights.up, x, up);
  }
  activate(call, *step.model.pool);
  linear(step, weights.down, up, out, write);
}

namespace {

GroupScore group_score(const ExpertsSpec& spec) {
  return spec.group_pairs ? GroupScore::two_largest : GroupScore::largest;
}

// The tokens that chose an expert, and how much it weighs for each.
std::int64_t collect(const Step& step, std::int64_t expert) {
  ExpertSpace& space = step.work.experts;
  const std::int64_t chosen = step.spec.experts.chosen;
  std::int64_t count = 0;
  for (std::int64_t t = 0; t < step.tokens; ++t) {
    for (std::int64_t i = 0; i < chosen; ++i) {
      if (space.ids[static_cast<std::size_t>(t * chosen + i)] != expert) continue;
      space.rows[static_cast<std::size_t>(count)] = t;
      space.factors[static_cast<std::size_t>(count)] = space.weights(t, i);
      ++count;
    }
  }
  return count;
}

void run_shared(const Step& step, const ExpertWeights& weights, View<const float, 2> x, View<float, 2> out) {
  const ExpertsSpec& spec = step.spec.experts;
  ExpertSpace& space = step.work.experts;
  const View<float, 2> answer = space.answer.rows(0, step.tokens);
  run_mlp(step, weights.shared, x, answer, Write::replace);
  if (!spec.shared_gate) {
    accumulate({.x = answer, .scale = 1, .out = out}, *step.model.pool);
    return;
  }
  const View<float, 2> gate = space.gate.rows(0, step.tokens);
  linear(step, weights.shared_gate, x, gate);
  for (std::int64_t t = 0; t < step.tokens; ++t) {
    const auto logit = static_cast<double>(gate(t, 0));
    space.factors[static_cast<std::size_t>(t)] = static_cast<float>(1 / (1 + std::exp(-logit)));
  }
  const View<const float, 1> factors(space.factors.data(), {step.tokens});
  scale_rows({.x = answer, .factors = factors, .out = answer}, *step.model.pool);
  accumulate({.x = answer, .scale = 1, .out = out}, *step.model.pool);
}

}  // namespace

void run_experts(const Step& step, const ExpertWeights& weights, View<const float, 2> x, View<float, 2> out) {
  const ExpertsSpec& spec = step.spec.experts;
  ExpertSpace& space = step.work.experts;
  ThreadPool& pool = *step.model.pool;
  const View<float, 2> logits = space.logits.rows(0, step.tokens);
  linear(step, weights.router, x, logits);
  route({.logits = logits,
         .score = spec.router,
         .correction = weights.correction,
         .groups = spec.groups,
         .chosen_groups = spec.chosen_groups,
         .group_score = group_score(spec),
         .normalised = spec.normalised,
         .scale = static_cast<float>(spec.scale),
         .ids = View<std::int64_t, 2>(space.ids.data(), {step.tokens, spec.chosen}),
         .weights = packed(space.weights, step.tokens, spec.chosen)},
        pool);
  for (std::int64_t t = 0; t < step.tokens; ++t) std::fill_n(&out(t, 0), step.spec.hidden, 0.0F);
  for (std::int64_t expert = 0; expert < spec.count; ++expert) {
    const std::int64_t count = collect(step, expert);
    if (count == 0) continue;
    const View<const std::int64_t, 1> rows(space.rows.data(), {count});
    const View<float, 2> gathered = space.gathered.rows(0, count);
    const View<float, 2> answer = space.answer.rows(0, count);
    for (std::int64_t i = 0; i < count; ++i) std::copy_n(&x(rows(i), 0), step.spec.hidden, &gathered(i, 0));
    const View<float, 1> factors(space.factors.data(), {count});
    if (spec.weighs_input) {
      scale_rows({.x = gathered, .factors = factors, .out = gathered}, pool);
      std::fill_n(space.factors.begin(), count, 1.0F);
    }
    run_mlp(step, weights.experts[static_cast<std::size_t>(expert)], gathered, answer, Write::replace);
    scatter_rows({.x = answer, .rows = rows, .factors = factors, .out = out}, pool);
  }
  if (spec.shared_width > 0) run_shared(step, weights, x, out);
}

}  // namespace locant

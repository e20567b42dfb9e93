// SPDX-License-Identifier: Apache-2.0
#include "model/forward.h"

#include <array>
#include <span>
#include <utility>

#include "model/blocks.h"

namespace locant {

void normalize_rows(const Step& step, const NormSpec& spec, const NormWeights& norm, View<const float, 2> x,
                    View<float, 2> out) {
  normalize({.kind = spec.kind, .eps = spec.eps, .x = x, .gain = norm.gain, .bias = norm.bias, .out = out},
            *step.model.pool);
}

namespace {

ProjectCall call_of(const Step& step, const Linear& layer, View<const float, 2> x, View<float, 2> out) {
  return {.x = x,
          .weight = layer.weight,
          .bias = layer.bias,
          .scale = 1,
          .write = Write::replace,
          .activations = step.model.activations,
          .out = out};
}

}  // namespace

void linear(const Step& step, const Linear& layer, View<const float, 2> x, View<float, 2> out, Write write) {
  ProjectCall call = call_of(step, layer, x, out);
  call.write = write;
  project(call, *step.model.pool);
}

void linear(const Step& step, View<const float, 2> x, std::initializer_list<LinearOut> all) {
  constexpr std::size_t kMost = 3;
  std::array<ProjectCall, kMost> calls;
  std::size_t count = 0;
  for (const LinearOut& one : all) calls.at(count++) = call_of(step, one.layer, x, one.out);
  project(std::span(calls).first(count), *step.model.pool);
}

namespace {

using trace_names::Layer;

// One block: which norm stands where is BlockSpec's to say.
class Block {
 public:
  Block(Step& step, std::int64_t index)
      : step_(step), block_(step.spec.block), layer_(step.stack.layer(index)), index_(index) {}

  void run() {
    View<const float, 2> read = read_normed(block_.attention.before, layer_.attention_norm);
    attend_self(step_, index_, read);
    // both branches read the layer's input: the second norm is taken before the first answer is added
    if (block_.branches == Branches::parallel) read = read_normed(block_.mlp.before, layer_.mlp_norm);
    if (step_.spec.residual == Residual::from_norm) std::swap(step_.state, step_.normed);
    add_attention(layer_.attention.out, layer_.attention_after);
    norm_sum(block_.attention.sum, layer_.attention_sum);
    if (step_.encoded != nullptr) cross();
    if (block_.branches == Branches::serial) read = read_normed(block_.mlp.before, layer_.mlp_norm);
    add_mlp(read);
    norm_sum(block_.mlp.sum, layer_.mlp_sum);
    step_.record(index_, Layer::out, step_.state);
  }

 private:
  // A norm that is not there at all, not one without a gain: the first layer of ModernBERT.
  [[nodiscard]] bool skips_norm() const { return !block_.first_norm && index_ == 0; }

  View<const float, 2> read_normed(bool before, const NormWeights& norm) {
    if (!before || (skips_norm() && &norm == &layer_.attention_norm)) return step_.state;
    normalize_rows(step_, step_.spec.norm, norm, step_.state, step_.normed);
    return step_.normed;
  }

  void norm_sum(bool wanted, const NormWeights& norm) {
    if (wanted) normalize_rows(step_, step_.spec.norm, norm, step_.state, step_.state);
  }

  // What stands in step_.branch is normed and scaled where the block says so, and added to the state.
  void add_branch(bool normed, const NormWeights& norm) {
    if (normed) normalize_rows(step_, step_.spec.norm, norm, step_.branch, step_.branch);
    accumulate({.x = step_.branch, .scale = static_cast<float>(block_.branch_scale), .out = step_.state},
               *step_.model.pool);
  }

  void add_attention(const Linear& out, const NormWeights& after) {
    const View<float, 2> mixed = step_.work.mixed.rows(0, step_.tokens);
    if (block_.attention.after || block_.branch_scale != 1) {
      linear(step_, out, mixed, step_.branch);
      step_.record(index_, Layer::attn_out, step_.branch);
      add_branch(block_.attention.after, after);
      return;
    }
    if (step_.trace != nullptr) {
      linear(step_, out, mixed, step_.branch);
      step_.record(index_, Layer::attn_out, step_.branch);
    }
    linear(step_, out, mixed, step_.state, Write::add);
  }

  // Attention to the encoder stands between the two others and is normed as the first is.
  void cross() {
    const View<const float, 2> read = read_normed(block_.attention.before, layer_.cross_norm);
    attend_encoded(step_, index_, read);
    const View<float, 2> mixed = step_.work.mixed.rows(0, step_.tokens);
    if (step_.trace != nullptr) {
      linear(step_, layer_.cross.out, mixed, step_.branch);
      step_.record(cross_name(index_, "out"), step_.branch);
    }
    linear(step_, layer_.cross.out, mixed, step_.state, Write::add);
    norm_sum(block_.attention.sum, layer_.cross_norm);
  }

  void add_mlp(View<const float, 2> read) {
    const bool mixture = layer_.experts.router.there();
    const bool apart = block_.mlp.after || block_.branch_scale != 1 || mixture;
    const bool from_norm = step_.spec.residual == Residual::from_norm;
    if (mixture) {
      run_experts(step_, layer_.experts, read, step_.branch);
    } else if (apart || from_norm) {
      run_mlp(step_, layer_.mlp, read, step_.branch, Write::replace);
    } else {
      run_mlp(step_, layer_.mlp, read, step_.state, Write::add);
      return;
    }
    if (from_norm) std::swap(step_.state, step_.normed);
    add_branch(block_.mlp.after, layer_.mlp_after);
  }

  Step& step_;
  const BlockSpec& block_;
  const LayerWeights& layer_;
  std::int64_t index_;
};

}  // namespace

void run_blocks(const Running& running, const Pass& pass) {
  Workspace& work = running.work;
  const auto tokens = static_cast<std::int64_t>(pass.ids.size());
  Step step{.model = running.model,
            .spec = running.model.spec,
            .stack = running.stack,
            .cache = running.cache,
            .encoded = running.encoded,
            .work = work,
            .pass = pass,
            .trace = running.trace,
            .tokens = tokens,
            .state = work.state.rows(0, tokens),
            .normed = work.normed.rows(0, tokens),
            .branch = work.branch.rows(0, tokens)};
  embed_tokens(step);
  build_rotation_tables(step);
  for (std::int64_t index = 0; index < running.stack.layers; ++index) Block(step, index).run();
  if (step.spec.block.final_norm) {
    normalize_rows(step, step.spec.norm, running.stack.weights->final_norm, step.state, step.normed);
    step.record(trace_names::kFinalNormOut, step.normed);
  } else {
    std::swap(step.state, step.normed);
  }
  // an even number of exchanges is not promised: the caller finds the result where it was said to stand
  if (step.normed.data_handle() != work.normed.data_handle()) std::swap(work.state, work.normed);
}

void run_head(const Model::State& model, Workspace& work, View<const float, 2> rows, View<float, 2> logits) {
  const Weights& weights = model.weights;
  const auto step = [&](const Linear& layer, View<const float, 2> x, View<float, 2> out, float scale) {
    project({.x = x,
             .weight = layer.weight,
             .bias = layer.bias,
             .scale = scale,
             .write = Write::replace,
             .activations = model.activations,
             .out = out},
            *model.pool);
  };
  View<const float, 2> read = rows;
  if (weights.embedding_out.there()) {
    const View<float, 2> narrow = work.head_in.rows(0, rows.extent(0));
    step(weights.embedding_out, read, narrow, 1);
    read = narrow;
  } else if (weights.head_dense.there()) {
    const View<float, 2> turned = work.head_in.rows(0, rows.extent(0));
    step(weights.head_dense, read, turned, 1);
    activate({.activation = *model.spec.head.transform, .x = turned, .up = {}, .out = turned}, *model.pool);
    normalize({.kind = model.spec.norm.kind,
               .eps = model.spec.norm.eps,
               .x = turned,
               .gain = weights.head_norm.gain,
               .bias = weights.head_norm.bias,
               .out = turned},
              *model.pool);
    read = turned;
  }
  step(weights.head, read, logits, static_cast<float>(model.spec.head.scale));
  if (model.spec.head.softcap > 0)
    softcap({.x = logits, .cap = static_cast<float>(model.spec.head.softcap)}, *model.pool);
}

}  // namespace locant

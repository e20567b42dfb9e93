// SPDX-License-Identifier: Apache-2.0
#include "model/forward.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace locant {
namespace {

using trace_names::Layer;

// The heads of q, k and v inside the fused buffer [N, W].
struct Heads {
  View<float, 3> q, k, v;
};

Heads split(const ModelSpec& spec, QkvLayout layout, View<float, 2> qkv) {
  const std::int64_t n = qkv.extent(0);
  const std::int64_t row = qkv.stride(0);
  const std::int64_t width = spec.head_dim;
  float* const base = qkv.data_handle();
  if (layout == QkvLayout::per_head) {
    const auto part = [&](std::int64_t index) {
      return View<float, 3>(base + index * width, {n, spec.heads, width}, {row, 3 * width, 1});
    };
    return {part(0), part(1), part(2)};
  }
  float* const k = base + spec.heads * width;
  return {{base, {n, spec.heads, width}, {row, width, 1}},
          {k, {n, spec.kv_heads, width}, {row, width, 1}},
          {k + spec.kv_heads * width, {n, spec.kv_heads, width}, {row, width, 1}}};
}

View<float, 2> columns(View<float, 2> matrix, std::int64_t first, std::int64_t count) {
  return {matrix.data_handle() + first, {matrix.extent(0), count}, matrix.strides()};
}

class Forward {
 public:
  Forward(const Model::State& model, Cache& cache, Workspace& work, const Pass& pass, TracePass* trace)
      : model_(model),
        spec_(model.spec),
        cache_(cache),
        work_(work),
        pass_(pass),
        trace_(trace),
        tokens_(static_cast<std::int64_t>(pass.ids.size())),
        state_(work.state.rows(0, tokens_)),
        normed_(work.normed.rows(0, tokens_)) {}

  void run() {
    embed_tokens();
    for (std::size_t kind = 0; kind < model_.plan.kinds.size(); ++kind) build_tables(kind);
    for (std::int64_t index = 0; index < spec_.layers; ++index) block(index);
    normalize_rows(model_.weights.final_norm, state_, normed_);
    record(trace_names::kFinalNormOut, normed_);
    // an even number of exchanges is not promised: the caller finds the result where it was said to stand
    if (normed_.data_handle() != work_.normed.data_handle()) std::swap(work_.state, work_.normed);
  }

 private:
  void record(std::string_view name, View<const float, 2> values) {
    if (trace_ != nullptr) trace_->record(name, values);
  }
  void record(std::int64_t layer, Layer name, View<const float, 3> values) {
    if (trace_ != nullptr) trace_->record(trace_names::layer(layer, name), values);
  }
  void record(std::int64_t layer, Layer name, View<const float, 2> values) {
    if (trace_ != nullptr) trace_->record(trace_names::layer(layer, name), values);
  }

  void normalize_rows(const NormWeights& norm, View<const float, 2> x, View<float, 2> out) {
    normalize({.kind = spec_.norm.kind,
               .eps = spec_.norm.eps,
               .x = x,
               .gain = norm.gain,
               .bias = norm.bias,
               .out = out},
              *model_.pool);
  }

  void linear(const Linear& layer, View<const float, 2> x, View<float, 2> out, Write write = Write::replace) {
    project({.x = x, .weight = layer.weight, .bias = layer.bias, .scale = 1, .write = write, .out = out},
            *model_.pool);
  }

  void embed_tokens() {
    const View<const std::int64_t, 1> ids(pass_.ids.data(), {tokens_});
    if (trace_ != nullptr) {
      embed({.ids = ids, .table = model_.weights.embedding, .scale = 1, .out = state_}, *model_.pool);
      record(trace_names::kEmbedTokens, state_);
    }
    const auto scale = static_cast<float>(spec_.embedding.scale);
    embed({.ids = ids, .table = model_.weights.embedding, .scale = scale, .out = state_}, *model_.pool);
    for (const PositionEmbedding& embedding : model_.plan.embedding) add_positions(embedding);
    if (spec_.embedding.normed) normalize_rows(model_.weights.embedding_norm, state_, state_);
    record(trace_names::kEmbedOut, state_);
  }

  void add_positions(const PositionEmbedding& embedding) {
    const View<float, 2> added = work_.added.rows(0, tokens_);
    const View<const std::int64_t, 1> positions(pass_.positions.data_handle(), {tokens_});
    const View<std::int64_t, 1> rows(work_.table_rows.data(), {tokens_});
    if (embedding.form == EmbeddingForm::sinusoid) {
      sinusoid_rows(embedding, model_.numerics, positions, added);
    } else {
      for (std::int64_t t = 0; t < tokens_; ++t) rows(t) = table_row(embedding, positions(t));
      embed({.ids = rows, .table = model_.weights.positions, .scale = 1, .out = added}, *model_.pool);
    }
    record(trace_names::kEmbedPositions, added);
    std::iota(work_.table_rows.begin(), work_.table_rows.begin() + tokens_, 0);
    add_rows({.rows = rows, .table = matrix(added), .out = state_}, *model_.pool);
  }

  void build_tables(std::size_t kind) {
    const auto& rotation = model_.plan.kinds[kind].rotation;
    if (!rotation) return;
    const View<float, 2> cos = work_.cos[kind].rows(0, tokens_);
    const View<float, 2> sin = work_.sin[kind].rows(0, tokens_);
    rotation_table(*rotation, model_.numerics, pass_.positions, cos, sin);
    if (trace_ != nullptr && kind == 0) {
      record(trace_names::kRopeCos, cos);
      record(trace_names::kRopeSin, sin);
    }
  }

  void project_qkv(const LayerWeights& layer) {
    const View<float, 2> qkv = work_.qkv.rows(0, tokens_);
    if (model_.weights.qkv_layout != QkvLayout::separate) {
      linear(layer.qkv[0], normed_, qkv);
      return;
    }
    std::int64_t first = 0;
    for (const Linear& part : layer.qkv) {
      linear(part, normed_, columns(qkv, first, part.weight.rows));
      first += part.weight.rows;
    }
  }

  void rotate_heads(const Rotation& rotation, std::size_t kind, View<float, 3> heads) {
    rotate(
        RotateCall<float>{
            .x = heads,
            .cos = work_.cos[kind].rows(0, tokens_),
            .sin = work_.sin[kind].rows(0, tokens_),
            .shape = {.read = rotation.read, .write = rotation.write, .offset = rotation.offset},
            .out = heads},
        *model_.pool);
  }

  void attention(std::int64_t index, const LayerWeights& layer) {
    project_qkv(layer);
    const auto kind = static_cast<std::size_t>(model_.plan.layers[static_cast<std::size_t>(index)]);
    const LayerPositions& positions = model_.plan.kinds[kind];
    const Heads heads = split(spec_, model_.weights.qkv_layout, work_.qkv.rows(0, tokens_));
    if (positions.rotation) {
      record(index, Layer::q_pre, heads.q);
      record(index, Layer::k_pre, heads.k);
      if (positions.rotation->acts_on.q) rotate_heads(*positions.rotation, kind, heads.q);
      if (positions.rotation->acts_on.k) rotate_heads(*positions.rotation, kind, heads.k);
    }
    record(index, Layer::q, heads.q);
    record(index, Layer::k, heads.k);
    record(index, Layer::v, heads.v);
    attend_segments(index, heads, model_.slopes[kind]);
  }

  void attend_segments(std::int64_t index, const Heads& heads, const std::vector<float>& slopes) {
    const auto room =
        trace_ != nullptr ? trace_->score_room(index, spec_.heads) : std::vector<View<float, 3>>{};
    const View<float, 3> mixed(work_.mixed.data_handle(), {tokens_, spec_.heads, spec_.head_dim});
    const View<const float, 1> slope_view(slopes.data(), {static_cast<std::int64_t>(slopes.size())});
    work_.attends.clear();
    for (const Segment& segment : pass_.segments) {
      const CacheTensor keys = cache_.keys(segment.row, index);
      const CacheTensor values = cache_.values(segment.row, index);
      store({.x = heads.k.rows(segment.first, segment.tokens), .cache = keys, .first_slot = segment.past},
            *model_.pool);
      store({.x = heads.v.rows(segment.first, segment.tokens), .cache = values, .first_slot = segment.past},
            *model_.pool);
      AttendCall call{.q = heads.q.rows(segment.first, segment.tokens),
                      .keys = keys,
                      .values = values,
                      .first_slot = segment.past,
                      .scale = static_cast<float>(spec_.attention[static_cast<std::size_t>(index)].scale),
                      .slopes = slope_view,
                      .query_positions = {},
                      .key_positions = {},
                      .out = mixed.rows(segment.first, segment.tokens),
                      .scores = {}};
      if (!slopes.empty()) {
        const View<const std::int64_t, 1> slots = cache_.positions(segment.row);
        call.query_positions = slots.rows(segment.past, segment.tokens);
        call.key_positions = slots.rows(0, segment.past + segment.tokens);
      }
      if (!room.empty()) call.scores = room[work_.attends.size()];
      work_.attends.push_back(call);
    }
    attend(work_.attends, *model_.pool);
    if (trace_ != nullptr) {
      trace_->cache(index, cache_);
      trace_->scores(index, spec_.heads);
      trace_->bias(index, slopes, cache_);
    }
  }

  void block(std::int64_t index) {
    const LayerWeights& layer = model_.weights.layers[static_cast<std::size_t>(index)];
    normalize_rows(layer.attention_norm, state_, normed_);
    attention(index, layer);
    if (spec_.residual == Residual::from_norm) std::swap(state_, normed_);
    const View<float, 2> mixed = work_.mixed.rows(0, tokens_);
    if (trace_ != nullptr) {
      const View<float, 2> alone = traced_branch();
      linear(layer.attention_out, mixed, alone);
      record(index, Layer::attn_out, alone);
    }
    linear(layer.attention_out, mixed, state_, Write::add);

    normalize_rows(layer.mlp_norm, state_, normed_);
    const View<float, 2> up = work_.up.rows(0, tokens_);
    linear(layer.up, normed_, up);
    ActivateCall call{.activation = spec_.mlp.activation, .x = up, .up = {}, .out = up};
    if (spec_.mlp.gated) {
      const View<float, 2> gate = work_.gate.rows(0, tokens_);
      linear(layer.gate, normed_, gate);
      call.x = gate;
      call.up = up;
    }
    activate(call, *model_.pool);
    if (spec_.residual == Residual::from_norm) std::swap(state_, normed_);
    linear(layer.down, up, state_, Write::add);
    record(index, Layer::out, state_);
  }

  // A branch is added straight into the state; a trace wants it alone, too.
  View<float, 2> traced_branch() {
    branch_.resize(static_cast<std::size_t>(tokens_ * spec_.hidden));
    return {branch_.data(), {tokens_, spec_.hidden}};
  }

  const Model::State& model_;
  const ModelSpec& spec_;
  Cache& cache_;
  Workspace& work_;
  const Pass& pass_;
  TracePass* trace_;
  std::int64_t tokens_;
  View<float, 2> state_;
  View<float, 2> normed_;
  std::vector<float> branch_;
};

}  // namespace

void run_blocks(const Model::State& model, Cache& cache, Workspace& work, const Pass& pass,
                TracePass* trace) {
  Forward(model, cache, work, pass, trace).run();
}

void run_head(const Model::State& model, View<const float, 2> rows, View<float, 2> logits) {
  project({.x = rows,
           .weight = model.weights.head,
           .bias = {},
           .scale = static_cast<float>(model.spec.head.scale),
           .write = Write::replace,
           .out = logits},
          *model.pool);
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// Self-attention: q, k and v from one or three matrices, their norms, rotation and factors, the cache, and
// what each kind of layer sees; attention to an encoder's answer.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "model/blocks.h"
#include "model/fused_rows.h"

namespace locant {
namespace {

using trace_names::Layer;

struct Heads {
  View<float, 3> q, k, v;
};

class SelfAttention {
 public:
  SelfAttention(const Step& step, std::int64_t index)
      : step_(step),
        weights_(step.stack.layer(index).attention),
        facts_(step.stack.attention[static_cast<std::size_t>(index)]),
        index_(index),
        kind_(static_cast<std::size_t>(step.stack.plan.layers[static_cast<std::size_t>(index)])),
        positions_(step.stack.plan.kinds[kind_]),
        heads_{
            .q = heads_of(step.work.q.rows(0, step.tokens), step.stack.heads, step.spec.head_dim),
            .k = heads_of(step.work.k.rows(0, step.tokens), step.stack.kv_heads, step.spec.head_dim),
            .v = heads_of(step.work.v.rows(0, step.tokens), step.stack.kv_heads, step.model.value_width())} {}

  void run(View<const float, 2> x) {
    project_heads(x);
    const QkNormSpec& norm = step_.spec.block.qk_norm;
    const bool norms = norm.kind != QkNorm::none && (positions_.rotation || !norm.rotating_only);
    if (norms && !norm.after_rotation) norm_heads();
    if (step_.spec.block.clip_qkv > 0) clip_heads();
    if (turns_while_storing(norms && norm.after_rotation)) {
      attend_segments([&](const Segment& segment) { rotate_and_store(*positions_.rotation, segment); });
      return;
    }
    if (positions_.rotation) rotate_heads(*positions_.rotation);
    step_.record(index_, Layer::q, heads_.q);
    step_.record(index_, Layer::k, heads_.k);
    if (norms && norm.after_rotation) norm_heads();
    if (positions_.query_scale) scale_queries(*positions_.query_scale);
    if ((norms && norm.after_rotation) || positions_.query_scale) {
      step_.record(index_, Layer::q_in, heads_.q);
      step_.record(index_, Layer::k_in, heads_.k);
    }
    step_.record(index_, Layer::v, heads_.v);
    attend_segments([&](const Segment& segment) { store_keys_and_values(segment); });
  }

 private:
  // One pass where nothing is seen or done between rotation and cache.
  [[nodiscard]] bool turns_while_storing(bool norms_after) const {
    return positions_.rotation && positions_.rotation->acts_on.q && positions_.rotation->acts_on.k &&
           !norms_after && !positions_.query_scale && step_.trace == nullptr;
  }

  void project_heads(View<const float, 2> x) {
    if (step_.spec.latent.kv_rank > 0) {
      project_latent(step_, weights_.latent, x);
      return;
    }
    if (weights_.layout == QkvLayout::separate) {
      linear(step_, x,
             {{weights_.qkv[0], step_.work.q.rows(0, step_.tokens)},
              {weights_.qkv[1], step_.work.k.rows(0, step_.tokens)},
              {weights_.qkv[2], step_.work.v.rows(0, step_.tokens)}});
      return;
    }
    const View<float, 2> fused = step_.work.fused.rows(0, step_.tokens);
    linear(step_, weights_.qkv[0], x, fused);
    const FusedRows rows{weights_.layout, step_.stack.heads, step_.stack.kv_heads, step_.spec.head_dim};
    for (std::int64_t t = 0; t < step_.tokens; ++t) {
      const float* const from = &fused(t, 0);
      for (std::int64_t h = 0; h < rows.heads; ++h)
        std::copy_n(from + rows.q(h), rows.width, &heads_.q(t, h, 0));
      for (std::int64_t h = 0; h < rows.kv_heads; ++h) {
        std::copy_n(from + rows.k(h), rows.width, &heads_.k(t, h, 0));
        std::copy_n(from + rows.v(h), rows.width, &heads_.v(t, h, 0));
      }
    }
  }

  void norm_one(const NormWeights& norm, View<float, 3> heads) {
    const QkNormSpec& qk = step_.spec.block.qk_norm;
    const std::int64_t count = heads.extent(1);
    const std::int64_t width = heads.extent(2);
    float* const base = heads.data_handle();
    if (qk.kind == QkNorm::head) {
      const View<float, 2> rows(base, {step_.tokens * count, width});
      normalize_rows(step_, qk.norm, norm, rows, rows);
    } else if (qk.kind == QkNorm::row) {
      const View<float, 2> rows(base, {step_.tokens, count * width});
      normalize_rows(step_, qk.norm, norm, rows, rows);
    } else {
      for (std::int64_t h = 0; h < count; ++h) {
        const View<float, 2> rows(base + h * width, {step_.tokens, width}, {heads.stride(0), 1});
        const auto part = [&](const View<const float, 1>& all) {
          return all.empty() ? all : all.rows(h * width, width);
        };
        normalize_rows(step_, qk.norm, {part(norm.gain), part(norm.bias)}, rows, rows);
      }
    }
  }

  void norm_heads() {
    norm_one(weights_.q_norm, heads_.q);
    norm_one(weights_.k_norm, heads_.k);
  }

  void clip_heads() {
    const auto limit = static_cast<float>(step_.spec.block.clip_qkv);
    for (const View<float, 2>& buffer : {step_.work.q, step_.work.k, step_.work.v}) {
      const View<float, 2> rows = buffer.rows(0, step_.tokens);
      clamp({.x = rows, .limit = limit, .out = rows}, *step_.model.pool);
    }
  }

  [[nodiscard]] static RotateShape shape_of(const Rotation& rotation) {
    return {.read = rotation.read, .write = rotation.write, .offset = rotation.offset};
  }

  void rotate_one(const Rotation& rotation, View<float, 3> heads) {
    rotate(RotateCall<float>{.x = heads,
                             .cos = step_.work.cos[kind_].rows(0, step_.tokens),
                             .sin = step_.work.sin[kind_].rows(0, step_.tokens),
                             .shape = shape_of(rotation),
                             .out = heads},
           *step_.model.pool);
  }

  void rotate_heads(const Rotation& rotation) {
    step_.record(index_, Layer::q_pre, heads_.q);
    step_.record(index_, Layer::k_pre, heads_.k);
    if (rotation.acts_on.q) rotate_one(rotation, heads_.q);
    if (rotation.acts_on.k) rotate_one(rotation, heads_.k);
  }

  void scale_queries(const QueryScale& scale) {
    for (std::int64_t t = 0; t < step_.tokens; ++t) {
      step_.work.factors[static_cast<std::size_t>(t)] =
          static_cast<float>(query_factor(scale, step_.pass.positions(0, t)));
    }
    const View<float, 2> q = step_.work.q.rows(0, step_.tokens);
    scale_rows({.x = q, .factors = View<const float, 1>(step_.work.factors.data(), {step_.tokens}), .out = q},
               *step_.model.pool);
  }

  void set_what_is_seen(AttendCall& call) const {
    call.window = facts_.window;
    if (facts_.bidirectional) {
      call.sees = facts_.kind == AttentionKind::full ? Sees::all : Sees::around;
    } else {
      call.sees = facts_.kind == AttentionKind::full     ? Sees::past
                  : facts_.kind == AttentionKind::window ? Sees::window
                                                         : Sees::chunk;
    }
    if (facts_.kind == AttentionKind::full) call.window = 0;
  }

  // Slopes and relative tables count by positions.
  void set_bias(AttendCall& call, const Segment& segment, float*& room) const {
    const KindBias& bias = step_.stack.biases[kind_];
    const auto heads = step_.stack.heads;
    const View<const std::int64_t, 1> slots = step_.cache.positions(segment.row);
    const View<const std::int64_t, 1> queries = slots.rows(segment.past, segment.tokens);
    const View<const std::int64_t, 1> keys = slots.rows(0, segment.past + segment.tokens);
    if (bias.before_scale) {
      const View<float, 3> all(room, {heads, segment.tokens, segment.past + segment.tokens});
      room += all.size();
      slope_scores(*positions_.bias, step_.model.numerics, queries, keys, all);
      for (std::int64_t i = 0; i < all.size(); ++i) all.data_handle()[i] *= call.scale;
      call.bias = all;
      return;
    }
    if (bias.slopes.empty() && bias.relative.empty()) return;
    call.query_positions = queries;
    call.key_positions = keys;
    if (!bias.slopes.empty()) call.slopes = View<const float, 1>(bias.slopes.data(), {heads});
    if (bias.relative.empty()) return;
    call.relative = View<const float, 2>(bias.relative.data(),
                                         {heads, static_cast<std::int64_t>(bias.relative.size()) / heads});
    call.relative_zero = bias.relative_zero;
  }

  float* bias_room() const {
    if (!step_.stack.biases[kind_].before_scale) return nullptr;
    std::int64_t needed = 0;
    for (const Segment& segment : step_.pass.segments)
      needed += step_.stack.heads * segment.tokens * (segment.past + segment.tokens);
    if (step_.work.bias.size() < static_cast<std::size_t>(needed))
      step_.work.bias.resize(static_cast<std::size_t>(needed));
    return step_.work.bias.data();
  }

  void store_keys_and_values(const Segment& segment) {
    const auto keep = [&](const View<float, 3>& heads, const CacheTensor& cache) {
      store({.x = heads.rows(segment.first, segment.tokens), .cache = cache, .first_slot = segment.past},
            *step_.model.pool);
    };
    keep(heads_.k, step_.cache.keys(segment.row, index_));
    keep(heads_.v, step_.cache.values(segment.row, index_));
  }

  void rotate_and_store(const Rotation& rotation, const Segment& segment) {
    rotate_store({.q = heads_.q.rows(segment.first, segment.tokens),
                  .k = heads_.k.rows(segment.first, segment.tokens),
                  .v = heads_.v.rows(segment.first, segment.tokens),
                  .cos = step_.work.cos[kind_].rows(segment.first, segment.tokens),
                  .sin = step_.work.sin[kind_].rows(segment.first, segment.tokens),
                  .shape = shape_of(rotation),
                  .keys = step_.cache.keys(segment.row, index_),
                  .values = step_.cache.values(segment.row, index_),
                  .first_slot = segment.past},
                 *step_.model.pool);
  }

  // `keep` brings a segment's keys and values into the cache.
  template <class Keep>
  void attend_segments(Keep keep) {
    ThreadPool& pool = *step_.model.pool;
    const auto scores = step_.trace != nullptr ? step_.trace->score_room(index_, step_.stack.heads)
                                               : std::vector<View<float, 3>>{};
    const View<float, 3> mixed =
        heads_of(step_.work.mixed.rows(0, step_.tokens), step_.stack.heads, step_.model.value_width());
    float* room = bias_room();
    step_.work.attends.clear();
    for (const Segment& segment : step_.pass.segments) {
      const CacheTensor keys = step_.cache.keys(segment.row, index_);
      const CacheTensor values = step_.cache.values(segment.row, index_);
      keep(segment);
      AttendCall call;
      call.q = heads_.q.rows(segment.first, segment.tokens);
      call.keys = keys;
      call.values = values;
      call.first_slot = segment.past;
      call.scale = static_cast<float>(facts_.scale);
      call.softcap = static_cast<float>(facts_.softcap);
      call.sinks = weights_.sinks;
      call.out = mixed.rows(segment.first, segment.tokens);
      set_what_is_seen(call);
      set_bias(call, segment, room);
      if (!scores.empty()) call.scores = scores[step_.work.attends.size()];
      step_.work.attends.push_back(call);
    }
    attend(step_.work.attends, pool);
    if (step_.trace == nullptr) return;
    step_.trace->cache(index_, step_.cache);
    step_.trace->scores(index_, step_.stack.heads);
    step_.trace->bias(index_, step_.work.attends);
    step_.trace->sinks(index_, weights_.sinks);
  }

  const Step& step_;
  const AttentionWeights& weights_;
  const AttentionSpec& facts_;
  std::int64_t index_;
  std::size_t kind_;
  const LayerPositions& positions_;
  Heads heads_;
};

// The word of a config's layer_types for the layers of a kind.
std::string_view layer_type(const StackModel& stack, std::size_t kind) {
  for (std::size_t layer = 0; layer < stack.plan.layers.size(); ++layer) {
    if (stack.plan.layers[layer] != static_cast<std::int64_t>(kind)) continue;
    const AttentionKind seen = stack.attention[layer].kind;
    return seen == AttentionKind::window  ? "sliding_attention"
           : seen == AttentionKind::chunk ? "chunked_attention"
                                          : "full_attention";
  }
  return {};
}

// One kind of table has the plain name; several are told apart by the word of their layers, the first of
// each word is kept.
void record_rotation_tables(const Step& step) {
  const auto& kinds = step.stack.plan.kinds;
  const auto rotates = [](const LayerPositions& kind) { return kind.rotation.has_value(); };
  const bool several = std::count_if(kinds.begin(), kinds.end(), rotates) > 1;
  std::vector<std::string_view> recorded;
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    if (!rotates(kinds[kind])) continue;
    const std::string_view word = layer_type(step.stack, kind);
    if (std::find(recorded.begin(), recorded.end(), word) != recorded.end()) continue;
    recorded.push_back(word);
    step.record(several ? trace_names::rope_cos(word) : std::string(trace_names::kRopeCos),
                step.work.cos[kind].rows(0, step.tokens));
    step.record(several ? trace_names::rope_sin(word) : std::string(trace_names::kRopeSin),
                step.work.sin[kind].rows(0, step.tokens));
  }
}

}  // namespace

void build_rotation_tables(const Step& step) {
  for (std::size_t kind = 0; kind < step.stack.plan.kinds.size(); ++kind) {
    if (!step.stack.plan.kinds[kind].rotation) continue;
    for (const Segment& segment : step.pass.segments) {
      const Rotation& rotation = *segment.plan->kinds[kind].rotation;
      const View<const std::int64_t, 2> positions(step.pass.positions.data_handle() + segment.first,
                                                  {step.pass.positions.extent(0), segment.tokens},
                                                  step.pass.positions.strides());
      rotation_table(rotation, step.model.numerics, positions,
                     step.work.cos[kind].rows(segment.first, segment.tokens),
                     step.work.sin[kind].rows(segment.first, segment.tokens));
    }
  }
  if (step.trace != nullptr) record_rotation_tables(step);
}

void attend_self(const Step& step, std::int64_t index, View<const float, 2> x) {
  SelfAttention(step, index).run(x);
}

void attend_encoded(const Step& step, std::int64_t index, View<const float, 2> x) {
  const AttentionWeights& weights = step.stack.layer(index).cross;
  const View<float, 2> q = step.work.q.rows(0, step.tokens);
  linear(step, weights.qkv[0], x, q);
  const View<float, 3> heads = heads_of(q, step.stack.heads, step.spec.head_dim);
  const View<float, 3> mixed =
      heads_of(step.work.mixed.rows(0, step.tokens), step.stack.heads, step.spec.head_dim);
  if (step.trace != nullptr) step.trace->record(cross_name(index, "q"), View<const float, 3>(heads));
  const AttentionSpec& facts = step.spec.others.back().attention[static_cast<std::size_t>(index)];
  step.work.attends.clear();
  for (const Segment& segment : step.pass.segments) {
    AttendCall call;
    call.q = heads.rows(segment.first, segment.tokens);
    call.keys = step.encoded->keys(segment.row, index);
    call.values = step.encoded->values(segment.row, index);
    call.sees = Sees::all;
    call.slots = step.encoded->tokens(segment.row);
    call.scale = static_cast<float>(facts.scale);
    call.out = mixed.rows(segment.first, segment.tokens);
    step.work.attends.push_back(call);
  }
  attend(step.work.attends, *step.model.pool);
}

void store_encoded(const Model::State& model, Workspace& work, View<const float, 2> states, Cache& encoded,
                   std::int64_t row) {
  const StackModel& stack = model.main;
  std::int64_t first = encoded.tokens(row);
  for (std::int64_t done = 0; done < states.extent(0); done += work.tokens) {
    const std::int64_t count = std::min(work.tokens, states.extent(0) - done);
    const View<const float, 2> x = states.rows(done, count);
    for (std::int64_t index = 0; index < stack.layers; ++index) {
      const AttentionWeights& weights = stack.layer(index).cross;
      const auto keep = [&](const Linear& layer, View<float, 2> buffer, const CacheTensor& cache) {
        const View<float, 2> rows = buffer.rows(0, count);
        project({.x = x,
                 .weight = layer.weight,
                 .bias = layer.bias,
                 .scale = 1,
                 .write = Write::replace,
                 .activations = model.activations,
                 .out = rows},
                *model.pool);
        store({.x = heads_of(rows, stack.kv_heads, model.spec.head_dim), .cache = cache, .first_slot = first},
              *model.pool);
      };
      keep(weights.qkv[1], work.k, encoded.keys(row, index));
      keep(weights.qkv[2], work.v, encoded.values(row, index));
    }
    first += count;
  }
  encoded.set_tokens(row, first);
}

}  // namespace locant

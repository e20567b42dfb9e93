// SPDX-License-Identifier: Apache-2.0
// The parts that a block is made of. Each reads what stands before it in a pass and leaves its answer in the
// workspace; the order is forward.cc's.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "model/forward.h"

namespace locant {

/// A pass on its way.
struct Step {
  const Model::State& model;
  const ModelSpec& spec;
  const StackModel& stack;
  Cache& cache;
  const Cache* encoded;
  Workspace& work;
  const Pass& pass;
  TracePass* trace;
  std::int64_t tokens;
  View<float, 2> state;   ///< [N, hidden] the residual stream
  View<float, 2> normed;  ///< [N, hidden]
  View<float, 2> branch;  ///< [N, hidden]

  void record(std::string_view name, View<const float, 2> values) const {
    if (trace != nullptr) trace->record(name, values);
  }
  template <std::size_t Rank>
  void record(std::int64_t layer, trace_names::Layer name, View<float, Rank> values) const {
    if (trace != nullptr) trace->record(trace_names::layer(layer, name), View<const float, Rank>(values));
  }
};

void normalize_rows(const Step& step, const NormSpec& spec, const NormWeights& norm, View<const float, 2> x,
                    View<float, 2> out);
void linear(const Step& step, const Linear& layer, View<const float, 2> x, View<float, 2> out,
            Write write = Write::replace);
/// Layers that read the same x, in one fork.
struct LinearOut {
  const Linear& layer;
  View<float, 2> out;
};
void linear(const Step& step, View<const float, 2> x, std::initializer_list<LinearOut> all);

/// Token rows, what is added to them, the norm and the projection behind; into step.state.
void embed_tokens(const Step& step);
/// cos and sin of every kind of layer.
void build_rotation_tables(const Step& step);

/// Self-attention of layer `index` on x, up to the matrix before the output: into work.mixed.
void attend_self(const Step& step, std::int64_t index, View<const float, 2> x);
/// Attention to the encoder's answer, into work.mixed.
void attend_encoded(const Step& step, std::int64_t index, View<const float, 2> x);
/// q, k and v of latent attention from x.
void project_latent(const Step& step, const LatentWeights& weights, View<const float, 2> x);

/// mlp(x), or the experts' answer, replacing out or added to it.
void run_mlp(const Step& step, const MlpWeights& weights, View<const float, 2> x, View<float, 2> out,
             Write write);
void run_experts(const Step& step, const ExpertWeights& weights, View<const float, 2> x, View<float, 2> out);

/// The heads of a matrix [N, heads width].
[[nodiscard]] inline View<float, 3> heads_of(View<float, 2> rows, std::int64_t heads, std::int64_t width) {
  return {rows.data_handle(), {rows.extent(0), heads, width}, {rows.stride(0), width, 1}};
}
[[nodiscard]] inline View<float, 2> columns_of(View<float, 2> matrix, std::int64_t first,
                                               std::int64_t count) {
  return {matrix.data_handle() + first, {matrix.extent(0), count}, matrix.strides()};
}
/// The first rows x columns of a buffer, without gaps.
[[nodiscard]] inline View<float, 2> packed(View<float, 2> buffer, std::int64_t rows, std::int64_t columns) {
  return {buffer.data_handle(), {rows, columns}};
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// What Model and Session hold: a model's facts and weights, a session's caches and workspace.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "locant/model.h"
#include "locant/ops.h"
#include "model/cache.h"
#include "model/weights.h"
#include "model/workspace.h"

namespace locant {

/// What one kind of layer adds to its scores, as numbers.
struct KindBias {
  std::vector<float> slopes;       ///< [heads] or empty
  std::vector<float> relative;     ///< [heads, R] by distance, or empty
  std::int64_t relative_zero = 0;  ///< the column of distance 0
  bool before_scale = false;       ///< slopes are rounded and scaled as Falcon's are: a tensor is made
};

/// One stack of layers, ready to run.
struct StackModel {
  Plan plan;
  bool varies = false;  ///< the plan depends on the length
  std::span<const AttentionSpec> attention;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  bool is_bidirectional = false;
  bool is_encoder = false;
  const StackWeights* weights = nullptr;
  std::vector<KindBias> biases;  ///< [kinds]

  [[nodiscard]] const LayerWeights& layer(std::int64_t index) const noexcept {
    const auto sets = static_cast<std::int64_t>(weights->layers.size());
    // consecutive layers share a set
    return weights->layers[static_cast<std::size_t>(index * sets / layers)];
  }
};

struct Model::State {
  ModelSpec spec;
  const Recipe* recipe = nullptr;
  Numerics numerics;
  Activations activations = Activations::f32;
  float embedding_scale = 1;  ///< rounded as the recipe has it
  Weights weights;
  StackModel main;
  std::optional<StackModel> encoder;
  ThreadPool* pool = nullptr;

  [[nodiscard]] std::int64_t value_width() const noexcept {
    return spec.latent.kv_rank > 0 ? spec.latent.value_width : spec.head_dim;
  }
};

/// How many position axes a plan reads.
[[nodiscard]] std::int64_t axes_of(const Plan& plan) noexcept;

struct Session::State {
  State(const Model::State& model_, const SessionOptions& options_);

  const Model::State& model;
  SessionOptions options;
  Cache cache;
  std::optional<Cache> encoded;  ///< keys and values of what an encoder gave
  Workspace work;
  std::vector<std::int64_t> next_position;  ///< [rows]
  std::vector<Plan> row_plans;              ///< [rows] where the plan varies with the length
  TraceSink* trace = nullptr;
  Padding padding = Padding::right;
  bool traced_encoder = false;  ///< the pass that an encoder began is not yet the decoder's
};

}  // namespace locant

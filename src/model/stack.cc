// SPDX-License-Identifier: Apache-2.0
#include "model/stack.h"

#include <cmath>

#include "locant/formats.h"
#include "model/tensors.h"

namespace locant {
namespace {

// T5's table by bucket becomes one by distance: beyond max_distance on either side nothing changes any more.
void spread_buckets(const Bias& bias, const Matrix& table, KindBias& out) {
  const std::int64_t reach = bias.max_distance;
  const std::int64_t columns = 2 * reach + 1;
  const T5Buckets buckets{
      .buckets = bias.buckets, .max_distance = bias.max_distance, .bidirectional = bias.bidirectional};
  std::vector<float> rows(static_cast<std::size_t>(bias.buckets * bias.heads));
  for (std::int64_t row = 0; row < bias.buckets; ++row) read_row(table, row, rows.data() + row * bias.heads);
  out.relative.resize(static_cast<std::size_t>(bias.heads * columns));
  out.relative_zero = reach;
  for (std::int64_t column = 0; column < columns; ++column) {
    const std::int64_t bucket = t5_bucket(column - reach, buckets);
    for (std::int64_t head = 0; head < bias.heads; ++head) {
      out.relative[static_cast<std::size_t>(head * columns + column)] =
          rows[static_cast<std::size_t>(bucket * bias.heads + head)];
    }
  }
}

std::vector<KindBias> biases_of(const Plan& plan, const StackWeights& weights) {
  std::vector<KindBias> all;
  for (const LayerPositions& kind : plan.kinds) {
    KindBias& bias = all.emplace_back();
    if (!kind.bias) continue;
    if (kind.bias->form == BiasForm::buckets) {
      spread_buckets(*kind.bias, weights.relative, bias);
      continue;
    }
    bias.before_scale = kind.bias->scale_order == ScaleOrder::before_scale;
    for (const double slope : kind.bias->slopes) bias.slopes.push_back(static_cast<float>(slope));
  }
  return all;
}

bool varies(const StackPositions& positions, const Recipe& recipe, const Plan& plan) {
  constexpr std::int64_t kFar = std::int64_t{1} << 40;
  return locant::plan(positions, recipe, {.seen = kFar, .capacity = kFar}) != plan;
}

bool sees_later_ones(std::span<const AttentionSpec> attention) {
  for (const AttentionSpec& layer : attention) {
    if (layer.bidirectional) return true;
  }
  return false;
}

}  // namespace

StackModel main_stack(const Model::State& state, const Plan& plan) {
  const ModelSpec& spec = state.spec;
  return {.plan = plan,
          .varies = varies(spec.positions, *state.recipe, plan),
          .attention = spec.attention,
          .layers = spec.layers,
          .heads = spec.heads,
          .kv_heads = spec.kv_heads,
          .is_bidirectional = sees_later_ones(spec.attention),
          .is_encoder = false,
          .weights = &state.weights.main,
          .biases = biases_of(plan, state.weights.main)};
}

StackModel encoder_stack(const Model::State& state, const Plan& plan) {
  const ModelSpec& spec = state.spec;
  const StackSpec& encoder = spec.others.front();
  return {.plan = plan,
          .varies = varies(encoder.positions, *state.recipe, plan),
          .attention = encoder.attention,
          .layers = static_cast<std::int64_t>(encoder.attention.size()),
          .heads = encoder.heads != 0 ? encoder.heads : spec.heads,
          .kv_heads = encoder.heads != 0 ? encoder.heads : spec.kv_heads,
          .is_bidirectional = true,
          .is_encoder = true,
          .weights = &state.weights.encoder,
          .biases = biases_of(plan, state.weights.encoder)};
}

CacheShape cache_shape(const Model::State& state, const StackModel& stack) noexcept {
  return {.layers = stack.layers,
          .heads = stack.kv_heads,
          .key_width = state.spec.head_dim,
          .value_width = state.value_width(),
          .shared_by_layers = stack.is_bidirectional,
          .keeps_norms = std::any_of(stack.biases.begin(), stack.biases.end(), [](const KindBias& bias) {
            return !bias.slopes.empty() && !bias.before_scale;
          })};
}

std::optional<std::int64_t> first_non_finite(const SourceTensor& tensor) {
  const Matrix rows = tensor.matrix();
  if (!tensor.blocks) {
    if (!is_float(tensor.dtype)) return std::nullopt;
    return locant::first_non_finite(TensorRef(tensor.data, tensor.dtype, {rows.rows, rows.columns}));
  }
  if (!can_dequantize(*tensor.blocks)) return std::nullopt;
  const std::int64_t row_bytes = rows.columns / block_elements(*tensor.blocks) * block_bytes(*tensor.blocks);
  std::vector<float> row(static_cast<std::size_t>(rows.columns));
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    dequantize(*tensor.blocks, static_cast<const std::byte*>(tensor.data) + r * row_bytes, rows.columns,
               row.data());
    for (std::int64_t i = 0; i < rows.columns; ++i) {
      if (!std::isfinite(row[static_cast<std::size_t>(i)])) return r * rows.columns + i;
    }
  }
  return std::nullopt;
}

}  // namespace locant

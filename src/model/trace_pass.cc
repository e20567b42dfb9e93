// SPDX-License-Identifier: Apache-2.0
#include "model/trace_pass.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "core/convert.h"

namespace locant {
namespace {

using trace_names::Layer;

constexpr float kPadding = std::numeric_limits<float>::quiet_NaN();
constexpr float kUnseen = -std::numeric_limits<float>::infinity();
constexpr std::int64_t kNoPosition = -1;

// In place over one row of scores: probabilities of what was seen. An unseen row stays at zero.
void softmax(View<float, 1> row) {
  float largest = kUnseen;
  for (std::int64_t s = 0; s < row.extent(0); ++s) largest = std::max(largest, row(s));
  double sum = 0;
  for (std::int64_t s = 0; s < row.extent(0); ++s) {
    const double e =
        row(s) == kUnseen ? 0 : std::exp(static_cast<double>(row(s)) - static_cast<double>(largest));
    row(s) = static_cast<float>(e);
    sum += e;
  }
  for (std::int64_t s = 0; s < row.extent(0) && sum > 0; ++s) {
    row(s) = static_cast<float>(static_cast<double>(row(s)) / sum);
  }
}

// What a call adds to the score of query t and slot s.
float bias_at(const AttendCall& call, std::int64_t head, std::int64_t t, std::int64_t s) {
  if (!call.bias.empty()) return call.bias(head, t, s);
  const std::int64_t distance = call.key_positions(s) - call.query_positions(t);
  float bias = 0;
  if (!call.slopes.empty()) {
    const auto away = static_cast<float>(distance > 0 ? -distance : distance);
    bias += call.slopes(head) * away;
  }
  if (!call.relative.empty()) {
    const std::int64_t last = call.relative.extent(1) - 1;
    bias += call.relative(head, std::clamp<std::int64_t>(distance + call.relative_zero, 0, last));
  }
  return bias;
}

}  // namespace

std::string cross_name(std::int64_t layer, std::string_view what) {
  return fmt::format("layers.{}.cross.{}", layer, what);
}

TracePass::TracePass(TraceSink& sink, const Batch& batch, std::string prefix)
    : sink_(sink),
      padding_(batch.padding),
      segments_(batch.segments),
      rows_(batch.rows),
      prefix_(std::move(prefix)) {
  for (const Segment& segment : segments_) {
    width_ = std::max(width_, segment.tokens);
    past_ = std::max(past_, segment.past);
  }
}

// Columns of padding before a row's tokens.
std::int64_t TracePass::shift(const Segment& segment) const noexcept {
  return padding_ == Padding::left ? width_ - segment.tokens : 0;
}

std::int64_t TracePass::slot_column(const Segment& segment, std::int64_t slot) const noexcept {
  if (slot < segment.past) return past_ - segment.past + slot;
  return past_ + shift(segment) + slot - segment.past;
}

void TracePass::offer(std::string_view name, const TensorRef& tensor) {
  if (wants(name, tensor.size())) hand(name, tensor);
}

void TracePass::tokens(std::span<const std::int64_t> ids, View<const std::int64_t, 2> positions,
                       std::int64_t pad_id) {
  const std::int64_t slots = past_ + width_;
  const std::int64_t axes = positions.extent(0);
  std::vector<std::int64_t> id(static_cast<std::size_t>(rows_ * width_), pad_id);
  std::vector<std::int64_t> position(static_cast<std::size_t>(axes * rows_ * width_), 0);
  std::vector<std::int64_t> mask(static_cast<std::size_t>(rows_ * slots), 0);
  const View<std::int64_t, 3> position_view(position.data(), {axes, rows_, width_});
  for (const Segment& segment : segments_) {
    for (std::int64_t t = 0; t < segment.tokens; ++t) {
      const std::int64_t column = shift(segment) + t;
      id[static_cast<std::size_t>(segment.row * width_ + column)] =
          ids[static_cast<std::size_t>(segment.first + t)];
      for (std::int64_t axis = 0; axis < axes; ++axis) {
        position_view(axis, segment.row, column) = positions(axis, segment.first + t);
      }
    }
    for (std::int64_t s = 0; s < segment.past + segment.tokens; ++s) {
      mask[static_cast<std::size_t>(segment.row * slots + slot_column(segment, s))] = 1;
    }
  }
  offer(trace_names::kInputIds, {id.data(), DType::i64, {rows_, width_}});
  if (axes == 1) {
    offer(trace_names::kPositionIds, {position.data(), DType::i64, {rows_, width_}});
  } else {
    offer(trace_names::kPositionIds, position_view);
  }
  offer(trace_names::kAttentionMask, {mask.data(), DType::i64, {rows_, slots}});
}

void TracePass::record(std::string_view name, View<const float, 2> values) {
  const View<const float, 3> heads(values.data_handle(), {values.extent(0), 1, values.extent(1)},
                                   {values.stride(0), 0, values.stride(1)});
  const std::int64_t width = values.extent(1);
  if (!wants(name, rows_ * width_ * width)) return;
  std::vector<float> out(static_cast<std::size_t>(rows_ * width_ * width), kPadding);
  for (const Segment& segment : segments_) {
    for (std::int64_t t = 0; t < segment.tokens; ++t) {
      float* const to = out.data() + (segment.row * width_ + shift(segment) + t) * width;
      for (std::int64_t i = 0; i < width; ++i) to[i] = heads(segment.first + t, 0, i);
    }
  }
  hand(name, {out.data(), DType::f32, {rows_, width_, width}});
}

void TracePass::record(std::string_view name, View<const float, 3> values) {
  const std::int64_t heads = values.extent(1);
  const std::int64_t width = values.extent(2);
  if (!wants(name, rows_ * width_ * heads * width)) return;
  std::vector<float> out(static_cast<std::size_t>(rows_ * width_ * heads * width), kPadding);
  for (const Segment& segment : segments_) {
    for (std::int64_t t = 0; t < segment.tokens; ++t) {
      float* to = out.data() + (segment.row * width_ + shift(segment) + t) * heads * width;
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t i = 0; i < width; ++i) *to++ = values(segment.first + t, h, i);
      }
    }
  }
  hand(name, {out.data(), DType::f32, {rows_, width_, heads, width}});
}

void TracePass::record_slots(std::string_view name, const Cache& cache, std::int64_t layer, CacheHalf half) {
  const CacheTensor shape = cache.keys(0, layer);
  const std::int64_t slots = past_ + width_;
  if (!wants(name, rows_ * slots * shape.heads * shape.width)) return;
  std::vector<float> out(static_cast<std::size_t>(rows_ * slots * shape.heads * shape.width), kPadding);
  for (const Segment& segment : segments_) {
    const CacheTensor tensor =
        half == CacheHalf::values ? cache.values(segment.row, layer) : cache.keys(segment.row, layer);
    for (std::int64_t s = 0; s < segment.past + segment.tokens; ++s) {
      for (std::int64_t g = 0; g < tensor.heads; ++g) {
        const std::int64_t at =
            ((segment.row * slots + slot_column(segment, s)) * tensor.heads + g) * tensor.width;
        const auto from =
            static_cast<std::size_t>((g * tensor.capacity + s) * tensor.width) * size_of(tensor.dtype);
        if (tensor.dtype == DType::i8) {
          const auto* const row = static_cast<const std::int8_t*>(tensor.data) + from;
          const float scale = tensor.scales[g * tensor.capacity + s];
          for (std::int64_t i = 0; i < tensor.width; ++i)
            out[static_cast<std::size_t>(at + i)] = scale * static_cast<float>(row[i]);
          continue;
        }
        convert_row(static_cast<const std::byte*>(tensor.data) + from, tensor.dtype, out.data() + at,
                    DType::f32, tensor.width);
      }
    }
  }
  hand(name, {out.data(), DType::f32, {rows_, slots, shape.heads, shape.width}});
}

void TracePass::cache(std::int64_t layer, const Cache& cache) {
  record_slots(trace_names::layer(layer, Layer::cache_k), cache, layer, CacheHalf::keys);
  record_slots(trace_names::layer(layer, Layer::cache_v), cache, layer, CacheHalf::values);
  const std::int64_t slots = past_ + width_;
  std::vector<std::int64_t> positions(static_cast<std::size_t>(rows_ * slots), kNoPosition);
  for (const Segment& segment : segments_) {
    for (std::int64_t s = 0; s < segment.past + segment.tokens; ++s) {
      positions[static_cast<std::size_t>(segment.row * slots + slot_column(segment, s))] =
          cache.positions(segment.row)(s);
    }
  }
  offer(trace_names::layer(layer, Layer::cache_positions), {positions.data(), DType::i64, {rows_, slots}});
}

std::vector<View<float, 3>> TracePass::score_room(std::int64_t layer, std::int64_t heads) {
  score_views_.clear();
  const std::int64_t elements = rows_ * heads * width_ * (past_ + width_);
  wants_scores_ = wants(trace_names::layer(layer, Layer::scores), elements);
  wants_probs_ = wants(trace_names::layer(layer, Layer::probs), elements);
  if (!wants_scores_ && !wants_probs_) return score_views_;
  std::int64_t needed = 0;
  for (const Segment& segment : segments_) needed += heads * segment.tokens * (segment.past + segment.tokens);
  room_.assign(static_cast<std::size_t>(needed), kUnseen);
  float* at = room_.data();
  for (const Segment& segment : segments_) {
    score_views_.emplace_back(at,
                              View<float, 3>::Shape{heads, segment.tokens, segment.past + segment.tokens});
    at += score_views_.back().size();
  }
  return score_views_;
}

void TracePass::scores(std::int64_t layer, std::int64_t heads) {
  if (score_views_.empty()) return;
  const std::int64_t slots = past_ + width_;
  const auto size = static_cast<std::size_t>(rows_ * heads * width_ * slots);
  std::vector<float> out(size, kPadding);
  const View<float, 4> grid(out.data(), {rows_, heads, width_, slots});
  for (std::size_t i = 0; i < score_views_.size(); ++i) {
    const Segment& segment = segments_[i];
    const View<float, 3>& scores = score_views_[i];
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t t = 0; t < segment.tokens; ++t) {
        const View<float, 1> row(&grid(segment.row, h, shift(segment) + t, 0), {slots});
        for (std::int64_t s = 0; s < slots; ++s) row(s) = kUnseen;
        for (std::int64_t s = 0; s < scores.extent(2); ++s) row(slot_column(segment, s)) = scores(h, t, s);
      }
    }
  }
  if (wants_scores_) hand(trace_names::layer(layer, Layer::scores), grid);
  if (!wants_probs_) return;
  for (const Segment& segment : segments_) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t t = 0; t < segment.tokens; ++t) {
        softmax({&grid(segment.row, h, shift(segment) + t, 0), {slots}});
      }
    }
  }
  hand(trace_names::layer(layer, Layer::probs), grid);
}

void TracePass::bias(std::int64_t layer, std::span<const AttendCall> calls) {
  const AttendCall& first = calls.front();
  if (first.slopes.empty() && first.relative.empty() && first.bias.empty()) return;
  const std::int64_t heads = first.q.extent(1);
  const std::int64_t slots = past_ + width_;
  const std::int64_t elements = rows_ * heads * width_ * slots;
  const std::string name = trace_names::layer(layer, Layer::bias);
  if (!wants(name, elements)) return;
  std::vector<float> out(static_cast<std::size_t>(elements), kPadding);
  const View<float, 4> grid(out.data(), {rows_, heads, width_, slots});
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const AttendCall& call = calls[i];
    const Segment& segment = segments_[i];
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t t = 0; t < segment.tokens; ++t) {
        for (std::int64_t s = 0; s < segment.past + segment.tokens; ++s)
          grid(segment.row, h, shift(segment) + t, slot_column(segment, s)) = bias_at(call, h, t, s);
      }
    }
  }
  hand(name, grid);
}

void TracePass::sinks(std::int64_t layer, View<const float, 1> sinks) {
  if (!sinks.empty()) offer(trace_names::layer(layer, Layer::sinks), sinks);
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// Hands a pass's tensors to a sink in the layout of a trace: [B, T, ...] with NaN in padding. Slots of a
// cache stand so that the last T columns are this pass's: S = most past slots + T.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "locant/model.h"
#include "locant/trace.h"
#include "model/state.h"

namespace locant {

enum class CacheHalf : std::uint8_t { keys, values };

/// "layers.3.cross.q": attention to the encoder's answer.
[[nodiscard]] std::string cross_name(std::int64_t layer, std::string_view what);

class TracePass {
 public:
  struct Batch {
    std::span<const Segment> segments;
    std::int64_t rows = 0;
    Padding padding = Padding::right;
  };
  /// Names stand behind `prefix` ("encoder.").
  TracePass(TraceSink& sink, const Batch& batch, std::string prefix);

  void tokens(std::span<const std::int64_t> ids, View<const std::int64_t, 2> positions, std::int64_t pad_id);
  /// values [N, width] -> [B, T, width].
  void record(std::string_view name, View<const float, 2> values);
  /// values [N, heads, width], any strides -> [B, T, heads, width].
  void record(std::string_view name, View<const float, 3> values);
  /// What attention sees of one layer.
  void cache(std::int64_t layer, const Cache& cache);
  /// Room for the scores [heads, T_row, past + T_row] of each segment; empty when the sink wants neither
  /// scores nor probabilities.
  [[nodiscard]] std::vector<View<float, 3>> score_room(std::int64_t layer, std::int64_t heads);
  /// Scores and probabilities of a layer from that room.
  void scores(std::int64_t layer, std::int64_t heads);
  /// What is added to the scores by position, one call for each segment; nothing where nothing is.
  void bias(std::int64_t layer, std::span<const AttendCall> calls);
  void sinks(std::int64_t layer, View<const float, 1> sinks);

 private:
  [[nodiscard]] std::int64_t shift(const Segment& segment) const noexcept;
  [[nodiscard]] std::int64_t slot_column(const Segment& segment, std::int64_t slot) const noexcept;
  [[nodiscard]] bool wants(std::string_view name, std::int64_t elements) {
    return sink_.wants(prefix_ + std::string(name), elements);
  }
  void hand(std::string_view name, const TensorRef& tensor) {
    sink_.record(prefix_ + std::string(name), tensor);
  }
  void offer(std::string_view name, const TensorRef& tensor);
  void record_slots(std::string_view name, const Cache& cache, std::int64_t layer, CacheHalf half);

  TraceSink& sink_;
  Padding padding_;
  std::span<const Segment> segments_;
  std::int64_t rows_ = 0;
  std::string prefix_;
  std::int64_t width_ = 0;  ///< T
  std::int64_t past_ = 0;   ///< most slots before this pass
  bool wants_scores_ = false;
  bool wants_probs_ = false;
  std::vector<float> room_;
  std::vector<View<float, 3>> score_views_;
};

}  // namespace locant

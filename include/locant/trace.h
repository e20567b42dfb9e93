// SPDX-License-Identifier: Apache-2.0
// Traces: the canonical names of a forward pass's tensors, and where a runtime hands them over.
// One safetensors file; layouts are those of docs/trace.md and are fixed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "locant/core.h"
#include "locant/plan.h"

namespace locant {

namespace trace_names {
// [B, T] i64 unless said
inline constexpr std::string_view kInputIds = "input_ids";
inline constexpr std::string_view kPositionIds = "position_ids";  // or [axes, B, T]
inline constexpr std::string_view kAttentionMask = "attention_mask";
inline constexpr std::string_view kSegmentIds = "segment_ids";
inline constexpr std::string_view kCachePosition = "cache_position";  // [T] i64
inline constexpr std::string_view kImageGrid = "image_grid_thw";      // [n, 3] i64
inline constexpr std::string_view kVideoGrid = "video_grid_thw";      // [n, 3] i64
// [B, T, hidden]
inline constexpr std::string_view kEmbedTokens = "embed.tokens";        // row lookup, before scale
inline constexpr std::string_view kEmbedPositions = "embed.positions";  // what was added
inline constexpr std::string_view kEmbedTypes = "embed.types";
inline constexpr std::string_view kEmbedOut = "embed.out";  // what enters layer 0
// [T, r], [B, T, r] or [axes, B, T, r]; amplitude included
inline constexpr std::string_view kRopeCos = "rope.cos";
inline constexpr std::string_view kRopeSin = "rope.sin";
inline constexpr std::string_view kFinalNormOut = "final_norm.out";  // [B, T, hidden]
inline constexpr std::string_view kLogits = "logits";                // [B, T, V] or [B, 1, V]
inline constexpr std::string_view kPooled = "pooled";                // [B, hidden]

/// Tensors of a layer. Heads stand before head_dim; q-like tensors have `heads`, k and v `kv_heads`.
enum class Layer : std::uint8_t {
  q_pre,
  k_pre,  ///< [B, T, heads, head_dim] the rotation's input
  q,
  k,  ///< the rotation's direct output, this call's tokens only
  q_in,
  k_in,  ///< what the score product takes, where it is not q, k
  v,     ///< [B, T, kv_heads, v_head_dim]
  cache_k,
  cache_v,  ///< [B, S, kv_heads, head_dim] what attention sees, oldest first
  cache_latent,
  cache_k_rope,     ///< [B, S, rank], [B, S, r] (MLA)
  cache_positions,  ///< [B, S] i64 the position each slot stands at
  cache_source,     ///< [B, S] i64 which token of its row a slot holds
  bias,             ///< [B, heads, T, S], leading axes may be 1; added to the scaled scores, no mask
  scores,
  probs,  ///< [B, heads, T, S]; scores after scale, softcap, bias and mask, without sink
  sinks,  ///< [heads]
  attn_out,
  out,  ///< [B, T, hidden]
};
/// "layers.3.attn.q_pre". Cross-attention and encoders: prefix() in front.
[[nodiscard]] std::string layer(std::int64_t index, Layer tensor);
/// The kind-specific table name "rope.<kind>.cos".
[[nodiscard]] std::string rope_cos(std::string_view kind);
[[nodiscard]] std::string rope_sin(std::string_view kind);
/// "" for the first pass, "step.N/" for later ones.
[[nodiscard]] std::string step_prefix(std::int64_t step);
/// "" for a decoder (or the only stack), "encoder." for the encoder beside a decoder.
[[nodiscard]] std::string stack_prefix(Stack stack);
}  // namespace trace_names

/// Receives the tensors of forward passes. The data is valid during the call only.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  /// Called before the first tensor of each forward pass of the same sequences.
  virtual void begin_pass() {}
  /// Whether the runtime should compute and hand over this tensor of `elements` elements.
  [[nodiscard]] virtual bool wants(std::string_view name, std::int64_t elements) = 0;
  virtual void record(std::string_view name, const TensorRef& tensor) = 0;
};

struct TraceOptions {
  std::string producer;  ///< "locant 0.1.0"
  std::string model;     ///< what was run
  DType dtype = DType::f32;
  std::string stack{};  ///< "encoder" of an encoder alone; empty = a decoder, or two stacks
  /// Score-shaped tensors ([B, heads, T, S]) larger than this are left out, bytes.
  std::int64_t largest_scores = 256LL << 20;
};

/// Writes a trace in bounded memory: tensors are spooled beside the target, and finish() puts the
/// header in front and renames. Until then nothing stands at `path`; the destructor of an unfinished
/// writer removes the spool. Throws FileError.
class TraceWriter final : public TraceSink {
 public:
  TraceWriter(std::string path, TraceOptions options);
  ~TraceWriter() override;
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  /// The first pass has no prefix, later ones stand behind step_prefix(1), step_prefix(2), ...
  void begin_pass() override;
  [[nodiscard]] bool wants(std::string_view name, std::int64_t elements) override;
  /// SpecError when a name is recorded twice in a step.
  void record(std::string_view name, const TensorRef& tensor) override;
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A trace file read back: tensors by canonical name, mapped, checked. Throws FileError.
class TraceReader {
 public:
  explicit TraceReader(const std::string& path);
  ~TraceReader();
  TraceReader(TraceReader&&) noexcept;
  TraceReader& operator=(TraceReader&&) noexcept;
  [[nodiscard]] std::vector<std::string> names() const;  ///< in file order
  /// Null tensor data when absent.
  [[nodiscard]] TensorRef find(std::string_view name) const;
  [[nodiscard]] std::string metadata(std::string_view key) const;  ///< "" when absent
  [[nodiscard]] std::int64_t steps() const;                        ///< passes recorded, >= 1

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace locant

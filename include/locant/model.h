// SPDX-License-Identifier: Apache-2.0
// Models that run: ids -> logits on real checkpoints. A Model is immutable and shared by its sessions;
// a Session holds the caches of a batch of rows. Rows are ragged inside: padding never enters the cache.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "locant/core.h"
#include "locant/ops.h"
#include "locant/plan.h"
#include "locant/recipe.h"
#include "locant/runtime.h"
#include "locant/spec.h"
#include "locant/threads.h"
#include "locant/trace.h"

namespace locant {

enum class WeightStorage : std::uint8_t { as_stored, f32, f16, bf16 };

struct LoadOptions {
  std::string recipe;            ///< empty = "llama.cpp" for a GGUF file, "hf" for others
  DType run_dtype = DType::f32;  ///< the dtype whose rounding of constants is imitated
  WeightStorage weights =
      WeightStorage::as_stored;                ///< blocks of a GGUF file stay blocks under as_stored only
  Activations activations = Activations::f32;  ///< arithmetic of products
  /// Read instead of the config at the path: the same model under other positions. Its tensors must still
  /// fit.
  const ModelSpec* spec = nullptr;
};

/// A weight with a value that is not finite.
struct NonFinite {
  std::string tensor;
  std::int64_t index = 0;  ///< row-major
};

struct SessionOptions {
  std::int64_t rows = 1;      ///< B
  std::int64_t capacity = 0;  ///< tokens a row can hold
  DType cache = DType::f32;   ///< f32, f16, bf16, or i8 with a scale for every key and value
};

/// Families that load() runs, sorted; families() knows more of them.
[[nodiscard]] std::vector<std::string_view> runnable_families();

class Session;

class Model final : public Runtime {
 public:
  /// Reads config, weights and plan of a Hugging Face directory, a .gguf file (or any part of a split one) or
  /// a llama2.c .bin file (version 0). Weights are mapped. The pool must outlive the model. Throws FileError
  /// and SpecError: a missing, mis-shaped or mis-typed tensor is named with what was expected.
  [[nodiscard]] static std::unique_ptr<Model> load(const std::string& path, const LoadOptions& options,
                                                   ThreadPool& pool);
  ~Model() override;

  /// As its recipe computes it: llama.cpp has another GELU than BERT was published with.
  [[nodiscard]] const ModelSpec& spec() const noexcept;
  [[nodiscard]] const Recipe& recipe() const noexcept;
  [[nodiscard]] const Plan& plan() const noexcept;
  [[nodiscard]] std::int64_t weight_bytes() const noexcept;  ///< mapped and copied
  [[nodiscard]] std::int64_t parameters() const noexcept;    ///< elements, tied ones once
  [[nodiscard]] std::int64_t cache_bytes(const SessionOptions& options) const;
  /// Buffers of a session beside its caches.
  [[nodiscard]] std::int64_t workspace_bytes(const SessionOptions& options) const;
  [[nodiscard]] bool has_head() const noexcept;     ///< false: hidden states only (a bare encoder)
  [[nodiscard]] bool has_encoder() const noexcept;  ///< a decoder that reads an encoder's answer
  /// Tokens attend to later ones: a row is fed once and whole.
  [[nodiscard]] bool is_bidirectional() const noexcept;
  /// Last position that the embedding site has a row for; none without a table.
  [[nodiscard]] std::optional<std::int64_t> last_position() const noexcept;
  /// First weight that is not finite, in file order.
  [[nodiscard]] std::optional<NonFinite> first_non_finite() const;

  [[nodiscard]] std::string name() const override;
  [[nodiscard]] std::int64_t vocab() const override;
  /// As open_session with B taken from the first call.
  [[nodiscard]] std::unique_ptr<RuntimeSession> open(std::int64_t capacity) override;
  /// Caches are allocated and touched here. Throws std::out_of_range when capacity is past a table's
  /// end, SpecError for rows or capacity < 1 or a dtype that is no cache dtype.
  [[nodiscard]] std::unique_ptr<Session> open_session(const SessionOptions& options) const;

  struct State;

 private:
  explicit Model(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Tokens of several rows, one row after the other.
struct FeedCall {
  std::span<const std::int64_t> ids;         ///< [N] concatenated
  std::span<const std::int64_t> row_tokens;  ///< [B] tokens of each row, 0 allowed; sum N
  /// [axes * N], axis-major, or empty: every row counts on from its cache.
  std::span<const std::int64_t> positions;
  std::int64_t axes = 1;
  std::span<const std::int64_t> types{};  ///< [N] token types, or empty: 0 for all
};

/// Which tokens' logits are wanted.
enum class LogitsOf : std::uint8_t { all, last_of_row };

/// Receives hidden states [n, hidden] behind the last norm of the tokens first_token ... of the call. Valid
/// during the call only.
using StatesReader = std::function<void(std::int64_t first_token, View<const float, 2> states)>;

/// Receives logits [n, V] of the tokens first_token ... first_token + n - 1 of the call (LogitsOf::all), or
/// of the rows first_token ... of those rows that got tokens (last_of_row). Valid during the call only.
using LogitsReader = std::function<void(std::int64_t first_token, View<const float, 2> logits)>;

class Session final : public RuntimeSession {
 public:
  ~Session() override;
  /// Feeds tokens behind what the caches hold. Throws before anything is written: std::out_of_range "run:
  /// token 997 at row 1, position 3 is outside vocab 997", past the capacity, past a table's end; SpecError.
  /// No heap allocation for calls of one token a row.
  void feed(const FeedCall& call, LogitsOf wanted, const LogitsReader& reader);
  /// As feed(), with the hidden states of all tokens instead of logits.
  void feed_states(const FeedCall& call, const StatesReader& reader);
  /// Models with an encoder: what each row's decoder reads. Each row once, before it is fed; states, when
  /// given, receives the encoder's answer. SpecError where there is no encoder, or a row without tokens.
  void encode(const FeedCall& call, const StatesReader& states);
  void forward(const ForwardCall& call, View<float, 3> logits) override;
  [[nodiscard]] std::unique_ptr<RuntimeSession> fork() const override;

  [[nodiscard]] std::int64_t rows() const noexcept;
  [[nodiscard]] std::int64_t capacity() const noexcept;
  [[nodiscard]] std::int64_t tokens(std::int64_t row) const;         ///< held by the row's cache
  [[nodiscard]] std::int64_t next_position(std::int64_t row) const;  ///< largest position fed + 1, or 0
  /// Passes from here on hand their tensors to `sink` (null = none); layout [B, T, ...] padded on `padding`'s
  /// side, padding rows NaN. The sink must outlive its use.
  void set_trace(TraceSink* sink, Padding padding = Padding::right);

  struct State;

 private:
  friend class Model;
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// How a next token is drawn. temperature 0: the largest logit. Else softmax(logit / temperature) of the
/// top_k largest (0 = all), of which the fewest whose probabilities sum to top_p are kept. One seed gives
/// each row its own stream: a row's draw depends on seed, row and step alone.
struct Sampling {
  double temperature = 0;
  std::int64_t top_k = 0;
  double top_p = 1;
  std::uint64_t seed = 0;
};
/// SpecError: temperature < 0 or not finite, top_k < 0, top_p outside (0, 1].
void check_sampling(const Sampling& sampling);
/// The token of a row at a step by these rules; SpecError when no logit is comparable (all NaN).
[[nodiscard]] std::int64_t choose(View<const float, 1> logits, const Sampling& sampling, std::int64_t row,
                                  std::int64_t step);

/// Why a row's continuation ended.
enum class Stop : std::uint8_t { length, end_token, interrupted };

struct Continuation {
  std::vector<std::int64_t> ids;
  Stop stop = Stop::length;
};

struct ContinueOptions {
  std::int64_t tokens = 0;                   ///< to add to each row
  std::span<const std::int64_t> first;       ///< [B] the token chosen from the prompt's logits (step 0)
  std::span<const std::int64_t> end_tokens;  ///< a row ends after one of these
  Sampling sampling{};
  const std::atomic<bool>* interrupt = nullptr;  ///< set: rows end before the next token is computed
};
/// Called with each row's new token before the next is computed; the first ones too.
using TokenReader = std::function<void(std::int64_t row, std::int64_t id)>;

/// Continuation of every row of a session whose prompts were fed. Rows end on their own.
[[nodiscard]] std::vector<Continuation> continue_rows(Session& session, const ContinueOptions& options,
                                                      const TokenReader& reader);

/// The largest logit's id; equal ones by smaller id. SpecError when none is comparable (all NaN).
[[nodiscard]] std::int64_t choose_greedy(View<const float, 1> logits);

}  // namespace locant

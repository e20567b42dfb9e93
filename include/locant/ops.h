// SPDX-License-Identifier: Apache-2.0
// The operations of a forward pass: checked shapes and ids, run-time dispatch to the widest instruction
// set, work cut at fixed boundaries so that any number of threads gives identical bits. Each takes one
// call struct and a pool, allocates nothing, and throws before anything is written. Accumulation is f32 or
// wider. Bounds: tests/budgets.json, under the names given here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "locant/core.h"
#include "locant/plan.h"
#include "locant/threads.h"

namespace locant {

/// The instruction sets compiled in that this CPU has, best first ("AVX3_ZEN4", "AVX2", ...); the first
/// is used.
[[nodiscard]] std::vector<std::string> cpu_targets();

/// A weight as stored, row-major: f32, f16 or bf16. `data` may be unaligned for its dtype.
struct Matrix {
  const void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t row_stride = 0;  ///< elements
};
/// From a rank-2 tensor with unit column stride; SpecError otherwise, and for other dtypes.
[[nodiscard]] Matrix matrix(const TensorRef& tensor);

// ---------------------------------------------------------------------------------------------
// Lookup

/// out[t] = scale * table[ids[t]]. std::out_of_range "embed: token 32000 at row 3 is outside vocab 32000".
/// Error: exact for scale 1, else half an ulp of f32 (embed_scaled).
struct EmbedCall {
  View<const std::int64_t, 1> ids{};  ///< [T]
  Matrix table{};                     ///< [V, D]
  float scale = 1;
  View<float, 2> out{};  ///< [T, D]
};
void embed(const EmbedCall& call, ThreadPool& pool);

/// out[t] += table[rows[t]] (learned positions, token types). std::out_of_range as embed().
struct AddRowsCall {
  View<const std::int64_t, 1> rows{};  ///< [T]
  Matrix table{};                      ///< [R, D]
  View<float, 2> out{};                ///< [T, D]
};
void add_rows(const AddRowsCall& call, ThreadPool& pool);

// ---------------------------------------------------------------------------------------------
// Rotation

enum class Direction : std::uint8_t { forward, inverse };

/// Channels of a rotated head; the rest passes through.
struct RotateShape {
  Pairing read = Pairing::half;
  Pairing write = Pairing::half;
  std::int64_t offset = 0;  ///< first rotated channel; width is 2 * cos.extent(1)
  Direction direction = Direction::forward;
};

/// out = rotation of x by the tables of rotation_table(); inverse uses -sin. out may be x (in place) or must
/// not overlap it. Scalars of T: float, Half, BFloat16; the arithmetic is f32, one rounding to T. Error per
/// element (rotate_f32, _f16, _bf16): relative to the pair norm hypot(a, b).
template <class T>
struct RotateCall {
  View<const T, 3> x{};        ///< [T, heads, head_dim]
  View<const float, 2> cos{};  ///< [T, P]
  View<const float, 2> sin{};  ///< [T, P]
  RotateShape shape{};
  View<T, 3> out{};  ///< [T, heads, head_dim]
};
void rotate(const RotateCall<float>& call, ThreadPool& pool);
void rotate(const RotateCall<Half>& call, ThreadPool& pool);
void rotate(const RotateCall<BFloat16>& call, ThreadPool& pool);

// ---------------------------------------------------------------------------------------------
// Norms, activations, products

/// rms: x / sqrt(mean(x^2) + eps) * gain; layer: (x - mean) / sqrt(var + eps) * gain + bias.
/// out may be x. Error (norm): relative to the row's largest |x / deviation| * |gain| + |bias|.
struct NormCall {
  NormKind kind = NormKind::rms;
  double eps = 1e-5;
  View<const float, 2> x{};     ///< [T, D]
  View<const float, 1> gain{};  ///< [D]
  View<const float, 1> bias{};  ///< [D] or empty
  View<float, 2> out{};         ///< [T, D]
};
void normalize(const NormCall& call, ThreadPool& pool);

/// out = f(x), or f(x) * up when `up` is given. out may be x or up. Error (activation): relative to max(1,
/// |x|).
struct ActivateCall {
  Activation activation = Activation::silu;
  View<const float, 2> x{};   ///< [T, N]
  View<const float, 2> up{};  ///< [T, N] or empty
  View<float, 2> out{};       ///< [T, N]
};
void activate(const ActivateCall& call, ThreadPool& pool);

enum class Write : std::uint8_t { replace, add };

/// out = scale * (x weight^T) + bias, or added to out: a linear layer, and the language-model head straight
/// from the row-major embedding table. x must not overlap out. Weights are converted on the fly.
/// Error (project): relative to sum_k |x_k w_k|.
struct ProjectCall {
  View<const float, 2> x{};     ///< [T, K]
  Matrix weight{};              ///< [N, K]
  View<const float, 1> bias{};  ///< [N] or empty
  float scale = 1;
  Write write = Write::replace;
  View<float, 2> out{};  ///< [T, N]
};
void project(const ProjectCall& call, ThreadPool& pool);

// ---------------------------------------------------------------------------------------------
// Cache and attention

/// Keys or values of one sequence in one layer: [heads, capacity, width], f32, f16 or bf16.
struct CacheTensor {
  void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t heads = 0;
  std::int64_t capacity = 0;
  std::int64_t width = 0;
};

/// cache[g, first_slot + t] = x[t, g], rounded to the cache's dtype. std::out_of_range past the capacity.
struct StoreCall {
  View<const float, 3> x{};  ///< [T, kv_heads, width]
  CacheTensor cache{};
  std::int64_t first_slot = 0;
};
void store(const StoreCall& call, ThreadPool& pool);

/// Causal attention of one sequence: query t stands in slot first_slot + t and sees slots 0 .. first_slot +
/// t. score = scale * q.k + slope[head] * (key position - query position); softmax; weighted sum of values.
/// Query head h reads kv head h / (heads / kv_heads). No bias tensor is made.
/// Error (attend): relative to max |v|, on scores of up to +-50.
struct AttendCall {
  View<const float, 3> q{};  ///< [T, heads, head_dim]
  CacheTensor keys{};        ///< holds first_slot + T slots or more
  CacheTensor values{};
  std::int64_t first_slot = 0;
  float scale = 1;
  View<const float, 1> slopes{};                  ///< [heads] or empty (ALiBi)
  View<const std::int64_t, 1> query_positions{};  ///< [T], with slopes
  View<const std::int64_t, 1> key_positions{};    ///< [first_slot + T], with slopes
  View<float, 3> out{};                           ///< [T, heads, width of values]
  /// When not empty, receives the masked, biased scores [heads, T, first_slot + T]; unseen slots -inf.
  View<float, 3> scores{};
};
/// The calls are independent sequences; one fork for all of them.
void attend(std::span<const AttendCall> calls, ThreadPool& pool);

// ---------------------------------------------------------------------------------------------
// Behind the head

/// ln(sum exp(logits)), accumulated in f64; NaN when a logit is NaN.
[[nodiscard]] double log_sum_exp(View<const float, 1> logits) noexcept;

struct Candidate {
  std::int64_t id = 0;
  float logit = 0;
};
/// The min(out.size(), V) largest logits, best first, equal ones by smaller id; returns how many. NaN never
/// wins.
std::size_t top_candidates(View<const float, 1> logits, std::span<Candidate> out) noexcept;

/// Index of the first NaN or infinity in row-major order, or none. f64, f32, f16, bf16.
[[nodiscard]] std::optional<std::int64_t> first_non_finite(const TensorRef& tensor);

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// The operations of ops.h in double with plain loops: the oracle. No tables, dtypes or lines are shared with
// what it judges. Shapes are trusted; views may have any strides. out must not overlap an input.
#pragma once

#include <cstdint>
#include <span>

#include "locant/core.h"

namespace locant::reference {

/// `half` pairs channel i with i + pairs, `interleaved` 2i with 2i + 1.
enum class Layout : std::uint8_t { half, interleaved };

struct Rotation {
  Layout read = Layout::half;
  Layout write = Layout::half;
  std::int64_t offset = 0;
  double sign = 1;  ///< factor on sin
};
/// (a, b) -> (a cos - b sin, b cos + a sin); x, out [T, heads, head_dim], cos, sin [T, pairs] (Su et al.
/// 2021, eq. 34).
void rotate(View<const double, 3> x, View<const double, 2> cos, View<const double, 2> sin,
            const Rotation& rotation, View<double, 3> out);
/// The same by complex products: adjacent channels are one number, times e^(i angle) (Su et al. 2021, eq.
/// 16).
void rotate_complex(View<const double, 3> x, View<const double, 2> angle, View<double, 3> out);

/// x / sqrt(mean(x^2) + eps) * gain; x, out [D].
void rms_norm(View<const double, 1> x, View<const double, 1> gain, double eps, View<double, 1> out);
/// (x - mean) / sqrt(var + eps) * gain + bias; bias may be empty.
struct LayerNorm {
  View<const double, 1> gain{};
  View<const double, 1> bias{};
  double eps = 0;
};
void layer_norm(View<const double, 1> x, const LayerNorm& norm, View<double, 1> out);

[[nodiscard]] double silu(double x) noexcept;
[[nodiscard]] double gelu_erf(double x) noexcept;
[[nodiscard]] double gelu_tanh(double x) noexcept;
[[nodiscard]] double relu(double x) noexcept;
[[nodiscard]] double relu_squared(double x) noexcept;
[[nodiscard]] double quick_gelu(double x) noexcept;
/// (u + 1) g / (1 + exp(-1.702 g)), u = up within +-limit, g = gate up to limit.
[[nodiscard]] double clamped_swiglu(double gate, double up, double limit) noexcept;

/// out[t][n] = sum_k x[t][k] weight[n][k].
void project(View<const double, 2> x, View<const double, 2> weight, View<double, 2> out);

/// The slots that a query in slot s sees: 0 .. s; s - window + 1 .. s; the multiple of window at or below s
/// .. s; all; s - window .. s + window.
enum class Reach : std::uint8_t { past, window, chunk, all, around };

/// Attention: query t stands in slot first_slot + t.
struct Attention {
  View<const double, 3> q{};       ///< [T, heads, head_dim]
  View<const double, 3> keys{};    ///< [kv_heads, slots, head_dim]
  View<const double, 3> values{};  ///< [kv_heads, slots, width]
  std::int64_t first_slot = 0;
  Reach reach = Reach::past;
  std::int64_t window = 0;
  double scale = 1;
  double softcap = 0;                ///< 0 = none
  View<const double, 1> sinks{};     ///< [heads] or empty
  View<const double, 1> slopes{};    ///< [heads] or empty
  View<const double, 2> relative{};  ///< [heads, distances] or empty
  std::int64_t relative_zero = 0;
  View<const std::int64_t, 1> query_positions{};  ///< [T]
  View<const std::int64_t, 1> key_positions{};    ///< [slots]
  View<const double, 3> bias{};                   ///< [heads, T, slots] or empty
};
[[nodiscard]] bool sees(const Attention& attention, std::int64_t t, std::int64_t slot);
/// The score of query t, head h against a slot: scale q.k, softcapped, - slope |distance| + relative + bias.
[[nodiscard]] double score(const Attention& attention, std::int64_t t, std::int64_t h, std::int64_t slot);
/// out [T, heads, width].
void attend(const Attention& attention, View<double, 3> out);

[[nodiscard]] double log_sum_exp(std::span<const double> logits);

}  // namespace locant::reference

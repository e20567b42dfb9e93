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
/// Every operation of the process uses this one of cpu_targets(), "" = the best again: for tests, and to find
/// out whether a difference comes from an instruction set. Not while operations run. SpecError for another
/// name.
void use_cpu_target(std::string_view name);

/// A weight as stored, row-major: f32, f16 or bf16, or blocks. `data` may be unaligned for its dtype.
struct Matrix {
  const void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t row_stride = 0;  ///< elements
  /// Rows of blocks of this type instead of `dtype`; columns and row_stride are whole blocks.
  std::optional<GgmlType> blocks{};
};
/// The types of blocks that a Matrix may have: those that dequantize() knows, without f32, f16 and bf16.
[[nodiscard]] bool can_multiply(GgmlType type) noexcept;
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
  View<const float, 1> gain{};  ///< [D] or empty: ones
  View<const float, 1> bias{};  ///< [D] or empty
  View<float, 2> out{};         ///< [T, D]
};
void normalize(const NormCall& call, ThreadPool& pool);

/// out = f(x), or f(x) * up when `up` is given. out may be x or up. Error (activation): relative to max(1,
/// |x|, |f(x)|).
struct ActivateCall {
  Activation activation = Activation::silu;
  View<const float, 2> x{};   ///< [T, N]
  View<const float, 2> up{};  ///< [T, N] or empty; clamped_swiglu needs it
  float limit = 7;            ///< clamped_swiglu
  View<float, 2> out{};       ///< [T, N]
};
void activate(const ActivateCall& call, ThreadPool& pool);

enum class Write : std::uint8_t { replace, add };

/// Arithmetic of a product. bf16: x is rounded to bf16, products with weights that are bf16 already are
/// summed in f32; other weights are multiplied in f32. int8: rows of x are rounded to 8 bits in groups of 32
/// with an f32 factor each, and multiplied as whole numbers with weights of blocks; other weights are
/// multiplied in f32.
enum class Activations : std::uint8_t { f32, bf16, int8 };
[[nodiscard]] std::string_view name_of(Activations activations) noexcept;

/// out = scale * (x weight^T) + bias, or added to out: a linear layer, and the language-model head straight
/// from the row-major embedding table. x must not overlap out. Weights are converted on the fly, blocks to
/// exactly the values of dequantize(). Error: relative to sum_k |x_k w_k| (project); under bf16 the same
/// (project_bf16), where x, w and products below 2^-126 may count as zero; under int8 relative to sum over
/// groups of max |x| sum |w| (project_int8), and f32 sums of the parts scale q and minus of w (project); x
/// below 2^-119 count as zero, and what is not finite makes its token's row NaN.
struct ProjectCall {
  View<const float, 2> x{};     ///< [T, K]
  Matrix weight{};              ///< [N, K]
  View<const float, 1> bias{};  ///< [N] or empty
  float scale = 1;
  Write write = Write::replace;
  Activations activations = Activations::f32;
  View<float, 2> out{};  ///< [T, N]
};
void project(const ProjectCall& call, ThreadPool& pool);
/// Several at once, one fork for all of them, each with the bits it has alone. No out may overlap what
/// another call reads or writes.
void project(std::span<const ProjectCall> calls, ThreadPool& pool);

// ---------------------------------------------------------------------------------------------
// Cache and attention

/// Slots that share one entry of CacheTensor::norms.
inline constexpr std::int64_t kNormSlots = 64;

/// Keys or values of one sequence in one layer: [heads, capacity, width], f32, f16, bf16, or i8 with a scale
/// for every row.
struct CacheTensor {
  void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t heads = 0;
  std::int64_t capacity = 0;
  std::int64_t width = 0;
  /// i8 only, [heads, capacity]: an element is scale * q, scale = max |x| / 127 of its row.
  float* scales = nullptr;
  /// Null, or of keys [heads, ceil(capacity / kNormSlots)]: no key of these slots has a larger 2-norm.
  /// store() keeps it, attend() with slopes reads it to pass over slots whose weights are too small to count.
  float* norms = nullptr;
};

/// cache[g, first_slot + t] = x[t, g], rounded to the cache's dtype. std::out_of_range past the capacity.
/// Error under i8 (store_int8): relative to the row's max |x|; a row with a NaN or an infinity gets a NaN
/// scale.
struct StoreCall {
  View<const float, 3> x{};  ///< [T, kv_heads, width]
  CacheTensor cache{};
  std::int64_t first_slot = 0;
};
void store(const StoreCall& call, ThreadPool& pool);

/// rotate() of q in place, rotate() of k and store() of both k and v in one pass, with the same bits.
struct RotateStoreCall {
  View<float, 3> q{};          ///< [T, heads, head_dim]
  View<const float, 3> k{};    ///< [T, kv_heads, head_dim]
  View<const float, 3> v{};    ///< [T, kv_heads, width of values]
  View<const float, 2> cos{};  ///< [T, P]
  View<const float, 2> sin{};  ///< [T, P]
  RotateShape shape{};
  CacheTensor keys{};
  CacheTensor values{};
  std::int64_t first_slot = 0;
};
void rotate_store(const RotateStoreCall& call, ThreadPool& pool);

/// The slots that a query in slot s sees, of those that hold keys.
enum class Sees : std::uint8_t {
  past,    ///< 0 .. s
  window,  ///< s - window + 1 .. s
  chunk,   ///< from the last multiple of window up to s
  all,     ///< every slot, later ones too
  around,  ///< s - window .. s + window
};

/// Attention of one sequence: query t stands in slot first_slot + t. score = scale * q.k, softcapped, +
/// slope[head] * (key position - query position) + relative[head, key position - query position] +
/// bias[head, t, slot]; softmax, which a sink joins as one more logit without a value; weighted sum of
/// values. Query head h reads kv head h / (heads / kv_heads). No bias tensor is made.
/// Error (attend): relative to max |v|, on scores of up to +-50.
struct AttendCall {
  View<const float, 3> q{};  ///< [T, heads, head_dim]
  CacheTensor keys{};        ///< holds `slots` slots or more
  CacheTensor values{};
  std::int64_t first_slot = 0;
  std::int64_t slots = 0;  ///< that hold keys; 0 = first_slot + T. More or fewer than that under `all` only
  float scale = 1;
  Sees sees = Sees::past;
  std::int64_t window = 0;       ///< tokens >= 1; window, chunk and around only
  float softcap = 0;             ///< scores become softcap * tanh(score / softcap); 0 = none
  View<const float, 1> sinks{};  ///< [heads] or empty
  /// [heads] or empty (ALiBi). A key after its query counts as one before: -slope * |distance|.
  View<const float, 1> slopes{};
  View<const float, 2> relative{};  ///< [heads, R] or empty, by distance (T5); ends serve what is beyond
  std::int64_t relative_zero = 0;   ///< the column of distance 0
  View<const std::int64_t, 1> query_positions{};  ///< [T], with slopes or relative
  View<const std::int64_t, 1> key_positions{};    ///< [slots], with slopes or relative
  View<const float, 3> bias{};                    ///< [heads, T, slots] or empty
  View<float, 3> out{};                           ///< [T, heads, width of values]
  /// When not empty, receives the masked, biased scores [heads, T, slots]; unseen slots -inf.
  View<float, 3> scores{};
};
/// The calls are independent sequences; one fork for all of them.
void attend(std::span<const AttendCall> calls, ThreadPool& pool);

// ---------------------------------------------------------------------------------------------
// Rows: sums, factors, experts

/// out[t] += scale * x[t]; x must not overlap out. Exact to one rounding of the product and one of the sum.
struct AccumulateCall {
  View<const float, 2> x{};  ///< [T, D]
  float scale = 1;
  View<float, 2> out{};  ///< [T, D]
};
void accumulate(const AccumulateCall& call, ThreadPool& pool);

/// out[t] = factors[t] * x[t]; out may be x.
struct ScaleRowsCall {
  View<const float, 2> x{};        ///< [T, D]
  View<const float, 1> factors{};  ///< [T]
  View<float, 2> out{};            ///< [T, D]
};
void scale_rows(const ScaleRowsCall& call, ThreadPool& pool);

/// out[i] = min(max(x[i], -limit), limit); out may be x. NaN stays.
struct ClampCall {
  View<const float, 2> x{};
  float limit = 0;  ///< > 0
  View<float, 2> out{};
};
void clamp(const ClampCall& call, ThreadPool& pool);

/// out[rows[i]] += factors[i] * x[i], in the order of i (experts' answers back to their tokens).
struct ScatterRowsCall {
  View<const float, 2> x{};            ///< [n, D]
  View<const std::int64_t, 1> rows{};  ///< [n], each below T, no row twice
  View<const float, 1> factors{};      ///< [n]
  View<float, 2> out{};                ///< [T, D]
};
void scatter_rows(const ScatterRowsCall& call, ThreadPool& pool);

/// What stands for a group of experts when groups are chosen first.
enum class GroupScore : std::uint8_t { largest, two_largest };

/// ids[t], weights[t]: the k experts of a token, best first, equal ones by smaller id. correction is added to
/// the scores for choosing alone. Chosen weights are divided by their sum (+ 1e-20) when normalised, then
/// multiplied by scale.
struct RouteCall {
  View<const float, 2> logits{};  ///< [T, E]
  RouterScore score = RouterScore::softmax;
  View<const float, 1> correction{};  ///< [E] or empty
  std::int64_t groups = 1;            ///< E / groups neighbours are one
  std::int64_t chosen_groups = 1;     ///< experts outside the best groups are not chosen
  GroupScore group_score = GroupScore::largest;
  bool normalised = false;
  float scale = 1;
  View<std::int64_t, 2> ids{};  ///< [T, k]
  View<float, 2> weights{};     ///< [T, k]
};
void route(const RouteCall& call, ThreadPool& pool);

// ---------------------------------------------------------------------------------------------
// Behind the head

/// x[i] = cap * tanh(x[i] / cap).
struct SoftcapCall {
  View<float, 2> x{};
  float cap = 0;  ///< > 0
};
void softcap(const SoftcapCall& call, ThreadPool& pool);

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

// SPDX-License-Identifier: Apache-2.0
// Core vocabulary: dtypes, views, tensor references, the error types and the version.
// Standard library only. Shapes and strides are counted in elements, never in bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace locant {

/// "0.1.0"; the single source is `project(locant VERSION ...)`.
[[nodiscard]] std::string_view version() noexcept;

// ---------------------------------------------------------------------------------------------
// Errors. Each sentence is "who: rule, what we got", lower case, thrown before anything is written.

/// A config, spec, shape or argument that breaks a rule. Python: ValueError.
struct SpecError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

/// A file that cannot be read, written or believed. Python: OSError.
/// what() is "path: rule, what we got", with "at byte N" when an offset is known.
struct FileError : std::runtime_error {
  static constexpr std::int64_t kNoOffset = -1;
  FileError(std::string path_, const std::string& cause, std::int64_t offset_ = kNoOffset);
  std::string path;
  std::int64_t offset;  ///< byte in the file, or kNoOffset
};

// An id, row or position outside its table is std::out_of_range. Python: IndexError.

// ---------------------------------------------------------------------------------------------
// Dtypes

enum class DType : std::uint8_t { f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean };

[[nodiscard]] std::size_t size_of(DType dtype) noexcept;       ///< bytes of one element
[[nodiscard]] std::string_view name_of(DType dtype) noexcept;  ///< "f32", "bf16", "bool", ...
[[nodiscard]] bool is_float(DType dtype) noexcept;

/// IEEE binary16 as a storage type: bits only, arithmetic happens in f32.
struct Half {
  std::uint16_t bits;
};
/// bfloat16 as a storage type.
struct BFloat16 {
  std::uint16_t bits;
};

/// Round to nearest, ties to even; subnormals, infinities and NaN (stays NaN) are kept. Exact for
/// all inputs; Highway 1.0.3's own demotion truncates bf16, so it is not used.
[[nodiscard]] Half half_from_f32(float x) noexcept;
[[nodiscard]] BFloat16 bfloat16_from_f32(float x) noexcept;
[[nodiscard]] float f32_from(Half x) noexcept;      ///< exact
[[nodiscard]] float f32_from(BFloat16 x) noexcept;  ///< exact

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<Half> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::u8;
};

// ---------------------------------------------------------------------------------------------
// Views

/// A pointer with shape and strides (elements, may be 0 or negative); owns nothing. The names are
/// those of std::mdspan. Copying a View never copies data.
template <class T, std::size_t Rank>
class View {
 public:
  using Index = std::int64_t;
  using Shape = std::array<Index, Rank>;

  constexpr View() = default;
  /// Row-major and contiguous.
  constexpr View(T* data, const Shape& shape) : data_(data), shape_(shape) {
    Index step = 1;
    for (std::size_t axis = Rank; axis-- > 0;) {
      strides_[axis] = step;
      step *= shape_[axis];
    }
  }
  constexpr View(T* data, const Shape& shape, const Shape& strides)
      : data_(data), shape_(shape), strides_(strides) {}

  // NOLINTBEGIN(google-explicit-constructor): a view is as good as a view of const
  /// View<T> converts to View<const T>.
  template <class U>
  requires(std::is_same_v<const U, T> && !std::is_same_v<U, T>) constexpr View(const View<U, Rank>& other)
      : data_(other.data_handle()), shape_(other.shape()), strides_(other.strides()) {}
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] constexpr T* data_handle() const noexcept { return data_; }
  [[nodiscard]] constexpr Index extent(std::size_t axis) const noexcept { return shape_[axis]; }
  [[nodiscard]] constexpr Index stride(std::size_t axis) const noexcept { return strides_[axis]; }
  [[nodiscard]] constexpr const Shape& shape() const noexcept { return shape_; }
  [[nodiscard]] constexpr const Shape& strides() const noexcept { return strides_; }
  [[nodiscard]] constexpr Index size() const noexcept {
    Index n = 1;
    for (const Index e : shape_) n *= e;
    return n;
  }
  [[nodiscard]] constexpr bool empty() const noexcept { return size() == 0; }

  /// Unchecked element access.
  template <class... I>
  requires(sizeof...(I) == Rank) constexpr T& operator()(I... index) const noexcept {
    const std::array<Index, Rank> at{static_cast<Index>(index)...};
    Index offset = 0;
    for (std::size_t axis = 0; axis < Rank; ++axis) offset += at[axis] * strides_[axis];
    return data_[offset];
  }

  /// Rows [first, first + count) of axis 0.
  [[nodiscard]] constexpr View rows(Index first, Index count) const noexcept {
    View part = *this;
    part.data_ += first * strides_[0];
    part.shape_[0] = count;
    return part;
  }

 private:
  T* data_ = nullptr;
  Shape shape_{};
  Shape strides_{};
};

/// A typed-at-run-time, read-only tensor at an edge of the library; owns nothing.
struct TensorRef {
  static constexpr std::size_t kMaxRank = 6;
  const void* data = nullptr;
  DType dtype = DType::f32;
  std::size_t rank = 0;
  std::array<std::int64_t, kMaxRank> shape{};
  std::array<std::int64_t, kMaxRank> strides{};  ///< elements

  TensorRef() = default;
  /// Row-major and contiguous.
  TensorRef(const void* data_, DType dtype_, std::initializer_list<std::int64_t> shape_);

  template <class T, std::size_t Rank>
  // NOLINTNEXTLINE(google-explicit-constructor): a view is a tensor reference
  TensorRef(const View<T, Rank>& view)
      : data(view.data_handle()), dtype(DTypeOf<std::remove_const_t<T>>::value), rank(Rank) {
    static_assert(Rank <= kMaxRank);
    for (std::size_t axis = 0; axis < Rank; ++axis) {
      shape[axis] = view.extent(axis);
      strides[axis] = view.stride(axis);
    }
  }
  [[nodiscard]] std::int64_t size() const noexcept;   ///< elements
  [[nodiscard]] bool is_contiguous() const noexcept;  ///< row-major without gaps
  [[nodiscard]] std::string shape_text() const;       ///< "[2,7,64]"
};

// ---------------------------------------------------------------------------------------------
// Words that what a model says (spec) and what is computed (ops) share

enum class NormKind : std::uint8_t { rms, layer };
[[nodiscard]] std::string_view name_of(NormKind kind) noexcept;

enum class Activation : std::uint8_t {
  silu,       ///< x / (1 + exp(-x))
  gelu_erf,   ///< x/2 (1 + erf(x / sqrt 2))
  gelu_tanh,  ///< x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
  relu,
  relu_squared,  ///< max(x, 0)^2
  quick_gelu,    ///< x / (1 + exp(-1.702 x))
  tanh,
  /// (up + 1) gate / (1 + exp(-1.702 gate)), up held at +-limit and gate at limit from above (gpt-oss)
  clamped_swiglu,
};
[[nodiscard]] std::string_view name_of(Activation activation) noexcept;

/// How a router turns logits into the weights of the chosen experts.
enum class RouterScore : std::uint8_t {
  softmax,         ///< over all experts, then the largest are taken
  softmax_chosen,  ///< the largest logits are taken, softmax over those
  sigmoid,         ///< of each logit (DeepSeek-V3)
};
[[nodiscard]] std::string_view name_of(RouterScore score) noexcept;

// ---------------------------------------------------------------------------------------------
// Storage in blocks

/// How a tensor's elements are stored, by the number that files hold. Elements stand in blocks along a row.
enum class GgmlType : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q8_1 = 9,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  q8_k = 15,
  iq2_xxs = 16,
  iq2_xs = 17,
  iq3_xxs = 18,
  iq1_s = 19,
  iq4_nl = 20,
  iq3_s = 21,
  iq2_s = 22,
  iq4_xs = 23,
  i8 = 24,
  i16 = 25,
  i32 = 26,
  i64 = 27,
  f64 = 28,
  iq1_m = 29,
  bf16 = 30,
  tq1_0 = 34,
  tq2_0 = 35,
  mxfp4 = 39,
  nvfp4 = 40,
  q1_0 = 41,
};
[[nodiscard]] std::optional<GgmlType> ggml_type_of(std::uint32_t number) noexcept;  ///< none when unknown
[[nodiscard]] std::string_view name_of(GgmlType type) noexcept;                     ///< "Q8_0"
[[nodiscard]] std::int64_t block_elements(GgmlType type) noexcept;    ///< 32 for q8_0, 1 for f32
[[nodiscard]] std::int64_t block_bytes(GgmlType type) noexcept;       ///< 34 for q8_0, 4 for f32
[[nodiscard]] std::optional<DType> dtype_of(GgmlType type) noexcept;  ///< none for blocks
/// The type that dtype_of() gives back; none for u8 and bool.
[[nodiscard]] std::optional<GgmlType> ggml_type_of(DType dtype) noexcept;

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// The rules that operations share, as sentences, and the cut of work into pieces.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "locant/core.h"
#include "locant/ops.h"
#include "locant/threads.h"

namespace locant::check_ops {

/// Throws SpecError "who: rule, what we got".
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> sentence, Args&&... args) {
  throw SpecError(fmt::format(sentence, std::forward<Args>(args)...));
}

template <class T, std::size_t Rank>
[[nodiscard]] std::string text(const View<T, Rank>& view) {
  std::string s = "[";
  for (std::size_t axis = 0; axis < Rank; ++axis)
    s += fmt::format("{}{}", axis == 0 ? "" : ",", view.extent(axis));
  return s + "]";
}

/// Where a tensor lies in memory: the bytes of its rows, and the rows' step.
struct Extent {
  std::uintptr_t first = 0;  ///< address of the lowest byte
  std::uintptr_t last = 0;   ///< address behind the highest byte
  std::uintptr_t row = 0;    ///< bytes one step of axis 0 covers without its stride
  std::uintptr_t step = 0;   ///< bytes between rows; 0 when there is one row, or none go upwards
};
[[nodiscard]] Extent extent_of(const void* data, std::size_t item, const std::int64_t* shape,
                               const std::int64_t* strides, std::size_t rank) noexcept;
template <class T, std::size_t Rank>
[[nodiscard]] Extent extent_of(const View<T, Rank>& view) noexcept {
  return extent_of(view.data_handle(), sizeof(T), view.shape().data(), view.strides().data(), Rank);
}
[[nodiscard]] Extent extent_of(const Matrix& matrix) noexcept;
/// Of elements of one row, whole blocks.
[[nodiscard]] std::int64_t bytes_of(const Matrix& matrix, std::int64_t elements) noexcept;
/// Whether two tensors share a byte. Interleaved rows of one step are told apart; other strides by their
/// range.
[[nodiscard]] bool overlap(const Extent& a, const Extent& b) noexcept;

/// A view to read: extents of 0 or more, data where it holds something, and a last stride of 1.
template <class T, std::size_t Rank>
void readable(std::string_view who, std::string_view name, const View<T, Rank>& view) {
  for (std::size_t axis = 0; axis < Rank; ++axis) {
    if (view.extent(axis) < 0) fail("{}: {} is {}, an extent is negative", who, name, text(view));
  }
  if (view.empty()) return;
  if (view.data_handle() == nullptr) fail("{}: {} is {} without data", who, name, text(view));
  if (view.extent(Rank - 1) != 1 && view.stride(Rank - 1) != 1)
    fail("{}: the last axis of {} has stride {}, expected 1", who, name, view.stride(Rank - 1));
}

/// A view to write: readable, and no element is reached twice.
template <class T, std::size_t Rank>
void writable(std::string_view who, std::string_view name, const View<T, Rank>& view) {
  readable(who, name, view);
  if (view.empty()) return;
  std::int64_t span = view.extent(Rank - 1);
  // Axes of a writable view nest: a step of an outer axis clears everything inside it, or the other way
  // round.
  std::array<std::size_t, Rank> order{};
  for (std::size_t i = 0; i < Rank; ++i) order[i] = i;
  const auto size = [&](std::size_t axis) {
    return view.stride(axis) < 0 ? -view.stride(axis) : view.stride(axis);
  };
  for (std::size_t i = 1; i + 1 < Rank; ++i) {
    for (std::size_t j = i; j > 0 && size(order[j - 1]) < size(order[j]); --j)
      std::swap(order[j - 1], order[j]);
  }
  for (std::size_t i = Rank - 1; i-- > 0;) {
    const std::size_t axis = order[i];
    if (view.extent(axis) == 1) continue;
    if (size(axis) < span)
      fail("{}: {} writes an element twice, stride {} of axis {} covers less than {}", who, name,
           view.stride(axis), axis, span);
    span += (view.extent(axis) - 1) * size(axis);
  }
}

/// `shape` with the names of its axes; the text is made only when it is needed.
template <std::size_t Rank>
struct Expected {
  std::array<std::int64_t, Rank> shape;
  std::array<std::string_view, Rank> axes;
  [[nodiscard]] std::string text() const {
    std::string s = "[";
    for (std::size_t i = 0; i < Rank; ++i) s += fmt::format("{}{}={}", i == 0 ? "" : ", ", axes[i], shape[i]);
    return s + "]";
  }
};

template <class T, std::size_t Rank>
void has_shape(std::string_view who, std::string_view name, const View<T, Rank>& view,
               const Expected<Rank>& expected) {
  if (view.shape() != expected.shape)
    fail("{}: {} is {}, expected {}", who, name, text(view), expected.text());
}

/// f32, f16 or bf16.
[[nodiscard]] bool is_storable(DType dtype) noexcept;
/// A weight: f32, f16, bf16 or whole blocks, rows that follow each other, data where it holds something.
void weight(std::string_view who, std::string_view name, const Matrix& matrix);
/// [count] without gaps.
void vector(std::string_view who, std::string_view name, const View<const float, 1>& view, std::int64_t count,
            std::string_view unit);

template <class T, std::size_t Rank, class U>
[[nodiscard]] bool same_place(const View<T, Rank>& a, const View<U, Rank>& b) noexcept {
  return static_cast<const void*>(a.data_handle()) == static_cast<const void*>(b.data_handle()) &&
         a.shape() == b.shape() && a.strides() == b.strides();
}

[[nodiscard]] const std::byte* row_of(const Matrix& matrix, std::int64_t row) noexcept;

/// Runs body(0) ... body(pieces - 1); work below some microseconds (in elements touched) stays on this
/// thread.
template <class Body>
void run_pieces(ThreadPool& pool, std::int64_t pieces, std::int64_t work, Body&& body) {
  constexpr std::int64_t kWorthAFork = 1 << 15;
  if (pieces > 1 && work >= kWorthAFork && pool.size() > 1) {
    pool.run(pieces, body);
    return;
  }
  for (std::int64_t piece = 0; piece < pieces; ++piece) body(piece);
}

/// Whether an output of so many elements is more than the caches of a core's share hold, so that it is stored
/// around them.
template <class T>
[[nodiscard]] constexpr bool is_large(std::int64_t elements) noexcept {
  constexpr std::int64_t kBytes = 16 << 20;
  return elements >= kBytes / static_cast<std::int64_t>(sizeof(T));
}

[[nodiscard]] constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) noexcept {
  return (a + b - 1) / b;
}

}  // namespace locant::check_ops

// SPDX-License-Identifier: Apache-2.0
// A caller's tensor through DLPack, or the buffer protocol: read and written where it lies, never copied.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "bindings.h"

namespace locant::python {

/// Holds the caller's memory while a View of it is used. Errors are SpecError "who: rule, what we got".
class Array {
 public:
  /// Throws SpecError for what is no array on the CPU.
  static Array to_read(nb::handle object, std::string_view who, std::string_view name);
  /// ... and for what cannot be written.
  static Array to_write(nb::handle object, std::string_view who, std::string_view name);

  [[nodiscard]] const TensorRef& ref() const noexcept { return ref_; }
  [[nodiscard]] std::size_t rank() const noexcept { return ref_.rank; }
  [[nodiscard]] std::int64_t extent(std::size_t axis) const { return ref_.shape[axis]; }

  /// The tensor itself; its dtype and rank must be those of the view.
  template <class T, std::size_t Rank>
  [[nodiscard]] View<T, Rank> view() const {
    expect(DTypeOf<std::remove_const_t<T>>::value);
    if (ref_.rank != Rank) wrong_rank(std::to_string(Rank));
    return reshaped<T, Rank>();
  }
  /// Leading axes as one: [..., columns] as [rows, columns]. They must lie without gaps.
  template <class T>
  [[nodiscard]] View<T, 2> rows() const {
    expect(DTypeOf<std::remove_const_t<T>>::value);
    if (ref_.rank == 0) wrong_rank("1 or more");
    if (ref_.rank == 2) return reshaped<T, 2>();
    need_contiguous();
    const std::int64_t columns = ref_.shape[ref_.rank - 1];
    std::int64_t count = 1;
    for (std::size_t axis = 0; axis + 1 < ref_.rank; ++axis) count *= ref_.shape[axis];
    return View<T, 2>(data<T>(), {count, columns});
  }
  /// All elements in one row; they must lie without gaps.
  template <class T>
  [[nodiscard]] View<T, 1> flat() const {
    expect(DTypeOf<std::remove_const_t<T>>::value);
    if (ref_.rank == 1) return reshaped<T, 1>();
    need_contiguous();
    return View<T, 1>(data<T>(), {ref_.size()});
  }
  /// Part `index` of axis 0, one rank lower.
  template <class T, std::size_t Rank>
  [[nodiscard]] View<T, Rank> part(std::int64_t index) const {
    expect(DTypeOf<std::remove_const_t<T>>::value);
    if (ref_.rank != Rank + 1) wrong_rank(std::to_string(Rank + 1));
    std::array<std::int64_t, Rank> shape{};
    std::array<std::int64_t, Rank> strides{};
    for (std::size_t axis = 0; axis < Rank; ++axis) {
      shape[axis] = ref_.shape[axis + 1];
      strides[axis] = ref_.strides[axis + 1];
    }
    return View<T, Rank>(data<T>() + index * ref_.strides[0], shape, strides);
  }
  void need_contiguous() const;
  void expect(DType dtype) const;
  [[noreturn]] void wrong_rank(std::string_view expected) const;

 private:
  Array(nb::ndarray<nb::ro> held, std::string_view who, std::string_view name);

  template <class T>
  [[nodiscard]] T* data() const {
    return static_cast<T*>(const_cast<void*>(ref_.data));
  }
  template <class T, std::size_t Rank>
  [[nodiscard]] View<T, Rank> reshaped() const {
    std::array<std::int64_t, Rank> shape{};
    std::array<std::int64_t, Rank> strides{};
    for (std::size_t axis = 0; axis < Rank; ++axis) {
      shape[axis] = ref_.shape[axis];
      strides[axis] = ref_.strides[axis];
    }
    return View<T, Rank>(data<T>(), shape, strides);
  }

  nb::ndarray<nb::ro> held_;
  TensorRef ref_;
  std::string who_;
  std::string name_;
};

}  // namespace locant::python

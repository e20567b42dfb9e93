// SPDX-License-Identifier: Apache-2.0
#include "arrays.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace locant::python {
namespace {

std::string kind_of(nb::handle object) {
  std::string kind = nb::cast<std::string>(nb::str(object.type().attr("__name__")));
  if (nb::hasattr(object, "device"))
    kind += fmt::format(" on {}", nb::cast<std::string>(nb::str(nb::handle(object.attr("device")))));
  return kind;
}

std::optional<DType> dtype_of(nb::dlpack::dtype dtype) {
  if (dtype.lanes != 1) return std::nullopt;
  const auto code = static_cast<nb::dlpack::dtype_code>(dtype.code);
  const int bits = dtype.bits;
  using Code = nb::dlpack::dtype_code;
  if (code == Code::Float && bits == 64) return DType::f64;
  if (code == Code::Float && bits == 32) return DType::f32;
  if (code == Code::Float && bits == 16) return DType::f16;
  if (code == Code::Bfloat && bits == 16) return DType::bf16;
  if (code == Code::Int && bits == 64) return DType::i64;
  if (code == Code::Int && bits == 32) return DType::i32;
  if (code == Code::Int && bits == 16) return DType::i16;
  if (code == Code::Int && bits == 8) return DType::i8;
  if (code == Code::UInt && bits == 8) return DType::u8;
  if (code == Code::Bool && bits == 8) return DType::boolean;
  return std::nullopt;
}

/// Whether torch would lose a gradient here.
bool wants_gradient(nb::handle object) {
  return nb::hasattr(object, "requires_grad") && nb::cast<bool>(object.attr("requires_grad")) &&
         nb::cast<bool>(nb::module_::import_("torch").attr("is_grad_enabled")());
}

template <class Held>
Held imported(nb::handle object, std::string_view who, std::string_view name, std::string_view what) {
  if (wants_gradient(object)) {
    throw SpecError(
        fmt::format("{}: {} requires a gradient, which no operation gives; detach it, or use torch.no_grad()",
                    who, name));
  }
  Held held;
  if (!nb::try_cast<Held>(object, held, false)) {
    PyErr_Clear();
    throw SpecError(fmt::format("{}: {} must be {} on the CPU, got {}", who, name, what, kind_of(object)));
  }
  if (held.device_type() != nb::device::cpu::value)
    throw SpecError(fmt::format("{}: {} must be {} on the CPU, got {}", who, name, what, kind_of(object)));
  return held;
}

}  // namespace

Array Array::to_read(nb::handle object, std::string_view who, std::string_view name) {
  return {imported<nb::ndarray<nb::ro>>(object, who, name, "an array"), who, name};
}

Array Array::to_write(nb::handle object, std::string_view who, std::string_view name) {
  const auto held = imported<nb::ndarray<>>(object, who, name, "an array that can be written");
  return {nb::ndarray<nb::ro>(held), who, name};
}

Array::Array(nb::ndarray<nb::ro> held, std::string_view who, std::string_view name)
    : held_(std::move(held)), who_(who), name_(name) {
  const std::optional<DType> dtype = dtype_of(held_.dtype());
  if (!dtype) throw SpecError(fmt::format("{}: {} has a dtype that no operation takes", who_, name_));
  if (held_.ndim() > TensorRef::kMaxRank)
    throw SpecError(
        fmt::format("{}: {} has {} axes, {} at most", who_, name_, held_.ndim(), TensorRef::kMaxRank));
  ref_.dtype = *dtype;
  ref_.rank = held_.ndim();
  for (std::size_t axis = 0; axis < ref_.rank; ++axis) {
    ref_.shape[axis] = static_cast<std::int64_t>(held_.shape(axis));
    ref_.strides[axis] = held_.stride(axis);
  }
  ref_.data = static_cast<const std::byte*>(held_.data_handle()) + held_.byte_offset();
}

void Array::need_contiguous() const {
  if (!ref_.is_contiguous())
    throw SpecError(fmt::format("{}: {} is {} with gaps or turned axes, expected row-major (contiguous())",
                                who_, name_, ref_.shape_text()));
}

void Array::expect(DType dtype) const {
  if (ref_.dtype != dtype)
    throw SpecError(
        fmt::format("{}: {} is {}, expected {}", who_, name_, name_of(ref_.dtype), name_of(dtype)));
}

void Array::wrong_rank(std::string_view expected) const {
  throw SpecError(fmt::format("{}: {} is {}, expected {} axes", who_, name_, ref_.shape_text(), expected));
}

}  // namespace locant::python

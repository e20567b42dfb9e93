// SPDX-License-Identifier: Apache-2.0
// trace.h: a trace file read back.
#include "locant/trace.h"

#include <fmt/format.h>

#include <algorithm>

#include "bindings.h"

namespace locant::python {
namespace {

nb::dlpack::dtype dtype_of(DType dtype) {
  using Code = nb::dlpack::dtype_code;
  const auto make = [&](Code code) {
    return nb::dlpack::dtype{static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(8 * size_of(dtype)),
                             1};
  };
  if (is_float(dtype)) return make(Code::Float);
  if (dtype == DType::boolean) return make(Code::Bool);
  return make(dtype == DType::u8 ? Code::UInt : Code::Int);
}

nb::object tensor_of(nb::handle self, std::string_view name) {
  const auto& reader = nb::cast<const TraceReader&>(self);
  const TensorRef tensor = reader.find(name);
  const auto names = reader.names();
  if (std::find(names.begin(), names.end(), name) == names.end())
    throw nb::key_error(fmt::format("trace: there is no tensor {}", name).c_str());
  std::vector<std::size_t> shape;
  for (std::size_t axis = 0; axis < tensor.rank; ++axis)
    shape.push_back(static_cast<std::size_t>(tensor.shape[axis]));
  if (tensor.dtype == DType::bf16) {  // numpy has none
    const auto* const bits = static_cast<const BFloat16*>(tensor.data);
    std::vector<float> values;
    values.reserve(static_cast<std::size_t>(tensor.size()));
    for (std::int64_t i = 0; i < tensor.size(); ++i) values.push_back(f32_from(bits[i]));
    return numpy_of(std::move(values), shape);
  }
  return nb::cast(nb::ndarray<nb::numpy, nb::ro>(tensor.data, shape.size(), shape.data(), self, nullptr,
                                                 dtype_of(tensor.dtype)));
}

}  // namespace

void bind_trace(nb::module_& m) {
  nb::class_<TraceReader>(m, "TraceReader", "A trace file: tensors by canonical name, mapped and checked.")
      .def(nb::init<const std::string&>(), nb::arg("path"), "FileError for what is no trace.")
      .def_prop_ro("names", &TraceReader::names,
                   "In the order of the file; a later pass stands behind \"step.N/\".")
      .def_prop_ro("steps", &TraceReader::steps, "Passes recorded, 1 or more.")
      .def("metadata", &TraceReader::metadata, nb::arg("key"), "\"\" when absent.")
      .def("__getitem__", tensor_of, nb::arg("name"),
           nb::sig("def __getitem__(self, name: str) -> numpy.typing.NDArray[typing.Any]"),
           "A read-only numpy array on the file's memory (bf16: a copy in f32). KeyError when absent.")
      .def("__contains__",
           [](const TraceReader& r, std::string_view name) {
             const auto names = r.names();
             return std::find(names.begin(), names.end(), name) != names.end();
           })
      .def("__len__", [](const TraceReader& r) { return r.names().size(); });
}

}  // namespace locant::python

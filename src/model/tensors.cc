// SPDX-License-Identifier: Apache-2.0
#include "model/tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/convert.h"
#include "core/mapped_file.h"
#include "locant/formats.h"

namespace locant {
namespace {

std::int64_t row_bytes(const Matrix& matrix) noexcept {
  if (matrix.blocks) return matrix.row_stride / block_elements(*matrix.blocks) * block_bytes(*matrix.blocks);
  return matrix.row_stride * static_cast<std::int64_t>(size_of(matrix.dtype));
}

const std::byte* row_at(const Matrix& matrix, std::int64_t row) noexcept {
  return static_cast<const std::byte*>(matrix.data) + row * row_bytes(matrix);
}

}  // namespace

void read_row(const Matrix& matrix, std::int64_t row, float* out) {
  if (matrix.blocks) {
    dequantize(*matrix.blocks, row_at(matrix, row), matrix.columns, out);
  } else {
    convert_row(row_at(matrix, row), matrix.dtype, out, DType::f32, matrix.columns);
  }
}

namespace {

// "model.layers.61.eh_proj.weight" of a model with 61 layers or fewer.
bool is_of_later_layer(std::string_view name, const FamilyWeights& names, std::int64_t layers) {
  for (const std::string_view prefix : names.prefixes) {
    if (!name.starts_with(prefix) || !name.substr(prefix.size()).starts_with(names.layers)) continue;
    const std::string_view rest = name.substr(prefix.size() + names.layers.size());
    std::int64_t index = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), index);
    if (error == std::errc() && end != rest.data() + rest.size() && *end == '.' && index >= layers)
      return true;
  }
  return false;
}

bool is_weight(const SourceTensor& tensor) noexcept {
  if (tensor.blocks) return can_multiply(*tensor.blocks);
  return tensor.dtype == DType::f32 || tensor.dtype == DType::f16 || tensor.dtype == DType::bf16;
}

}  // namespace

Matrix rows_of(const Matrix& matrix, std::int64_t first, std::int64_t rows) noexcept {
  Matrix part = matrix;
  part.data = row_at(matrix, first);
  part.rows = rows;
  return part;
}

Matrix alternate_rows(const Matrix& matrix, std::int64_t first) noexcept {
  Matrix part = rows_of(matrix, first, matrix.rows / 2);
  part.row_stride *= 2;
  return part;
}

std::string Tensors::pick(const std::string& at, std::string_view names) const {
  const std::size_t bar = names.find('|');
  std::string first = at + std::string(names.substr(0, bar));
  if (bar == std::string_view::npos || has(first + ".weight")) return first;
  const std::string second = at + std::string(names.substr(bar + 1));
  return has(second + ".weight") ? second : first;
}

const SourceTensor& Tensors::take(const std::string& name, std::initializer_list<Shape> shapes) {
  const SourceTensor* const found = weights_.source.find(name);
  const std::string expected = shape_text(*shapes.begin());
  if (found == nullptr) {
    throw SpecError(fmt::format("{}: {} {} must be there for a {}, it is missing", spec_.path, name, expected,
                                spec_.family));
  }
  if (std::find(shapes.begin(), shapes.end(), found->shape) == shapes.end()) {
    throw SpecError(fmt::format("{}: {} must be {} by the config, got {}", found->path, name, expected,
                                shape_text(found->shape)));
  }
  if (!is_weight(*found)) {
    throw SpecError(fmt::format("{}: {} must be {}, got {}", found->path, name,
                                found->blocks ? "in blocks that run multiplies" : "f32, f16 or bf16",
                                found->stored_text()));
  }
  if (taken_.insert(name).second) weights_.parameters += found->size();
  return *found;
}

DType Tensors::kept(const Matrix& source) const noexcept {
  switch (storage_) {
    case WeightStorage::f32:
      return DType::f32;
    case WeightStorage::f16:
      return DType::f16;
    case WeightStorage::bf16:
      return DType::bf16;
    case WeightStorage::as_stored:
      break;
  }
  return source.dtype;
}

float* Tensors::room(std::int64_t floats) {
  const std::size_t bytes = static_cast<std::size_t>(floats) * sizeof(float);
  weights_.bytes += static_cast<std::int64_t>(bytes);
  weights_.copied_bytes += static_cast<std::int64_t>(bytes);
  return weights_.copies.emplace_back(bytes).as<float>();
}

// `source` is [rows, columns] as it lies in the file; the result is [out, in].
Matrix Tensors::stored_as(const Matrix& source, LinearLayout layout) {
  const DType dtype = kept(source);
  const bool turned = layout == LinearLayout::in_out;
  const bool converted = source.blocks ? storage_ != WeightStorage::as_stored : dtype != source.dtype;
  if (!converted && !turned) {
    const std::int64_t bytes = source.rows * row_bytes(source);
    weights_.bytes += bytes;
    // A first token must not wait for the disk, nor for thousands of page faults.
    touch_pages(source.data, bytes);
    return source;
  }
  const std::int64_t rows = turned ? source.columns : source.rows;
  const std::int64_t columns = turned ? source.rows : source.columns;
  const std::size_t item = size_of(dtype);
  const std::size_t bytes = static_cast<std::size_t>(rows * columns) * item;
  Buffer& copy = weights_.copies.emplace_back(bytes);
  auto* const to = copy.as<std::byte>();
  std::vector<float> row(static_cast<std::size_t>(source.columns));
  for (std::int64_t r = 0; r < source.rows; ++r) {
    if (!turned && !source.blocks) {
      convert_row(row_at(source, r), source.dtype, to + static_cast<std::size_t>(r * columns) * item, dtype,
                  columns);
      continue;
    }
    read_row(source, r, row.data());
    if (!turned) {
      convert_row(row.data(), DType::f32, to + static_cast<std::size_t>(r * columns) * item, dtype, columns);
      continue;
    }
    for (std::int64_t c = 0; c < source.columns; ++c) {
      convert_row(row.data() + c, DType::f32, to + static_cast<std::size_t>(c * columns + r) * item, dtype,
                  1);
    }
  }
  weights_.bytes += static_cast<std::int64_t>(bytes);
  weights_.copied_bytes += static_cast<std::int64_t>(bytes);
  return {.data = copy.data(), .dtype = dtype, .rows = rows, .columns = columns, .row_stride = columns};
}

Matrix Tensors::matrix(const std::string& name, std::int64_t out, std::int64_t in, LinearLayout layout) {
  // a matrix of one row may be written as a vector
  const Shape flat = out == 1 ? Shape{in} : Shape{out, in};
  const SourceTensor& tensor =
      layout == LinearLayout::in_out ? take(name, {{in, out}}) : take(name, {{out, in}, flat});
  return stored_as(tensor.matrix(), layout);
}

std::vector<Matrix> Tensors::stacked(const std::string& name, std::int64_t count, const Shape& shape,
                                     LinearLayout layout) {
  const std::int64_t rows = shape[0];
  const SourceTensor& tensor = take(name, {{count, rows, shape[1]}});
  const Matrix whole = tensor.matrix();
  std::vector<Matrix> parts;
  parts.reserve(static_cast<std::size_t>(count));
  for (std::int64_t part = 0; part < count; ++part)
    parts.push_back(stored_as(rows_of(whole, part * rows, rows), layout));
  return parts;
}

View<const float, 1> Tensors::vector(const std::string& name, std::initializer_list<Shape> shapes,
                                     double offset) {
  const SourceTensor& tensor = take(name, shapes);
  const Matrix source = tensor.matrix();
  const std::int64_t size = tensor.size();
  float* const to = room(size);
  for (std::int64_t row = 0; row < source.rows; ++row) read_row(source, row, to + row * source.columns);
  for (std::int64_t i = 0; i < size && offset != 0; ++i) to[i] += static_cast<float>(offset);
  return {to, {size}};
}

View<const float, 1> Tensors::joined(const std::vector<View<const float, 1>>& parts) {
  std::int64_t size = 0;
  for (const View<const float, 1>& part : parts) size += part.extent(0);
  float* const to = room(size);
  float* at = to;
  for (const View<const float, 1>& part : parts) at = std::copy_n(part.data_handle(), part.extent(0), at);
  return {to, {size}};
}

Matrix Tensors::joined(const std::vector<Matrix>& parts) {
  const std::int64_t columns = parts.front().columns;
  std::int64_t rows = 0;
  for (const Matrix& part : parts) rows += part.rows;
  float* const to = room(rows * columns);
  float* at = to;
  for (const Matrix& part : parts) {
    for (std::int64_t row = 0; row < part.rows; ++row, at += columns) read_row(part, row, at);
  }
  return {.data = to, .dtype = DType::f32, .rows = rows, .columns = columns, .row_stride = columns};
}

View<const float, 1> Tensors::every(View<const float, 1> values, std::int64_t first, std::int64_t step) {
  const std::int64_t size = (values.extent(0) - first + step - 1) / step;
  float* const to = room(size);
  for (std::int64_t i = 0; i < size; ++i) to[i] = values(first + i * step);
  return {to, {size}};
}

void Tensors::refuse_leftovers(const std::set<std::string, std::less<>>& passed_over,
                               const FamilyWeights& names) const {
  const auto passes = [&](const std::string& name) {
    return std::any_of(names.not_weights.begin(), names.not_weights.end(),
                       [&](std::string_view ending) { return name.ends_with(ending); }) ||
           std::any_of(names.not_ours.begin(), names.not_ours.end(),
                       [&](std::string_view beginning) { return name.starts_with(beginning); }) ||
           (names.guesses_ahead && is_of_later_layer(name, names, spec_.layers));
  };
  for (const SourceTensor& tensor : weights_.source.tensors) {
    if (taken_.contains(tensor.name) || passed_over.contains(tensor.name) || passes(tensor.name)) continue;
    throw SpecError(fmt::format("{}: {} {} is no part of a {} with {} layers", tensor.path, tensor.name,
                                shape_text(tensor.shape), spec_.family, spec_.layers));
  }
}

}  // namespace locant

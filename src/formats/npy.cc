// SPDX-License-Identifier: Apache-2.0
// numpy arrays. Unsigned integers without a DType of their own widen: u2 to i32, u4 and u8 to i64.
#include <fmt/format.h>
#include <sys/stat.h>

#include <cstring>
#include <limits>

#include "core/mapped_file.h"
#include "core/output_file.h"
#include "formats/npy_header.h"
#include "formats/row_major.h"
#include "locant/formats.h"

namespace locant {
namespace {

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <class Stored, class Kept>
void widen(const std::byte* from, NpyArray& array) {
  for (std::size_t i = 0; i < array.data.size() / sizeof(Kept); ++i) {
    const auto value = static_cast<Kept>(load<Stored>(from + i * sizeof(Stored)));
    std::memcpy(array.data.data() + i * sizeof(Kept), &value, sizeof(Kept));
  }
}

DType dtype_of(const NpyHeader& header) {
  switch (header.kind) {
    case 'b':
      return DType::boolean;
    case 'f':
      return header.width == 8 ? DType::f64 : header.width == 4 ? DType::f32 : DType::f16;
    case 'u':
      return header.width == 1 ? DType::u8 : header.width == 2 ? DType::i32 : DType::i64;
    default:
      return header.width == 1   ? DType::i8
             : header.width == 2 ? DType::i16
             : header.width == 4 ? DType::i32
                                 : DType::i64;
  }
}

void check_values(const NpyHeader& header, const std::byte* data, const std::string& path) {
  for (std::int64_t i = 0; i < header.elements; ++i) {
    const std::byte* const at = data + i * header.width;
    const std::int64_t offset = header.data_begin + i * header.width;
    if (header.kind == 'b' && load<std::uint8_t>(at) > 1) {
      throw FileError(path, fmt::format("a bool is 0 or 1, got {}", load<std::uint8_t>(at)), offset);
    }
    if (header.kind == 'u' && header.width == 8 &&
        load<std::uint64_t>(at) > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      throw FileError(path, fmt::format("{} does not fit 63 bits", load<std::uint64_t>(at)), offset);
    }
  }
}

std::string_view descr_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "<f8";
    case DType::f32:
      return "<f4";
    case DType::f16:
      return "<f2";
    case DType::i64:
      return "<i8";
    case DType::i32:
      return "<i4";
    case DType::i16:
      return "<i2";
    case DType::i8:
      return "|i1";
    case DType::u8:
      return "|u1";
    case DType::boolean:
      return "|b1";
    case DType::bf16:
      break;
  }
  throw SpecError("npy: numpy has no bf16, write f32 instead");
}

std::string header_of(const TensorRef& tensor) {
  std::string shape =
      fmt::format("{}", fmt::join(tensor.shape.begin(), tensor.shape.begin() + tensor.rank, ", "));
  if (tensor.rank == 1) shape += ",";
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                 descr_of(tensor.dtype), shape);
  constexpr std::size_t kBefore = 10;  // magic, version 1.0, length
  dict.append(63 - (kBefore + dict.size()) % 64, ' ');
  dict += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dict.size() & 0xffU);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

}  // namespace

NpyArray parse_npy(std::string_view file, const std::string& path) {
  const NpyHeader header = parse_npy_header(file, path);
  const std::byte* const data = std::as_bytes(std::span(file)).data() + header.data_begin;
  check_values(header, data, path);
  NpyArray array{.dtype = dtype_of(header), .shape = header.shape, .data = {}};
  array.data.resize(static_cast<std::size_t>(header.elements) * size_of(array.dtype));
  if (header.kind == 'u' && header.width == 2) {
    widen<std::uint16_t, std::int32_t>(data, array);
  } else if (header.kind == 'u' && header.width == 4) {
    widen<std::uint32_t, std::int64_t>(data, array);
  } else if (!array.data.empty()) {
    std::memcpy(array.data.data(), data, array.data.size());
  }
  if (!header.fortran_order || array.shape.size() < 2 || array.data.empty()) return array;
  TensorRef columns;
  columns.data = array.data.data();
  columns.dtype = array.dtype;
  columns.rank = array.shape.size();
  std::int64_t step = 1;
  for (std::size_t axis = 0; axis < columns.rank; ++axis) {
    columns.shape[axis] = array.shape[axis];
    columns.strides[axis] = step;
    step *= array.shape[axis];
  }
  std::vector<std::byte> rows;
  rows.reserve(array.data.size());
  for_each_block(columns, [&](std::span<const std::byte> block) {
    rows.insert(rows.end(), block.begin(), block.end());
  });
  array.data = std::move(rows);
  return array;
}

NpyArray read_npy(const std::string& path) {
  struct stat info {};
  // a pipe cannot be mapped
  const bool mappable =
      path != "-" && (stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode) || S_ISDIR(info.st_mode));
  if (!mappable) return parse_npy(read_file(path), path == "-" ? "standard input" : path);
  const MappedFile file(path);
  return parse_npy(file.text(), path);
}

void write_npy(const std::string& path, const TensorRef& tensor) {
  (void)checked_bytes("npy", tensor);
  const std::string header = header_of(tensor);
  OutputFile file(path);
  file.write(header);
  for_each_block(tensor, [&](std::span<const std::byte> block) { file.write(block); });
  file.commit();
}

std::vector<std::int64_t> NpyArray::as_int64(std::string_view who) const {
  if (is_float(dtype)) {
    throw SpecError(
        fmt::format("{}: expected whole numbers, got {} [{}]", who, name_of(dtype), fmt::join(shape, ",")));
  }
  const std::size_t width = size_of(dtype);
  std::vector<std::int64_t> values(data.size() / width);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::byte* const at = data.data() + i * width;
    switch (dtype) {
      case DType::i64:
        values[i] = load<std::int64_t>(at);
        break;
      case DType::i32:
        values[i] = load<std::int32_t>(at);
        break;
      case DType::i16:
        values[i] = load<std::int16_t>(at);
        break;
      case DType::i8:
        values[i] = load<std::int8_t>(at);  // NOLINT(bugprone-signed-char-misuse): a number
        break;
      default:
        values[i] = load<std::uint8_t>(at);
    }
  }
  return values;
}

}  // namespace locant

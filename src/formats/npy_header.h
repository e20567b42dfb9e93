// SPDX-License-Identifier: Apache-2.0
// The header of a .npy file: magic, version, length, a Python dict of three keys. Parsed strictly, in memory.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "locant/formats.h"

namespace locant {

struct NpyHeader {
  char kind = 'f';         // f, i, u or b
  std::int64_t width = 4;  // bytes of a stored element
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
  std::int64_t elements = 0;
  std::int64_t data_begin = 0;  // byte in the file
};

/// Everything is checked against the file's size: `file` holds the whole file. Throws FileError.
[[nodiscard]] NpyHeader parse_npy_header(std::string_view file, const std::string& path);

/// The whole array. Throws FileError.
[[nodiscard]] NpyArray parse_npy(std::string_view file, const std::string& path);

}  // namespace locant

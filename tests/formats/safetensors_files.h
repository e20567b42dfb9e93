// SPDX-License-Identifier: Apache-2.0
// Safetensors files of any header and data, right or wrong.
#pragma once

#include <cstdint>
#include <string>

namespace locant::tests {

inline std::string safetensors(std::uint64_t length, const std::string& header, const std::string& data) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>((length >> (8 * i)) & 0xffU);
  return file + header + data;
}

inline std::string safetensors(const std::string& header, const std::string& data = "") {
  return safetensors(header.size(), header, data);
}

/// One entry of a header: "name":{...}.
inline std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                         const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets +
         "}";
}

/// A header of these members.
inline std::string object(const std::string& members) {
  return std::string("{").append(members).append("}");
}

/// "[0,size]"
inline std::string span_of(std::size_t size) {
  return std::string("[0,").append(std::to_string(size)).append("]");
}

}  // namespace locant::tests

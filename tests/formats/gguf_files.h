// SPDX-License-Identifier: Apache-2.0
// GGUF files of any content, right or wrong, and the golden ones of the gguf package.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json.h"
#include "locant/formats.h"

namespace locant::tests {

template <class T>
std::string raw(T number) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &number, sizeof(T));
  return bytes;
}

inline std::string text(std::string_view bytes) {
  return raw(std::uint64_t{bytes.size()}).append(bytes);
}

/// A key, its type and the value's bytes.
inline std::string pair(std::string_view key, GgufType type, const std::string& value) {
  return text(key) + raw(static_cast<std::uint32_t>(type)) + value;
}

inline std::string array(GgufType element, std::uint64_t count, const std::string& elements) {
  return raw(static_cast<std::uint32_t>(element)) + raw(count) + elements;
}

struct Info {
  std::string name = "t";
  std::vector<std::uint64_t> extents{4};  // as stored: the row first
  std::uint32_t type = 0;
  std::uint64_t offset = 0;
};

inline std::string info(const Info& tensor) {
  std::string bytes = text(tensor.name) + raw(static_cast<std::uint32_t>(tensor.extents.size()));
  for (const std::uint64_t extent : tensor.extents) bytes += raw(extent);
  return bytes + raw(tensor.type) + raw(tensor.offset);
}

struct Gguf {
  std::uint32_t version = 3;
  std::uint64_t tensors = 0;
  std::uint64_t pairs = 0;
  std::string body{};  // pairs and infos
  std::string data{};  // at the next multiple of 32
};

inline std::string gguf(const Gguf& parts) {
  std::string file = "GGUF" + raw(parts.version) + raw(parts.tensors) + raw(parts.pairs) + parts.body;
  if (parts.data.empty()) return file;
  file.resize((file.size() + 31) / 32 * 32);
  return file + parts.data;
}

inline std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

inline Json gguf_golden() {
  return read_json(std::string(LOCANT_SOURCE_DIR) + "/tests/formats/gguf_golden.json");
}

}  // namespace locant::tests

// SPDX-License-Identifier: Apache-2.0
// Any bytes as a GGUF file: tensors inside the input and apart from each other, or a FileError inside it; a
// model read from its keys, or a FileError.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/gguf_header.h"
#include "locant/core.h"
#include "spec/gguf_spec.h"

namespace {

void check(const locant::GgufHeader& header, std::int64_t size, const char* data) {
  std::vector<std::pair<std::int64_t, std::int64_t>> spans;
  for (const locant::GgufEntry& entry : header.entries) {
    std::int64_t elements = 1;
    for (const std::int64_t extent : entry.shape) elements *= extent;
    if (elements / locant::block_elements(entry.type) * locant::block_bytes(entry.type) != entry.bytes)
      std::abort();
    const std::int64_t begin = header.data_begin + entry.begin;
    if (entry.begin < 0 || begin % header.alignment != 0 || begin + entry.bytes > size) std::abort();
    if (entry.bytes > 0) spans.emplace_back(begin, begin + entry.bytes);
    if (entry.bytes == 0 || !locant::can_dequantize(entry.type)) continue;
    std::vector<float> values(static_cast<std::size_t>(elements));
    locant::dequantize(entry.type, data + begin, elements, values.data());
  }
  std::sort(spans.begin(), spans.end());
  for (std::size_t i = 1; i < spans.size(); ++i) {
    if (spans[i].first < spans[i - 1].second) std::abort();
  }
}

/// Every getter gives a value or a FileError.
void get(const locant::GgufValue& value) {
  const auto allowed = [](auto call) {
    try {
      (void)call();
    } catch (const locant::FileError&) {
    }
  };
  allowed([&] { return value.as_int64(); });
  allowed([&] { return value.as_double(); });
  allowed([&] { return value.as_string(); });
  allowed([&] { return value.as_int64s(); });
  allowed([&] { return value.as_doubles(); });
  allowed([&] { return value.as_strings(); });
}

void read_model(const locant::GgufHeader& header, std::string_view file) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(file.data()), file.size());
  std::vector<locant::GgufTensor> tensors;
  for (const locant::GgufEntry& entry : header.entries) {
    const auto begin = static_cast<std::size_t>(header.data_begin + entry.begin);
    tensors.push_back({.name = entry.name,
                       .type = entry.type,
                       .shape = entry.shape,
                       .bytes = entry.bytes > 0 ? bytes.subspan(begin, static_cast<std::size_t>(entry.bytes))
                                                : std::span<const std::byte>(),
                       .file_offset = header.data_begin + entry.begin,
                       .path = "fuzz"});
  }
  try {
    const locant::ModelSpec spec = locant::read_gguf({"fuzz", header.metadata, tensors});
    const auto layers = static_cast<std::size_t>(spec.layers);
    if (spec.attention.size() != layers || spec.positions.layers.size() != layers) std::abort();
  } catch (const locant::FileError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  try {
    const locant::GgufHeader header = locant::parse_gguf_header(file, "fuzz");
    check(header, static_cast<std::int64_t>(size), file.data());
    for (const auto& [key, value] : header.metadata) get(value);
    read_model(header, file);
  } catch (const locant::FileError& error) {
    if (error.offset < 0 || error.offset > static_cast<std::int64_t>(size)) std::abort();
  }
  return 0;
}

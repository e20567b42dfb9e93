// SPDX-License-Identifier: Apache-2.0
#include "formats/safetensors_header.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>

#include "core/checked.h"
#include "core/quote.h"
#include "formats/json.h"

namespace locant {
namespace {

constexpr std::int64_t kLengthBytes = 8;

constexpr std::array kDTypes{DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64,
                             DType::i32, DType::i16, DType::i8,  DType::u8,   DType::boolean};

/// One tensor of the header, for its errors.
class EntryReader {
 public:
  EntryReader(const std::string& name, const Json& value, const std::string& path)
      : name_(name), value_(value), path_(path) {}

  SafetensorsEntry read() const {
    if (!value_.is_object()) fail(fmt::format("is an object, got {}", json_text(value_)));
    for (const auto& [key, unused] : value_.items()) {
      if (key != "dtype" && key != "shape" && key != "data_offsets") {
        fail(fmt::format("has an unknown key {}", quote(key)));
      }
    }
    SafetensorsEntry entry;
    entry.name = name_;
    entry.dtype = dtype();
    const std::int64_t bytes = read_shape(entry);
    read_offsets(entry);
    if (entry.end - entry.begin != bytes) {
      fail(fmt::format("has data_offsets of {} bytes, its shape {} of {} needs {}", entry.end - entry.begin,
                       json_text(member("shape")), name_of(entry.dtype), bytes));
    }
    return entry;
  }

 private:
  [[noreturn]] void fail(const std::string& cause) const {
    throw FileError(path_, fmt::format("tensor {} {}", quote(name_), cause));
  }

  const Json& member(std::string_view key) const {
    const Json* const found = find_member(value_, key);
    if (found == nullptr) fail(fmt::format("lacks {}", key));
    return *found;
  }

  DType dtype() const {
    const Json& value = member("dtype");
    if (!value.is_string()) fail(fmt::format("has a dtype that is no string, {}", json_text(value)));
    const auto& name = value.get_ref<const std::string&>();
    for (const DType known : kDTypes) {
      if (safetensors_name_of(known) == name) return known;
    }
    fail(fmt::format("has dtype {}, which is not supported", quote(name)));
  }

  std::int64_t whole(const Json& value, std::string_view what) const {
    const bool fits =
        value.is_number_unsigned() &&
        value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (!fits) fail(fmt::format("has {} that is no whole number below 2^63, {}", what, json_text(value)));
    return value.get<std::int64_t>();
  }

  /// The bytes that the shape needs.
  std::int64_t read_shape(SafetensorsEntry& entry) const {
    const Json& value = member("shape");
    if (!value.is_array()) fail(fmt::format("has a shape that is no list, {}", json_text(value)));
    if (value.size() > TensorRef::kMaxRank) {
      fail(fmt::format("has {} axes, at most {} are supported", value.size(), TensorRef::kMaxRank));
    }
    for (const Json& extent : value) entry.shape[entry.rank++] = whole(extent, "an extent");
    const auto elements = checked_product({entry.shape.data(), entry.rank});
    const auto bytes =
        elements ? checked_mul(*elements, static_cast<std::int64_t>(size_of(entry.dtype))) : std::nullopt;
    if (!bytes) fail(fmt::format("has shape {}, which is too large to count", json_text(value)));
    return *bytes;
  }

  void read_offsets(SafetensorsEntry& entry) const {
    const Json& value = member("data_offsets");
    if (!value.is_array() || value.size() != 2) {
      fail(fmt::format("has data_offsets that are no pair, {}", json_text(value)));
    }
    entry.begin = whole(value[0], "a data offset");
    entry.end = whole(value[1], "a data offset");
    if (entry.begin > entry.end) fail(fmt::format("has data_offsets that end first, {}", json_text(value)));
  }

  const std::string& name_;
  const Json& value_;
  const std::string& path_;
};

void read_metadata(const Json& value, SafetensorsHeader& header, const std::string& path) {
  if (!value.is_object()) {
    throw FileError(path, fmt::format("{} is an object, got {}", kSafetensorsMetadata, json_text(value)));
  }
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) {
      throw FileError(path, fmt::format("{} holds strings only, {} is {}", kSafetensorsMetadata, quote(key),
                                        json_text(text)));
    }
    header.metadata.emplace(key, text.get<std::string>());
  }
}

/// The entries tile [0, size) of the data.
void check_cover(const SafetensorsHeader& header, std::int64_t size, const std::string& path) {
  std::vector<const SafetensorsEntry*> order;
  order.reserve(header.entries.size());
  for (const SafetensorsEntry& entry : header.entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const SafetensorsEntry* a, const SafetensorsEntry* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  std::int64_t covered = 0;
  for (const SafetensorsEntry* const entry : order) {
    const auto fail = [&](const std::string& cause) {
      const auto at = checked_add(header.data_begin, entry->begin);
      throw FileError(path, fmt::format("tensor {} {}", quote(entry->name), cause),
                      at.value_or(FileError::kNoOffset));
    };
    if (entry->end > size) {
      fail(fmt::format("has data_offsets [{},{}], the data ends at {}", entry->begin, entry->end, size));
    }
    if (entry->begin < covered) {
      fail(fmt::format("has data_offsets [{},{}] inside another tensor, which ends at {}", entry->begin,
                       entry->end, covered));
    }
    if (entry->begin > covered) {
      fail(fmt::format("has data_offsets [{},{}] behind a hole, the tensor before ends at {}", entry->begin,
                       entry->end, covered));
    }
    covered = entry->end;
  }
  if (covered != size) {
    throw FileError(path, fmt::format("the tensors end at byte {} of {} bytes of data", covered, size),
                    header.data_begin + covered);
  }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view file, const std::string& path) {
  static_assert(std::endian::native == std::endian::little, "stored elements are used as they are");
  const auto size = static_cast<std::int64_t>(file.size());
  if (size < kLengthBytes) {
    throw FileError(
        path, fmt::format("a safetensors file begins with 8 bytes of header length, got {} bytes", size),
        size);
  }
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  if (length > static_cast<std::uint64_t>(kLargestSafetensorsHeader)) {
    throw FileError(
        path,
        fmt::format("a header has at most {} bytes, its length says {}", kLargestSafetensorsHeader, length),
        0);
  }
  if (length > static_cast<std::uint64_t>(size - kLengthBytes)) {
    throw FileError(path, fmt::format("the header says {} bytes, {} are there", length, size - kLengthBytes),
                    0);
  }
  const std::string_view text = file.substr(kLengthBytes, length);
  if (!text.starts_with('{')) throw FileError(path, "the header does not begin with '{'", kLengthBytes);
  const Json json = parse_json(text, path, kLengthBytes);

  SafetensorsHeader header;
  header.data_begin = kLengthBytes + static_cast<std::int64_t>(length);
  for (const auto& [name, value] : json.items()) {
    if (name == kSafetensorsMetadata) {
      read_metadata(value, header, path);
    } else {
      header.entries.push_back(EntryReader(name, value, path).read());
    }
  }
  check_cover(header, size - header.data_begin, path);
  return header;
}

std::string_view safetensors_name_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::f64:
      return "F64";
    case DType::f32:
      return "F32";
    case DType::f16:
      return "F16";
    case DType::bf16:
      return "BF16";
    case DType::i64:
      return "I64";
    case DType::i32:
      return "I32";
    case DType::i16:
      return "I16";
    case DType::i8:
      return "I8";
    case DType::u8:
      return "U8";
    case DType::boolean:
      return "BOOL";
  }
  return "";
}

}  // namespace locant

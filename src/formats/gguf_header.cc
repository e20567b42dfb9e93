// SPDX-License-Identifier: Apache-2.0
#include "formats/gguf_header.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "core/checked.h"
#include "core/quote.h"

namespace locant {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr std::string_view kAlignmentKey = "general.alignment";
constexpr std::int64_t kSmallestPair = 8 + 4 + 1;      // key length, value type, value
constexpr std::int64_t kSmallestInfo = 8 + 4 + 4 + 8;  // name length, axes, type, offset
constexpr std::int64_t kStringBytes = 8;               // of an empty string
constexpr std::int64_t kArrayBytes = 4 + 8;            // of an empty array

/// Calls visit(T{}) for the C++ type of a number; false when `type` is none.
template <class Visit>
bool with_number(GgufType type, Visit visit) {
  switch (type) {
    case GgufType::u8:
      return visit(std::uint8_t{}), true;
    case GgufType::i8:
      return visit(std::int8_t{}), true;
    case GgufType::u16:
      return visit(std::uint16_t{}), true;
    case GgufType::i16:
      return visit(std::int16_t{}), true;
    case GgufType::u32:
      return visit(std::uint32_t{}), true;
    case GgufType::i32:
      return visit(std::int32_t{}), true;
    case GgufType::f32:
      return visit(float{}), true;
    case GgufType::u64:
      return visit(std::uint64_t{}), true;
    case GgufType::i64:
      return visit(std::int64_t{}), true;
    case GgufType::f64:
      return visit(double{}), true;
    case GgufType::boolean:
    case GgufType::string:
    case GgufType::array:
      break;
  }
  return false;
}

class Parser {
 public:
  Parser(std::string_view file, const std::string& path) : file_(file), path_(path) {}

  GgufHeader parse() {
    GgufHeader header;
    header.version = version();
    const std::int64_t tensors = count("tensors", kSmallestInfo);
    const std::int64_t pairs = count("keys", kSmallestPair);
    for (std::int64_t i = 0; i < pairs; ++i) read_pair(header);
    header.alignment = alignment(header);
    for (std::int64_t i = 0; i < tensors; ++i) header.entries.push_back(entry(header.alignment));
    header.data_begin = (at_ + header.alignment - 1) / header.alignment * header.alignment;
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& cause, std::int64_t at) const {
    const std::string subject =
        subject_.empty() ? std::string(noun_) : fmt::format("{} {}", noun_, quote(subject_));
    throw FileError(path_, fmt::format("{} {}", subject, cause), at);
  }
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(file_.size()); }
  [[nodiscard]] std::int64_t left() const { return size() - at_; }

  std::string_view take(std::int64_t bytes) {
    if (bytes > left()) {
      fail(fmt::format("needs {} bytes, the file has {} more", bytes, left()), at_);
    }
    const std::string_view taken =
        file_.substr(static_cast<std::size_t>(at_), static_cast<std::size_t>(bytes));
    at_ += bytes;
    return taken;
  }

  template <class T>
  T number() {
    T value{};
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

  /// A stored u64 that counts things of at least `each` bytes, so that nothing is reserved on its word alone.
  std::int64_t count(std::string_view what, std::int64_t each) {
    const std::int64_t at = at_;
    const auto value = number<std::uint64_t>();
    if (value > static_cast<std::uint64_t>(left() / each)) {
      fail(fmt::format("has {} {}, the file has {} more bytes", value, what, left()), at);
    }
    return static_cast<std::int64_t>(value);
  }

  std::string_view text(std::string_view what) { return take(count(what, 1)); }

  /// The name of a "key" or "tensor", the subject of all errors that follow.
  std::string name(std::string_view noun, std::int64_t longest) {
    const std::int64_t at = at_;
    subject_.clear();
    noun_ = noun == "key" ? "a key" : "a tensor";
    const std::string_view taken = text("bytes of name");
    if (taken.empty()) fail("has an empty name", at);
    if (static_cast<std::int64_t>(taken.size()) > longest) {
      fail(fmt::format("has a name of {} bytes, at most {} are allowed", taken.size(), longest), at);
    }
    noun_ = noun;
    subject_ = taken;
    return subject_;
  }

  std::int64_t version() {
    if (!file_.starts_with(kMagic)) {
      throw FileError(
          path_, fmt::format("a gguf file begins with \"{}\", got {}", kMagic, quote(file_.substr(0, 4))), 0);
    }
    at_ = static_cast<std::int64_t>(kMagic.size());
    const std::int64_t at = at_;
    const auto value = number<std::uint32_t>();
    if (value != 0 && (value & 0xffffU) == 0) fail("is big-endian, only little-endian is read", at);
    if (value != 2 && value != 3) fail(fmt::format("is of version {}, 2 and 3 are read", value), at);
    return value;
  }

  GgufType value_type() {
    const std::int64_t at = at_;
    const auto value = number<std::uint32_t>();
    if (value > static_cast<std::uint32_t>(GgufType::f64)) {
      fail(fmt::format("has value type {}, which is unknown", value), at);
    }
    return static_cast<GgufType>(value);
  }

  bool truth() {
    const std::int64_t at = at_;
    const auto value = number<std::uint8_t>();
    if (value > 1) fail(fmt::format("is a bool, 0 or 1, got {}", value), at);
    return value == 1;
  }

  template <class T>
  std::vector<T> numbers() {
    const std::int64_t elements = count("elements", sizeof(T));
    std::vector<T> list(static_cast<std::size_t>(elements));
    const std::string_view bytes = take(elements * static_cast<std::int64_t>(sizeof(T)));
    if (!bytes.empty()) std::memcpy(list.data(), bytes.data(), bytes.size());
    return list;
  }

  template <class T, class Read>
  std::vector<T> list(std::int64_t each, Read read) {
    const std::int64_t elements = count("elements", each);
    std::vector<T> values;
    values.reserve(static_cast<std::size_t>(elements));
    for (std::int64_t i = 0; i < elements; ++i) values.push_back(read());
    return values;
  }

  GgufArray array(std::int64_t depth) {
    if (depth > kDeepestGgufArray)
      fail(fmt::format("has arrays nested deeper than {}", kDeepestGgufArray), at_);
    GgufArray result;
    const GgufType type = value_type();
    if (with_number(type, [&](auto zero) { result.values = numbers<decltype(zero)>(); })) return result;
    if (type == GgufType::boolean) {
      result.values = list<bool>(1, [&] { return truth(); });
    } else if (type == GgufType::string) {
      result.values = list<std::string>(kStringBytes, [&] { return std::string(text("bytes in a string")); });
    } else {
      result.values = list<GgufArray>(kArrayBytes, [&] { return array(depth + 1); });
    }
    return result;
  }

  void read_pair(GgufHeader& header) {
    const std::int64_t at = at_;
    GgufValue value;
    value.key = name("key", kLongestGgufKey);
    value.path = path_;
    const GgufType type = value_type();
    value.file_offset = at_;
    if (type == GgufType::boolean) {
      value.value = truth();
    } else if (type == GgufType::string) {
      value.value = std::string(text("bytes in a string"));
    } else if (type == GgufType::array) {
      value.value = array(1);
    } else {
      with_number(type, [&](auto zero) { value.value = number<decltype(zero)>(); });
    }
    std::string key = value.key;
    if (!header.metadata.emplace(std::move(key), std::move(value)).second) fail("stands twice", at);
  }

  std::int64_t alignment(const GgufHeader& header) const {
    const auto found = header.metadata.find(kAlignmentKey);
    if (found == header.metadata.end()) return kDefaultGgufAlignment;
    const GgufValue& value = found->second;
    const auto* const stored = std::get_if<std::uint32_t>(&value.value);
    const auto refuse = [&](const std::string& got) {
      throw FileError(path_,
                      fmt::format("key {} is a power of two in u32, got {}", quote(kAlignmentKey), got),
                      value.file_offset);
    };
    if (stored == nullptr) refuse(std::string(name_of(value.type())));
    if (!std::has_single_bit(*stored)) refuse(std::to_string(*stored));
    return *stored;
  }

  void read_shape(GgufEntry& info) {
    const std::int64_t at = at_;
    const auto axes = number<std::uint32_t>();
    if (axes > kMostGgufAxes)
      fail(fmt::format("has {} axes, at most {} are supported", axes, kMostGgufAxes), at);
    for (std::uint32_t axis = 0; axis < axes; ++axis) {
      const std::int64_t extent_at = at_;
      const auto extent = number<std::uint64_t>();
      if (extent > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        fail(fmt::format("has an extent of {}, which is no number below 2^63", extent), extent_at);
      }
      info.shape.push_back(static_cast<std::int64_t>(extent));
    }
    std::reverse(info.shape.begin(), info.shape.end());
  }

  GgufEntry entry(std::int64_t alignment) {
    GgufEntry info;
    info.at = at_;
    info.name = name("tensor", size());
    read_shape(info);
    const std::int64_t type_at = at_;
    const auto stored = number<std::uint32_t>();
    const auto type = ggml_type_of(stored);
    if (!type) fail(fmt::format("has ggml type {}, which is unknown", stored), type_at);
    info.type = *type;
    const std::int64_t row = info.shape.empty() ? 1 : info.shape.back();
    if (row % block_elements(*type) != 0) {
      fail(fmt::format("has rows of {} elements, {} stands in blocks of {}", row, name_of(*type),
                       block_elements(*type)),
           info.at);
    }
    const auto elements = checked_product(info.shape);
    const auto bytes =
        elements ? checked_mul(*elements / block_elements(*type), block_bytes(*type)) : std::nullopt;
    if (!bytes) fail("has a shape that is too large to count", info.at);
    info.bytes = *bytes;
    const std::int64_t offset_at = at_;
    const auto begin = number<std::uint64_t>();
    if (begin > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) ||
        begin % static_cast<std::uint64_t>(alignment) != 0) {
      fail(fmt::format("begins at a multiple of the alignment {} below 2^63, got {}", alignment, begin),
           offset_at);
    }
    info.begin = static_cast<std::int64_t>(begin);
    return info;
  }

  std::string_view file_;
  const std::string& path_;
  std::int64_t at_ = 0;
  std::string_view noun_ = "the header";
  std::string subject_;
};

[[noreturn]] void refuse(const GgufEntry& entry, const std::string& cause, const std::string& path) {
  throw FileError(path, fmt::format("tensor {} {}", quote(entry.name), cause), entry.at);
}

/// Sorts by name; no two tensors have one name or a common byte, and all end inside the file.
void check_entries(GgufHeader& header, std::int64_t size, const std::string& path) {
  std::vector<GgufEntry>& entries = header.entries;
  std::sort(entries.begin(), entries.end(), [](const GgufEntry& a, const GgufEntry& b) {
    return std::tuple(a.begin, a.bytes, a.at) < std::tuple(b.begin, b.bytes, b.at);
  });
  std::int64_t covered = 0;
  for (const GgufEntry& entry : entries) {
    const auto begin = checked_add(header.data_begin, entry.begin);
    const auto end = begin ? checked_add(*begin, entry.bytes) : std::nullopt;
    if (!end || *end > size) {
      refuse(entry,
             fmt::format("has {} bytes at {} of the data, which ends at {}", entry.bytes, entry.begin,
                         std::max<std::int64_t>(size - header.data_begin, 0)),
             path);
    }
    if (entry.bytes > 0 && entry.begin < covered) {
      refuse(entry,
             fmt::format("begins at {} of the data inside another tensor, which ends at {}", entry.begin,
                         covered),
             path);
    }
    covered = std::max(covered, entry.begin + entry.bytes);
  }
  std::sort(entries.begin(), entries.end(), [](const GgufEntry& a, const GgufEntry& b) {
    return std::pair(std::string_view(a.name), a.at) < std::pair(std::string_view(b.name), b.at);
  });
  const auto twice =
      std::adjacent_find(entries.begin(), entries.end(),
                         [](const GgufEntry& a, const GgufEntry& b) { return a.name == b.name; });
  if (twice != entries.end()) refuse(*(twice + 1), "stands twice", path);
}

}  // namespace

GgufHeader parse_gguf_header(std::string_view file, const std::string& path) {
  static_assert(std::endian::native == std::endian::little, "stored numbers are used as they are");
  GgufHeader header = Parser(file, path).parse();
  check_entries(header, static_cast<std::int64_t>(file.size()), path);
  return header;
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
#include "formats/npy_header.h"

#include <fmt/core.h>

#include <bit>
#include <optional>

#include "core/checked.h"
#include "core/quote.h"

namespace locant {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kPrefix = 8;  // magic and version

/// The dict's text; `at` counts from the file's first byte.
class DictParser {
 public:
  DictParser(std::string_view file, std::size_t begin, std::size_t end, const std::string& path)
      : file_(file), at_(begin), end_(end), path_(path) {}

  NpyHeader parse() {
    expect('{');
    skip_spaces();
    while (!take('}')) {
      entry();
      skip_spaces();
      if (take(',')) {
        skip_spaces();
        continue;
      }
      expect('}');
      break;
    }
    skip_spaces();
    if (at_ != end_) fail("the header goes on after its dict");
    if (!descr_) fail("the header lacks 'descr'");
    if (!fortran_order_) fail("the header lacks 'fortran_order'");
    if (!shape_) fail("the header lacks 'shape'");
    NpyHeader header;
    set_type(header, *descr_);
    header.fortran_order = *fortran_order_;
    header.shape = *shape_;
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& cause) const {
    throw FileError(path_, "is no npy file that can be read, " + cause, static_cast<std::int64_t>(at_));
  }
  [[nodiscard]] char peek() const { return at_ < end_ ? file_[at_] : '\0'; }
  void skip_spaces() {
    while (at_ < end_ && (file_[at_] == ' ' || file_[at_] == '\n' || file_[at_] == '\t')) ++at_;
  }
  bool take(char c) {
    if (peek() != c || at_ >= end_) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    skip_spaces();
    if (!take(c)) fail(fmt::format("the header has no '{}' where one belongs", c));
  }

  std::string_view string_literal() {
    skip_spaces();
    const char mark = peek();
    if (mark != '\'' && mark != '"') fail("the header has no string where one belongs");
    const std::size_t begin = ++at_;
    while (at_ < end_ && file_[at_] != mark) {
      if (file_[at_] == '\\') fail("a string of the header is escaped");
      ++at_;
    }
    const std::string_view text = file_.substr(begin, at_ - begin);
    if (!take(mark)) fail("a string of the header does not end");
    return text;
  }

  bool truth() {
    skip_spaces();
    for (const std::string_view word : {std::string_view("True"), std::string_view("False")}) {
      if (file_.substr(at_, std::min(word.size(), end_ - at_)) == word) {
        at_ += word.size();
        return word == "True";
      }
    }
    fail("fortran_order is neither True nor False");
  }

  std::int64_t extent() {
    if (peek() < '0' || peek() > '9') fail("an extent of the shape is no whole number of digits");
    std::int64_t value = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      const auto shifted = checked_mul(value, 10);
      const auto sum = shifted ? checked_add(*shifted, peek() - '0') : std::nullopt;
      if (!sum) fail("an extent of the shape exceeds 63 bits");
      value = *sum;
    }
    return value;
  }

  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> values;
    expect('(');
    skip_spaces();
    while (!take(')')) {
      values.push_back(extent());
      if (values.size() > TensorRef::kMaxRank) {
        fail(fmt::format("the shape has more than {} axes", TensorRef::kMaxRank));
      }
      skip_spaces();
      const bool comma = take(',');
      skip_spaces();
      // (3) is the number 3 in Python, (3,) the tuple
      if (!comma && (peek() != ')' || values.size() == 1)) fail("the shape is no tuple");
    }
    return values;
  }

  template <class T>
  void store(std::optional<T>& slot, T value, std::string_view key) {
    if (slot) fail(fmt::format("the header has '{}' twice", key));
    slot = std::move(value);
  }

  void entry() {
    const std::string_view key = string_literal();
    expect(':');
    skip_spaces();
    if (key == "descr") {
      if (peek() == '[') fail("structured dtypes are not supported");
      store(descr_, string_literal(), key);
    } else if (key == "fortran_order") {
      store(fortran_order_, truth(), key);
    } else if (key == "shape") {
      store(shape_, tuple(), key);
    } else {
      fail(fmt::format("the header has an unknown key {}", quote(key)));
    }
  }

  void set_type(NpyHeader& header, std::string_view descr) const {
    const auto unknown = [&] { fail(fmt::format("dtype {} is not supported", quote(descr))); };
    if (descr.size() != 3) unknown();
    if (descr[0] == '>')
      fail(fmt::format("dtype {} is big-endian, only little-endian is read", quote(descr)));
    header.kind = descr[1];
    header.width = descr[2] - '0';
    const bool one_byte = header.width == 1;
    const bool whole = (header.kind == 'i' || header.kind == 'u') &&
                       (one_byte || header.width == 2 || header.width == 4 || header.width == 8);
    const bool real = header.kind == 'f' && (header.width == 2 || header.width == 4 || header.width == 8);
    if (!whole && !real && !(header.kind == 'b' && one_byte)) unknown();
    if (descr[0] != '<' && descr[0] != '=' && !(descr[0] == '|' && one_byte)) unknown();
  }

  std::string_view file_;
  std::size_t at_;
  std::size_t end_;
  const std::string& path_;
  std::optional<std::string_view> descr_;
  std::optional<bool> fortran_order_;
  std::optional<std::vector<std::int64_t>> shape_;
};

[[noreturn]] void refuse(const std::string& path, const std::string& cause, std::size_t at) {
  throw FileError(path, "is no npy file that can be read, " + cause, static_cast<std::int64_t>(at));
}

std::size_t little_endian(std::string_view bytes) {
  std::size_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = (value << 8) | static_cast<unsigned char>(bytes[i]);
  return value;
}

}  // namespace

NpyHeader parse_npy_header(std::string_view file, const std::string& path) {
  static_assert(std::endian::native == std::endian::little, "stored elements are used as they are");
  if (!file.starts_with(kMagic)) refuse(path, "it does not begin with the numpy magic", 0);
  if (file.size() < kPrefix) refuse(path, "it ends inside the version", file.size());
  const int major = static_cast<unsigned char>(file[6]);
  const int minor = static_cast<unsigned char>(file[7]);
  if (major < 1 || major > 3 || minor != 0) {
    refuse(path, fmt::format("version {}.{} is unknown, 1.0 to 3.0 are read", major, minor), 6);
  }
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  const std::size_t begin = kPrefix + length_bytes;
  if (file.size() < begin) refuse(path, "it ends inside the header's length", file.size());
  const std::size_t length = little_endian(file.substr(kPrefix, length_bytes));
  if (length > file.size() - begin) {
    refuse(path, fmt::format("the header says {} bytes, {} are there", length, file.size() - begin), kPrefix);
  }
  NpyHeader header = DictParser(file, begin, begin + length, path).parse();
  header.data_begin = static_cast<std::int64_t>(begin + length);
  const auto elements = checked_product(header.shape);
  const auto bytes = elements ? checked_mul(*elements, header.width) : std::nullopt;
  if (!bytes) refuse(path, "the shape is too large to count", begin);
  const std::size_t there = file.size() - begin - length;
  if (static_cast<std::size_t>(*bytes) != there) {
    refuse(path, fmt::format("the shape needs {} bytes of data, {} are there", *bytes, there),
           begin + length);
  }
  header.elements = *elements;
  return header;
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// Every way of lying before the data: one sentence each, with the byte where it stands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/temp_dir.h"
#include "formats/gguf_files.h"
#include "formats/gguf_header.h"

namespace locant {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using tests::array;
using tests::from_hex;
using tests::gguf;
using tests::gguf_golden;
using tests::info;
using tests::message_of;
using tests::pair;
using tests::raw;
using tests::text;

constexpr std::uint64_t kTooMany = 1ULL << 63;
const std::string kData = LOCANT_TEST_DATA_DIR;

std::string cause(const std::string& file) {
  return message_of<FileError>([&] { (void)parse_gguf_header(file, "x"); });
}

/// The cause of refusing a file of one key.
std::string cause_of_pair(const std::string& bytes) {
  return cause(gguf({.pairs = 1, .body = bytes}));
}

/// The cause of refusing a file of these tensors over 64 bytes of data.
std::string cause_of_tensors(const std::vector<tests::Info>& tensors) {
  std::string body;
  for (const tests::Info& tensor : tensors) body += info(tensor);
  return cause(gguf({.tensors = tensors.size(), .body = body, .data = std::string(64, 'x')}));
}

TEST(GgufHeader, Prefix) {
  EXPECT_EQ(cause(""), "x: a gguf file begins with \"GGUF\", got \"\", at byte 0");
  EXPECT_EQ(cause("GGU"), "x: a gguf file begins with \"GGUF\", got \"GGU\", at byte 0");
  EXPECT_EQ(cause("ggjt4567"), "x: a gguf file begins with \"GGUF\", got \"ggjt\", at byte 0");
  EXPECT_EQ(cause(gguf({.version = 1})), "x: the header is of version 1, 2 and 3 are read, at byte 4");
  EXPECT_EQ(cause(gguf({.version = 4})), "x: the header is of version 4, 2 and 3 are read, at byte 4");
  EXPECT_EQ(cause(gguf({.version = 0})), "x: the header is of version 0, 2 and 3 are read, at byte 4");
  EXPECT_EQ(cause(gguf({.version = 3U << 24})),
            "x: the header is big-endian, only little-endian is read, at byte 4");
  EXPECT_EQ(cause(gguf({})), "");
}

TEST(GgufHeader, Counts) {
  EXPECT_EQ(cause(gguf({.tensors = kTooMany})),
            "x: the header has 9223372036854775808 tensors, the file has 8 more bytes, at byte 8");
  EXPECT_EQ(cause(gguf({.pairs = kTooMany})),
            "x: the header has 9223372036854775808 keys, the file has 0 more bytes, at byte 16");
  EXPECT_EQ(cause(gguf({.tensors = UINT64_MAX, .pairs = UINT64_MAX})),
            "x: the header has 18446744073709551615 tensors, the file has 8 more bytes, at byte 8");
  EXPECT_EQ(cause(gguf({.pairs = 2, .body = pair("a", GgufType::u64, raw(std::uint64_t{1}))})),
            "x: the header has 2 keys, the file has 21 more bytes, at byte 16");
}

TEST(GgufHeader, Keys) {
  EXPECT_EQ(cause_of_pair(raw(kTooMany) + "abcde"),
            "x: a key has 9223372036854775808 bytes of name, the file has 5 more bytes, at byte 24");
  EXPECT_EQ(cause_of_pair(raw(std::uint64_t{6}) + "abcde"),
            "x: a key has 6 bytes of name, the file has 5 more bytes, at byte 24");
  EXPECT_EQ(cause_of_pair(pair("", GgufType::u8, "\1")), "x: a key has an empty name, at byte 24");
  EXPECT_EQ(cause_of_pair(pair(std::string(65536, 'k'), GgufType::u8, "\1")),
            "x: a key has a name of 65536 bytes, at most 65535 are allowed, at byte 24");
  EXPECT_EQ(cause_of_pair(pair(std::string(65535, 'k'), GgufType::u8, "\1")), "");
  const std::string once = pair("k", GgufType::u8, "\1");
  EXPECT_EQ(cause(gguf({.pairs = 2, .body = once + once})), "x: key \"k\" stands twice, at byte 38");
  EXPECT_EQ(cause_of_pair(text("k") + raw(std::uint32_t{13}) + "\1"),
            "x: key \"k\" has value type 13, which is unknown, at byte 33");
  EXPECT_EQ(cause_of_pair(text("k") + raw(UINT32_MAX) + "\1"),
            "x: key \"k\" has value type 4294967295, which is unknown, at byte 33");
  EXPECT_EQ(cause_of_pair(pair("k", GgufType::boolean, "\2")),
            "x: key \"k\" is a bool, 0 or 1, got 2, at byte 37");
  EXPECT_EQ(cause_of_pair(pair("k", GgufType::f64, "1234567")),
            "x: key \"k\" needs 8 bytes, the file has 7 more, at byte 37");
  EXPECT_EQ(cause_of_pair(pair("k", GgufType::string, raw(kTooMany) + "abc")),
            "x: key \"k\" has 9223372036854775808 bytes in a string, the file has 3 more bytes, at byte 37");
  EXPECT_EQ(cause_of_pair(pair("k", GgufType::string, raw(std::uint64_t{4}) + "abc")),
            "x: key \"k\" has 4 bytes in a string, the file has 3 more bytes, at byte 37");
}

TEST(GgufHeader, Arrays) {
  const auto of_array = [](const std::string& value) {
    return cause_of_pair(pair("k", GgufType::array, value));
  };
  EXPECT_EQ(of_array(array(GgufType::u8, kTooMany, "abc")),
            "x: key \"k\" has 9223372036854775808 elements, the file has 3 more bytes, at byte 41");
  EXPECT_EQ(of_array(array(GgufType::u32, 2, "1234567")),
            "x: key \"k\" has 2 elements, the file has 7 more bytes, at byte 41");
  EXPECT_EQ(of_array(array(GgufType::string, 1, "1234567")),
            "x: key \"k\" has 1 elements, the file has 7 more bytes, at byte 41");
  EXPECT_EQ(of_array(array(GgufType::array, 1, "12345678901")),
            "x: key \"k\" has 1 elements, the file has 11 more bytes, at byte 41");
  EXPECT_EQ(of_array(array(GgufType::boolean, 2, "\1\7")),
            "x: key \"k\" is a bool, 0 or 1, got 7, at byte 50");
  EXPECT_EQ(of_array(array(GgufType::string, 1, raw(std::uint64_t{9}))),
            "x: key \"k\" has 9 bytes in a string, the file has 0 more bytes, at byte 49");
  EXPECT_EQ(of_array(raw(std::uint32_t{99}) + raw(std::uint64_t{0})),
            "x: key \"k\" has value type 99, which is unknown, at byte 37");
  EXPECT_EQ(of_array(array(GgufType::array, 0, "")), "");
  std::string nested = array(GgufType::u8, 0, "");
  for (std::int64_t depth = 1; depth < kDeepestGgufArray; ++depth) nested = array(GgufType::array, 1, nested);
  EXPECT_EQ(of_array(nested), "");
  EXPECT_EQ(of_array(array(GgufType::array, 1, nested)),
            "x: key \"k\" has arrays nested deeper than 8, at byte 133");
  for (int depth = 0; depth < 100'000; ++depth) nested += array(GgufType::array, 1, "");
  EXPECT_EQ(of_array(nested), "");  // what follows is no key
  std::string deep;
  for (int depth = 0; depth < 100'000; ++depth) deep += array(GgufType::array, 1, "");
  EXPECT_EQ(of_array(deep), "x: key \"k\" has arrays nested deeper than 8, at byte 133");
}

TEST(GgufHeader, Alignment) {
  const auto of_alignment = [](GgufType type, const std::string& value) {
    return cause_of_pair(pair("general.alignment", type, value));
  };
  EXPECT_EQ(of_alignment(GgufType::u32, raw(std::uint32_t{0})),
            "x: key \"general.alignment\" is a power of two in u32, got 0, at byte 53");
  EXPECT_EQ(of_alignment(GgufType::u32, raw(std::uint32_t{24})),
            "x: key \"general.alignment\" is a power of two in u32, got 24, at byte 53");
  EXPECT_EQ(of_alignment(GgufType::u64, raw(std::uint64_t{32})),
            "x: key \"general.alignment\" is a power of two in u32, got u64, at byte 53");
  EXPECT_EQ(of_alignment(GgufType::string, text("32")),
            "x: key \"general.alignment\" is a power of two in u32, got string, at byte 53");
  for (int bit = 0; bit < 32; ++bit) EXPECT_EQ(of_alignment(GgufType::u32, raw(1U << bit)), "") << bit;
  const std::string body = pair("general.alignment", GgufType::u32, raw(std::uint32_t{1}));
  const std::string tensor = info({.extents = {3}, .type = 24, .offset = 1});
  const auto header =
      parse_gguf_header(gguf({.tensors = 1, .pairs = 1, .body = body + tensor}) + "abcd", "x");
  EXPECT_EQ(header.alignment, 1);
  EXPECT_EQ(header.data_begin, static_cast<std::int64_t>(24 + body.size() + tensor.size()));
}

TEST(GgufHeader, Tensors) {
  EXPECT_EQ(cause_of_tensors({{}}), "");
  EXPECT_EQ(cause_of_tensors({{.name = ""}}), "x: a tensor has an empty name, at byte 24");
  EXPECT_EQ(cause(gguf({.tensors = 1, .body = raw(kTooMany) + std::string(16, 'x')})),
            "x: a tensor has 9223372036854775808 bytes of name, the file has 16 more bytes, at byte 24");
  EXPECT_EQ(cause_of_tensors({{.extents = {1, 1, 1, 1, 1}}}),
            "x: tensor \"t\" has 5 axes, at most 4 are supported, at byte 33");
  EXPECT_EQ(
      cause_of_tensors({{.extents = {1, kTooMany}}}),
      "x: tensor \"t\" has an extent of 9223372036854775808, which is no number below 2^63, at byte 45");
  EXPECT_EQ(cause_of_tensors({{.extents = {1ULL << 32, 1ULL << 31}}}),
            "x: tensor \"t\" has a shape that is too large to count, at byte 24");
  EXPECT_EQ(cause_of_tensors({{.extents = {1ULL << 62}}}),
            "x: tensor \"t\" has a shape that is too large to count, at byte 24");
  EXPECT_EQ(cause_of_tensors({{.extents = {0, 1ULL << 62, 4}}}),
            "x: tensor \"t\" has a shape that is too large to count, at byte 24");
  for (const std::uint32_t type : {4U, 5U, 31U, 33U, 36U, 42U, UINT32_MAX}) {
    EXPECT_EQ(cause_of_tensors({{.type = type}}),
              "x: tensor \"t\" has ggml type " + std::to_string(type) + ", which is unknown, at byte 45");
  }
  EXPECT_EQ(cause_of_tensors({{.extents = {33}, .type = 8}}),
            "x: tensor \"t\" has rows of 33 elements, Q8_0 stands in blocks of 32, at byte 24");
  EXPECT_EQ(cause_of_tensors({{.extents = {4, 32}, .type = 8}}),
            "x: tensor \"t\" has rows of 4 elements, Q8_0 stands in blocks of 32, at byte 24");
  EXPECT_EQ(cause_of_tensors({{.extents = {}, .type = 2}}),
            "x: tensor \"t\" has rows of 1 elements, Q4_0 stands in blocks of 32, at byte 24");
  EXPECT_EQ(cause_of_tensors({{.extents = {}}}), "");
  EXPECT_EQ(cause_of_tensors({{.extents = {32}, .type = 8}}), "");
  EXPECT_EQ(cause_of_tensors({{.name = "a"}, {.name = "a", .offset = 32}}),
            "x: tensor \"a\" stands twice, at byte 57");
}

TEST(GgufHeader, Places) {
  EXPECT_EQ(cause_of_tensors({{.offset = 16}}),
            "x: tensor \"t\" begins at a multiple of the alignment 32 below 2^63, got 16, at byte 49");
  EXPECT_EQ(cause_of_tensors({{.offset = kTooMany}}),
            "x: tensor \"t\" begins at a multiple of the alignment 32 below 2^63, got 9223372036854775808, "
            "at byte 49");
  EXPECT_EQ(cause_of_tensors({{.offset = kTooMany - 32}}),
            "x: tensor \"t\" has 16 bytes at 9223372036854775776 of the data, which ends at 64, at byte 24");
  EXPECT_EQ(cause_of_tensors({{.offset = 64}}),
            "x: tensor \"t\" has 16 bytes at 64 of the data, which ends at 64, at byte 24");
  EXPECT_EQ(cause_of_tensors({{.extents = {17}}}),
            "x: tensor \"t\" has 68 bytes at 0 of the data, which ends at 64, at byte 24");
  EXPECT_EQ(cause_of_tensors({{.extents = {16}}}), "");
  EXPECT_EQ(cause_of_tensors({{.name = "a", .extents = {9}}, {.name = "b", .offset = 32}}),
            "x: tensor \"b\" begins at 32 of the data inside another tensor, which ends at 36, at byte 57");
  EXPECT_EQ(cause_of_tensors({{.name = "a"}, {.name = "b"}}),
            "x: tensor \"b\" begins at 0 of the data inside another tensor, which ends at 16, at byte 57");
  EXPECT_EQ(cause_of_tensors({{.name = "b", .offset = 32}, {.name = "a", .extents = {8}}}), "");
  EXPECT_EQ(cause_of_tensors({{.name = "a", .extents = {0}}, {.name = "b"}}), "");
  EXPECT_EQ(cause(gguf({.tensors = 1, .body = info({})})),
            "x: tensor \"t\" has 16 bytes at 0 of the data, which ends at 0, at byte 24");
}

/// Every file cut short is refused in one sentence that names a byte inside it.
void expect_refused(const std::string& cut) {
  try {
    (void)parse_gguf_header(cut, "x");
    FAIL() << "read " << cut.size() << " bytes";
  } catch (const FileError& error) {
    ASSERT_GE(error.offset, 0) << error.what();
    ASSERT_LE(error.offset, static_cast<std::int64_t>(cut.size())) << error.what();
    ASSERT_THAT(error.what(), StartsWith("x: "));
    ASSERT_THAT(error.what(), EndsWith(", at byte " + std::to_string(error.offset)));
    ASSERT_EQ(std::string(error.what()).find('\n'), std::string::npos);
  }
}

TEST(GgufHeader, CutAtEveryByte) {
  const std::string file = from_hex(gguf_golden().at("files").at("golden.gguf"));
  const GgufHeader header = parse_gguf_header(file, "x");
  std::int64_t end = 0;
  for (const GgufEntry& entry : header.entries)
    end = std::max(end, header.data_begin + entry.begin + entry.bytes);
  for (std::int64_t size = 0; size < end; ++size)
    expect_refused(file.substr(0, static_cast<std::size_t>(size)));
  EXPECT_EQ(cause(file.substr(0, static_cast<std::size_t>(end))), "");
}

TEST(GgufHeader, CutsOfATrainedModel) {
  if (kData.empty()) GTEST_SKIP() << "needs LOCANT_TEST_DATA";
  const std::string file = tests::slurp(kData + "/stories260k/stories260K-f32.gguf");
  const auto begin = static_cast<std::size_t>(parse_gguf_header(file, "x").data_begin);
  for (std::size_t size = 0; size < 1024; ++size) expect_refused(file.substr(0, size));
  for (std::size_t i = 0; i < 200; ++i) expect_refused(file.substr(0, begin / 200 * i));
  for (std::size_t i = 0; i < 200; ++i)
    expect_refused(file.substr(0, begin + (file.size() - begin) * i / 200));
}

TEST(GgufHeader, AnyByteChangedIsReadOrRefused) {
  const std::string file = from_hex(gguf_golden().at("files").at("golden.gguf"));
  const auto size = static_cast<std::size_t>(parse_gguf_header(file, "x").data_begin);
  int refused = 0;
  for (std::size_t at = 0; at < size; ++at) {
    for (const char byte : {'\0', '\1', '\x7f', '\xff'}) {
      std::string changed = file;
      changed[at] = byte;
      const std::string message = cause(changed);
      if (message.empty()) continue;
      ++refused;
      ASSERT_THAT(message, HasSubstr(", at byte ")) << at;
    }
  }
  EXPECT_GT(refused, static_cast<int>(size));
}

}  // namespace
}  // namespace locant

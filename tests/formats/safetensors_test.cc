// SPDX-License-Identifier: Apache-2.0
// The reader of one file: right files, then every way of lying.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "core/temp_dir.h"
#include "formats/safetensors_files.h"
#include "formats/safetensors_header.h"
#include "locant/formats.h"

namespace locant {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using tests::entry;
using tests::message_of;
using tests::object;
using tests::safetensors;
using tests::slurp;
using tests::span_of;
using tests::TempDir;

std::string cause(const std::string& file) {
  return message_of<FileError>([&] { (void)parse_safetensors_header(file, "x"); });
}

/// The cause of refusing a file of one header over 8 bytes of data.
std::string cause_of_header(const std::string& header) {
  return cause(safetensors(object(header), "12345678"));
}

TEST(Safetensors, ReadsTensorsAndMetadata) {
  const TempDir dir;
  const std::string header = R"({"__metadata__":{"format":"pt","":""},)" + entry("b", "F32", "[2]", "[0,8]") +
                             "," + entry("a.w", "I64", "[1,2]", "[8,24]") + "," +
                             entry("s", "U8", "[]", "[24,25]") + "," +
                             entry("e", "BF16", "[3,0]", "[25,25]") + "}   ";
  const std::vector<float> b{1.5F, -2.F};
  const std::vector<std::int64_t> a{7, -8};
  std::string data(reinterpret_cast<const char*>(b.data()), 8);
  data.append(reinterpret_cast<const char*>(a.data()), 16);
  data += 'z';
  const std::string path = dir.write("x.safetensors", safetensors(header, data));
  const SafetensorsFile file(path);
  ASSERT_EQ(file.tensors().size(), 4U);
  EXPECT_EQ(file.tensors()[0].name, "a.w");
  EXPECT_EQ(file.tensors()[3].name, "s");
  EXPECT_THAT(file.metadata(), ElementsAre(Pair("", ""), Pair("format", "pt")));
  EXPECT_EQ(file.bytes(), static_cast<std::int64_t>(8 + header.size() + data.size()));

  const StoredTensor* const found = file.find("a.w");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->tensor.dtype, DType::i64);
  EXPECT_EQ(found->tensor.shape_text(), "[1,2]");
  EXPECT_TRUE(found->tensor.is_contiguous());
  EXPECT_EQ(found->path, path);
  EXPECT_EQ(found->file_offset, static_cast<std::int64_t>(8 + header.size() + 8));
  EXPECT_EQ(std::memcmp(found->tensor.data, a.data(), 16), 0);
  EXPECT_EQ(*static_cast<const char*>(file.find("s")->tensor.data), 'z');
  EXPECT_EQ(file.find("s")->tensor.rank, 0U);
  EXPECT_EQ(file.find("e")->tensor.size(), 0);
  EXPECT_NE(file.find("e")->tensor.data, nullptr);
  EXPECT_EQ(file.find("b")->tensor.shape[0], 2);
  EXPECT_EQ(file.find("absent"), nullptr);
  EXPECT_EQ(file.find(""), nullptr);
}

TEST(Safetensors, CopiesShareTheMapping) {
  const TempDir dir;
  const std::string path =
      dir.write("x.safetensors", safetensors(object(entry("a", "U8", "[4]", "[0,4]")), "abcd"));
  auto file = std::make_unique<SafetensorsFile>(path);
  const SafetensorsFile copy = *file;
  const void* const data = file->find("a")->tensor.data;
  file.reset();
  EXPECT_EQ(copy.find("a")->tensor.data, data);
  EXPECT_EQ(std::memcmp(data, "abcd", 4), 0);
}

TEST(Safetensors, EveryDType) {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32,
                            DType::i16, DType::i8, DType::u8, DType::boolean}) {
    const std::string name(safetensors_name_of(dtype));
    const auto header =
        parse_safetensors_header(safetensors(object(entry("a", name, "[1]", span_of(size_of(dtype)))),
                                             std::string(size_of(dtype), '\1')),
                                 "x");
    EXPECT_EQ(header.entries.at(0).dtype, dtype) << name;
  }
}

TEST(Safetensors, ZeroTensorsAreAFile) {
  EXPECT_EQ(parse_safetensors_header(safetensors("{}"), "x").entries.size(), 0U);
  EXPECT_EQ(parse_safetensors_header(safetensors(R"({"__metadata__":{}})"), "x").metadata.size(), 0U);
}

TEST(Safetensors, HeaderLength) {
  EXPECT_EQ(cause(""), "x: a safetensors file begins with 8 bytes of header length, got 0 bytes, at byte 0");
  EXPECT_EQ(cause("1234567"),
            "x: a safetensors file begins with 8 bytes of header length, got 7 bytes, at byte 7");
  EXPECT_EQ(cause(safetensors(1'000'000'000'000'000'000, "{}", "")),
            "x: a header has at most 100000000 bytes, its length says 1000000000000000000, at byte 0");
  EXPECT_EQ(cause(safetensors(~0ULL, "{}", "")),
            "x: a header has at most 100000000 bytes, its length says 18446744073709551615, at byte 0");
  EXPECT_EQ(cause(safetensors(100'000'001, "{}", "")),
            "x: a header has at most 100000000 bytes, its length says 100000001, at byte 0");
  EXPECT_EQ(cause(safetensors(100'000'000, "{}", "")),
            "x: the header says 100000000 bytes, 2 are there, at byte 0");
  EXPECT_EQ(cause(safetensors(3, "{}", "")), "x: the header says 3 bytes, 2 are there, at byte 0");
  EXPECT_EQ(cause(safetensors(0, "", "")), "x: the header does not begin with '{', at byte 8");
}

TEST(Safetensors, HeaderIsNoObject) {
  EXPECT_THAT(cause(safetensors("[]")), HasSubstr("does not begin with '{', at byte 8"));
  EXPECT_THAT(cause(safetensors(" {}")), HasSubstr("does not begin with '{', at byte 8"));
  EXPECT_THAT(cause(safetensors("null")), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(cause(safetensors("{} x")), HasSubstr("x: is no valid JSON, "));
  EXPECT_THAT(cause(safetensors("{\"a\":}")), HasSubstr(", at byte 13"));
  EXPECT_THAT(cause(safetensors("{\"\xff\":1}")), HasSubstr("ill-formed UTF-8"));
  EXPECT_THAT(cause(safetensors(std::string(200'000, '{'))), HasSubstr("is no valid JSON"));
}

TEST(Safetensors, DuplicateNames) {
  EXPECT_THAT(cause_of_header(entry("a", "F32", "[1]", "[0,4]") + "," + entry("a", "F32", "[1]", "[4,8]")),
              HasSubstr("key \"a\" stands twice in one object, at byte "));
}

TEST(Safetensors, EntriesThatAreNone) {
  EXPECT_EQ(cause_of_header("\"a\":3"), "x: tensor \"a\" is an object, got 3");
  EXPECT_EQ(cause_of_header("\"a\":{}"), "x: tensor \"a\" lacks dtype");
  EXPECT_EQ(cause_of_header(R"("a":{"dtype":"F32"})"), "x: tensor \"a\" lacks shape");
  EXPECT_EQ(cause_of_header(R"("a":{"dtype":"F32","shape":[2]})"), "x: tensor \"a\" lacks data_offsets");
  EXPECT_EQ(cause_of_header(R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1})"),
            "x: tensor \"a\" has an unknown key \"x\"");
  EXPECT_EQ(cause_of_header(R"("a\nb":3)"), "x: tensor \"a\\x0ab\" is an object, got 3");
}

TEST(Safetensors, DTypes) {
  EXPECT_EQ(cause_of_header(entry("w.q", "F8_E4M3", "[8]", "[0,8]")),
            "x: tensor \"w.q\" has dtype \"F8_E4M3\", which is not supported");
  EXPECT_THAT(cause_of_header(entry("a", "f32", "[2]", "[0,8]")),
              HasSubstr("dtype \"f32\", which is not supported"));
  EXPECT_THAT(cause_of_header(entry("a", "U16", "[4]", "[0,8]")), HasSubstr("not supported"));
  EXPECT_EQ(cause_of_header(R"("a":{"dtype":4,"shape":[2],"data_offsets":[0,8]})"),
            "x: tensor \"a\" has a dtype that is no string, 4");
}

TEST(Safetensors, Shapes) {
  const auto shaped = [](const std::string& shape) {
    return cause_of_header(entry("a", "F32", shape, "[0,8]"));
  };
  EXPECT_EQ(shaped("2"), "x: tensor \"a\" has a shape that is no list, 2");
  EXPECT_EQ(shaped("[-2]"), "x: tensor \"a\" has an extent that is no whole number below 2^63, -2");
  EXPECT_EQ(shaped("[2.0]"), "x: tensor \"a\" has an extent that is no whole number below 2^63, 2.0");
  EXPECT_EQ(shaped("[\"2\"]"), "x: tensor \"a\" has an extent that is no whole number below 2^63, \"2\"");
  EXPECT_EQ(shaped("[9223372036854775808]"),
            "x: tensor \"a\" has an extent that is no whole number below 2^63, 9223372036854775808");
  EXPECT_THAT(shaped("[99999999999999999999999]"),
              HasSubstr("has an extent that is no whole number below 2^63"));
  EXPECT_EQ(shaped("[1,1,1,1,1,1,2]"), "x: tensor \"a\" has 7 axes, at most 6 are supported");
  EXPECT_EQ(shaped("[4294967296,4294967296]"),
            "x: tensor \"a\" has shape [4294967296,4294967296], which is too large to count");
  EXPECT_EQ(shaped("[0,4294967296,4294967296]"),
            "x: tensor \"a\" has shape [0,4294967296,4294967296], which is too large to count");
  EXPECT_EQ(shaped("[4611686018427387904]"),
            "x: tensor \"a\" has shape [4611686018427387904], which is too large to count");
  EXPECT_EQ(shaped("[3]"), "x: tensor \"a\" has data_offsets of 8 bytes, its shape [3] of f32 needs 12");
  EXPECT_EQ(shaped("[]"), "x: tensor \"a\" has data_offsets of 8 bytes, its shape [] of f32 needs 4");
  EXPECT_EQ(shaped("[0]"), "x: tensor \"a\" has data_offsets of 8 bytes, its shape [0] of f32 needs 0");
}

TEST(Safetensors, Offsets) {
  const auto at = [](const std::string& offsets) {
    return cause_of_header(entry("a", "F32", "[2]", offsets));
  };
  EXPECT_EQ(at("8"), "x: tensor \"a\" has data_offsets that are no pair, 8");
  EXPECT_EQ(at("[8]"), "x: tensor \"a\" has data_offsets that are no pair, [8]");
  EXPECT_EQ(at("[0,4,8]"), "x: tensor \"a\" has data_offsets that are no pair, [0,4,8]");
  EXPECT_EQ(at("[8,0]"), "x: tensor \"a\" has data_offsets that end first, [8,0]");
  EXPECT_EQ(at("[-8,0]"), "x: tensor \"a\" has a data offset that is no whole number below 2^63, -8");
  EXPECT_EQ(at("[0,8.5]"), "x: tensor \"a\" has a data offset that is no whole number below 2^63, 8.5");
  EXPECT_EQ(at("[0,18446744073709551615]"),
            "x: tensor \"a\" has a data offset that is no whole number below 2^63, 18446744073709551615");
  EXPECT_EQ(at("[0,4]"), "x: tensor \"a\" has data_offsets of 4 bytes, its shape [2] of f32 needs 8");
  EXPECT_THAT(at("[8,16]"), HasSubstr("has data_offsets [8,16], the data ends at 8, at byte "));
  EXPECT_THAT(at("[9223372036854775799,9223372036854775807]"), HasSubstr("the data ends at 8"));
}

TEST(Safetensors, CoverOfTheData) {
  const auto two = [](const std::string& first, const std::string& second) {
    return cause_of_header(entry("a", "U8", "[4]", first) + "," + entry("b", "U8", "[4]", second));
  };
  EXPECT_EQ(two("[0,4]", "[4,8]"), "");
  EXPECT_EQ(two("[4,8]", "[0,4]"), "");
  EXPECT_THAT(
      two("[0,4]", "[3,7]"),
      HasSubstr("tensor \"b\" has data_offsets [3,7] inside another tensor, which ends at 4, at byte "));
  EXPECT_THAT(two("[0,4]", "[0,4]"), HasSubstr("inside another tensor"));
  EXPECT_THAT(
      cause_of_header(entry("a", "U8", "[3]", "[0,3]") + "," + entry("b", "U8", "[4]", "[4,8]")),
      HasSubstr("tensor \"b\" has data_offsets [4,8] behind a hole, the tensor before ends at 3, at byte "));
  EXPECT_THAT(cause_of_header(entry("b", "U8", "[4]", "[4,8]")), HasSubstr("behind a hole"));
  EXPECT_THAT(two("[0,4]", "[5,9]"), HasSubstr("the data ends at 8"));
  const std::string header = object(entry("a", "U8", "[4]", "[0,4]"));
  EXPECT_EQ(
      cause(safetensors(header, "12345678")),
      "x: the tensors end at byte 4 of 8 bytes of data, at byte " + std::to_string(8 + header.size() + 4));
  EXPECT_THAT(cause(safetensors("{}", "1")), HasSubstr("the tensors end at byte 0 of 1 bytes of data"));
  // an empty tensor inside another's data overlaps it
  EXPECT_THAT(cause_of_header(entry("a", "U8", "[8]", "[0,8]") + "," + entry("b", "U8", "[0]", "[4,4]")),
              HasSubstr("inside another tensor"));
}

TEST(Safetensors, Metadata) {
  EXPECT_EQ(cause(safetensors(R"({"__metadata__":{"a":1}})")),
            "x: __metadata__ holds strings only, \"a\" is 1");
  EXPECT_EQ(cause(safetensors(R"({"__metadata__":{"a":null}})")),
            "x: __metadata__ holds strings only, \"a\" is null");
  EXPECT_EQ(cause(safetensors(R"({"__metadata__":[]})")), "x: __metadata__ is an object, got []");
  EXPECT_THAT(cause(safetensors(R"({"__metadata__":{"a":"1","a":"2"}})")), HasSubstr("stands twice"));
}

TEST(Safetensors, TruncatedAnywhere) {
  const TempDir dir;
  const std::string header = R"({"__metadata__":{"k":"v"},)" + entry("a", "F32", "[200]", "[0,800]") + "," +
                             entry("b", "I16", "[5,3]", "[800,830]") + "}";
  const std::string file = safetensors(header, std::string(830, 'd'));
  ASSERT_EQ(cause(file), "");
  const std::size_t data_begin = 8 + header.size();
  for (std::size_t size = 0; size <= data_begin; ++size) ASSERT_NE(cause(file.substr(0, size)), "") << size;
  for (std::size_t i = 0; i < 200; ++i) ASSERT_NE(cause(file.substr(0, data_begin + i * 830 / 200)), "") << i;
  ASSERT_NE(cause(file.substr(0, file.size() - 1)), "");
  EXPECT_THROW(SafetensorsFile(dir.write("x", file.substr(0, 100))), FileError);
}

TEST(Safetensors, EveryChangedHeaderByteIsReadOrRefused) {
  const std::string header = R"({"__metadata__":{"k":"v"},)" + entry("a", "F32", "[2,1]", "[0,8]") + "}";
  const std::string file = safetensors(header, "12345678");
  for (std::size_t at = 0; at < 8 + header.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string bad = file;
      bad[at] = static_cast<char>(value);
      (void)cause(bad);  // anything but a FileError passes through and fails the test
    }
  }
}

TEST(Safetensors, MissingFilesAndDirectories) {
  const TempDir dir;
  EXPECT_EQ(message_of<FileError>([&] { SafetensorsFile file(dir.file("x.safetensors")); }),
            dir.file("x.safetensors") + ": cannot be read, no such file or directory");
  EXPECT_EQ(message_of<FileError>([&] { SafetensorsFile file(dir.path()); }),
            dir.path() + ": cannot be read, is a directory");
  EXPECT_THAT(message_of<FileError>([&] { SafetensorsFile file(dir.write("e.safetensors", "")); }),
              HasSubstr("got 0 bytes"));
}

TEST(Safetensors, RealCheckpoint) {
  const std::string data = LOCANT_TEST_DATA_DIR;
  if (data.empty()) GTEST_SKIP() << "no test data is configured";
  const SafetensorsFile file(data + "/rxnmapper-albert/model.safetensors");
  ASSERT_FALSE(file.tensors().empty());
  std::int64_t bytes = 0;
  for (const StoredTensor& stored : file.tensors()) {
    bytes += stored.tensor.size() * static_cast<std::int64_t>(size_of(stored.tensor.dtype));
  }
  EXPECT_LT(bytes, file.bytes());
  EXPECT_GT(bytes, file.bytes() / 2);
}

}  // namespace
}  // namespace locant

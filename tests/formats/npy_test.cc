// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "core/temp_dir.h"
#include "formats/json.h"
#include "formats/npy_header.h"
#include "locant/formats.h"

namespace locant {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using tests::message_of;
using tests::slurp;
using tests::TempDir;

/// A file of version `major` whose dict is `dict`, as it stands.
std::string npy(const std::string& dict, const std::string& data, int major = 1) {
  std::string file("\x93NUMPY", 6);
  file += static_cast<char>(major);
  file += '\0';
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) file += static_cast<char>((dict.size() >> (8 * i)) & 0xffU);
  return file + dict + data;
}

std::string dict(const std::string& descr, const std::string& shape, const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <class T>
std::vector<T> values_of(const NpyArray& array) {
  std::vector<T> values(array.data.size() / sizeof(T));
  std::memcpy(values.data(), array.data.data(), array.data.size());
  return values;
}

std::string cause(const std::string& file) {
  return message_of<FileError>([&] { (void)parse_npy(file, "x.npy"); });
}

TEST(Npy, EveryVersion) {
  for (const int version : {1, 2, 3}) {
    const NpyArray array = parse_npy(npy(dict("<f4", "(2, 1)"), bytes_of<float>({1.5F, -2.F}), version), "x");
    EXPECT_EQ(array.dtype, DType::f32);
    EXPECT_EQ(array.shape, (std::vector<std::int64_t>{2, 1}));
    EXPECT_EQ(values_of<float>(array), (std::vector<float>{1.5F, -2.F}));
  }
}

TEST(Npy, EveryDType) {
  const auto read = [](const std::string& descr, const std::string& data) {
    return parse_npy(npy(dict(descr, "(2,)"), data), "x");
  };
  EXPECT_EQ(values_of<double>(read("<f8", bytes_of<double>({1, 1e300}))), (std::vector<double>{1, 1e300}));
  EXPECT_EQ(read("<f2", bytes_of<std::uint16_t>({1, 2})).dtype, DType::f16);
  EXPECT_EQ(read("|i1", bytes_of<std::int8_t>({-1, 2})).as_int64("x"), (std::vector<std::int64_t>{-1, 2}));
  EXPECT_EQ(read("<i1", bytes_of<std::int8_t>({-1, 2})).dtype, DType::i8);
  EXPECT_EQ(read("<i2", bytes_of<std::int16_t>({-300, 2})).as_int64("x"),
            (std::vector<std::int64_t>{-300, 2}));
  EXPECT_EQ(read("=i4", bytes_of<std::int32_t>({-70000, 2})).as_int64("x"),
            (std::vector<std::int64_t>{-70000, 2}));
  EXPECT_EQ(read("<i8", bytes_of<std::int64_t>({-1LL << 62, 2})).as_int64("x"),
            (std::vector<std::int64_t>{-1LL << 62, 2}));
  EXPECT_EQ(read("|u1", bytes_of<std::uint8_t>({255, 2})).as_int64("x"), (std::vector<std::int64_t>{255, 2}));
  EXPECT_EQ(read("|b1", bytes_of<std::uint8_t>({1, 0})).as_int64("x"), (std::vector<std::int64_t>{1, 0}));
  EXPECT_EQ(read("|b1", bytes_of<std::uint8_t>({1, 0})).dtype, DType::boolean);
}

TEST(Npy, UnsignedIntegersWiden) {
  const auto read = [](const std::string& descr, const std::string& data) {
    return parse_npy(npy(dict(descr, "(2,)"), data), "x");
  };
  const NpyArray u2 = read("<u2", bytes_of<std::uint16_t>({65535, 1}));
  EXPECT_EQ(u2.dtype, DType::i32);
  EXPECT_EQ(u2.as_int64("x"), (std::vector<std::int64_t>{65535, 1}));
  const NpyArray u4 = read("<u4", bytes_of<std::uint32_t>({4294967295U, 1}));
  EXPECT_EQ(u4.dtype, DType::i64);
  EXPECT_EQ(u4.as_int64("x"), (std::vector<std::int64_t>{4294967295LL, 1}));
  EXPECT_EQ(read("<u8", bytes_of<std::uint64_t>({1ULL << 62, 1})).as_int64("x"),
            (std::vector<std::int64_t>{1LL << 62, 1}));
  const std::string big = npy(dict("<u8", "(2,)"), bytes_of<std::uint64_t>({1, 1ULL << 63}));
  EXPECT_EQ(cause(big),
            "x.npy: 9223372036854775808 does not fit 63 bits, at byte " + std::to_string(big.size() - 8));
}

TEST(Npy, FortranOrderBecomesRows) {
  std::vector<std::int32_t> columns(24);  // element (i, j, k) of [2, 3, 4] stands at i + 2 j + 6 k
  std::iota(columns.begin(), columns.end(), 0);
  const NpyArray array = parse_npy(npy(dict("<i4", "(2, 3, 4)", "True"), bytes_of(columns)), "x");
  const auto values = values_of<std::int32_t>(array);
  for (std::int32_t i = 0; i < 2; ++i) {
    for (std::int32_t j = 0; j < 3; ++j) {
      for (std::int32_t k = 0; k < 4; ++k) {
        EXPECT_EQ(values[static_cast<std::size_t>((i * 3 + j) * 4 + k)], i + 2 * j + 6 * k);
      }
    }
  }
}

TEST(Npy, ScalarsEmptiesAndSpelling) {
  EXPECT_EQ(parse_npy(npy(dict("<f4", "()"), bytes_of<float>({3})), "x").shape.size(), 0U);
  const NpyArray empty = parse_npy(npy(dict("<f4", "(3, 0, 2)"), ""), "x");
  EXPECT_EQ(empty.shape, (std::vector<std::int64_t>{3, 0, 2}));
  EXPECT_TRUE(empty.data.empty());
  EXPECT_EQ(parse_npy(npy(dict("<f4", "(3, 0)", "True"), ""), "x").data.size(), 0U);
  const std::string odd = "{\"shape\":(1,2),'fortran_order' : False , \"descr\":'<f4'}";
  EXPECT_EQ(parse_npy(npy(odd, bytes_of<float>({1, 2})), "x").shape.size(), 2U);
}

TEST(Npy, HostileHeaders) {
  const std::string data = bytes_of<float>({1, 2});
  const auto refused = [&](const std::string& header) {
    const std::string what = cause(npy(header, data));
    EXPECT_THAT(what, StartsWith("x.npy: is no npy file that can be read, ")) << header;
    EXPECT_THAT(what, HasSubstr(", at byte ")) << header;
    return what;
  };
  EXPECT_THAT(refused(dict(">f4", "(2,)")), HasSubstr("dtype \">f4\" is big-endian"));
  for (const char* const descr :
       {"<f3", "<f1", "<c8", "|O", "<U4", "<i3", "<u0", "|f4", "|b2", "f4", "<b4", "!f4", ""}) {
    EXPECT_THAT(refused(dict(descr, "(2,)")), HasSubstr("is not supported")) << descr;
  }
  EXPECT_THAT(refused("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}"),
              HasSubstr("structured dtypes"));
  EXPECT_THAT(refused("{'fortran_order': False, 'shape': (2,)}"), HasSubstr("lacks 'descr'"));
  EXPECT_THAT(refused("{'descr': '<f4', 'shape': (2,)}"), HasSubstr("lacks 'fortran_order'"));
  EXPECT_THAT(refused("{'descr': '<f4', 'fortran_order': False}"), HasSubstr("lacks 'shape'"));
  EXPECT_THAT(refused("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}"),
              HasSubstr("'descr' twice"));
  EXPECT_THAT(refused("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}"),
              HasSubstr("unknown key \"x\""));
  EXPECT_THAT(refused(dict("<f4", "(2,)", "0")), HasSubstr("neither True nor False"));
  EXPECT_THAT(refused(dict("<f4", "(2)")), HasSubstr("no tuple"));
  EXPECT_THAT(refused(dict("<f4", "(-2,)")), HasSubstr("no whole number"));
  EXPECT_THAT(refused(dict("<f4", "(2.0,)")), HasSubstr("no tuple"));
  EXPECT_THAT(refused(dict("<f4", "(2L,)")), HasSubstr("no tuple"));
  EXPECT_THAT(refused(dict("<f4", "(,)")), HasSubstr("no whole number"));
  EXPECT_THAT(refused(dict("<f4", "2")), HasSubstr("'('"));
  EXPECT_THAT(refused(dict("<f4", "(1+1,)")), HasSubstr("no tuple"));
  EXPECT_THAT(refused(dict("<f4", "(99999999999999999999,)")), HasSubstr("exceeds 63 bits"));
  EXPECT_THAT(refused(dict("<f4", "(4294967296, 4294967296)")), HasSubstr("too large to count"));
  EXPECT_THAT(refused(dict("<f4", "(0, 4294967296, 4294967296)")), HasSubstr("too large to count"));
  EXPECT_THAT(refused(dict("<f4", "(4611686018427387904,)")), HasSubstr("too large to count"));
  EXPECT_THAT(refused(dict("<f4", "(1, 1, 1, 1, 1, 1, 2)")), HasSubstr("more than 6 axes"));
  EXPECT_THAT(refused(dict("<f4", "(3,)")), HasSubstr("needs 12 bytes of data, 8 are there"));
  EXPECT_THAT(refused(dict("<f4", "(1,)")), HasSubstr("needs 4 bytes of data, 8 are there"));
  EXPECT_THAT(refused("[1]"), HasSubstr("'{'"));
  EXPECT_THAT(refused(""), HasSubstr("'{'"));
  EXPECT_THAT(refused("{'descr"), HasSubstr("does not end"));
  EXPECT_THAT(refused(dict("<f4", "(2,)") + "x"), HasSubstr("goes on after its dict"));
  EXPECT_THAT(refused("{'descr': '<f\\x34', 'fortran_order': False, 'shape': (2,)}"), HasSubstr("escaped"));
  EXPECT_THAT(refused("{'descr': __import__('os'), 'fortran_order': False, 'shape': (2,)}"),
              HasSubstr("no string where one belongs"));
}

TEST(Npy, HostileFiles) {
  EXPECT_EQ(cause(""),
            "x.npy: is no npy file that can be read, it does not begin with the numpy magic, at byte 0");
  EXPECT_THAT(cause("PK\x03\x04zipped npz"), HasSubstr("numpy magic"));
  EXPECT_THAT(cause(npy(dict("<f4", "()"), "abcd", 4)), HasSubstr("version 4.0 is unknown"));
  std::string minor = npy(dict("<f4", "()"), "abcd");
  minor[7] = 1;
  EXPECT_THAT(cause(minor), HasSubstr("version 1.1 is unknown"));
  std::string length = npy(dict("<f4", "()"), "abcd", 2);
  length.replace(8, 4, "\xff\xff\xff\xff");
  EXPECT_THAT(cause(length), HasSubstr("the header says 4294967295 bytes"));
  EXPECT_THAT(cause(npy(dict("|b1", "(2,)"), std::string("\1\2", 2))), HasSubstr("a bool is 0 or 1, got 2"));
}

TEST(Npy, EveryTruncationIsAnError) {
  for (const int version : {1, 2}) {
    const std::string file = npy(dict("<f4", "(2, 3)"), std::string(24, 'x'), version);
    ASSERT_EQ(cause(file), "");
    for (std::size_t size = 0; size < file.size(); ++size) ASSERT_NE(cause(file.substr(0, size)), "") << size;
    ASSERT_NE(cause(file + "x"), "");
  }
}

TEST(Npy, EveryFlippedByteIsReadOrRefused) {
  const std::string file = npy(dict("<i4", "(2, 3)", "True"), std::string(24, 'x'));
  for (std::size_t at = 0; at < file.size(); ++at) {
    for (int value = 0; value < 256; value += 5) {
      std::string bad = file;
      bad[at] = static_cast<char>(value);
      (void)cause(bad);  // anything but a FileError passes through and fails the test
    }
  }
}

TEST(Npy, WrittenFilesComeBack) {
  const TempDir dir;
  std::mt19937 random(3);
  for (const DType dtype :
       {DType::f64, DType::f32, DType::f16, DType::i64, DType::i32, DType::i16, DType::i8, DType::u8}) {
    for (int round = 0; round < 20; ++round) {
      TensorRef tensor;
      tensor.dtype = dtype;
      tensor.rank = random() % 7;
      std::int64_t step = 1;
      for (std::size_t axis = tensor.rank; axis-- > 0;) {
        tensor.shape[axis] = static_cast<std::int64_t>(random() % 4 + (round % 5 == 0 ? 0 : 1));
        tensor.strides[axis] = step;
        step *= tensor.shape[axis];
      }
      std::vector<char> data(static_cast<std::size_t>(step) * size_of(dtype) + 1);
      for (char& byte : data) byte = static_cast<char>(random());
      tensor.data = data.data();
      write_npy(dir.file("x.npy"), tensor);
      const NpyArray array = read_npy(dir.file("x.npy"));
      ASSERT_EQ(array.dtype, dtype);
      ASSERT_EQ(array.shape,
                std::vector<std::int64_t>(tensor.shape.begin(),
                                          tensor.shape.begin() + static_cast<std::ptrdiff_t>(tensor.rank)));
      ASSERT_EQ(array.data.size(), static_cast<std::size_t>(step) * size_of(dtype));
      if (step != 0) {
        ASSERT_EQ(std::memcmp(array.data.data(), data.data(), array.data.size()), 0);
      }
      ASSERT_EQ(parse_npy_header(slurp(dir.file("x.npy")), "x").data_begin % 64, 0);
    }
  }
}

TEST(Npy, AnyStridesAreWritten) {
  const TempDir dir;
  std::vector<float> data(300'000);  // more than one block
  std::iota(data.begin(), data.end(), 0.F);
  const View<const float, 2> transposed(data.data(), {500, 600}, {1, 500});
  write_npy(dir.file("x.npy"), transposed);
  const auto values = values_of<float>(read_npy(dir.file("x.npy")));
  for (std::int64_t i = 0; i < 500; ++i) {
    for (std::int64_t j = 0; j < 600; ++j) {
      ASSERT_EQ(values[static_cast<std::size_t>(i * 600 + j)], transposed(i, j));
    }
  }
  const View<const float, 3> odd(data.data() + 9, {2, 5, 2}, {0, -2, 7});
  write_npy(dir.file("y.npy"), odd);
  const auto small = values_of<float>(read_npy(dir.file("y.npy")));
  for (std::int64_t i = 0; i < 2; ++i) {
    for (std::int64_t j = 0; j < 5; ++j) {
      for (std::int64_t k = 0; k < 2; ++k) {
        ASSERT_EQ(small[static_cast<std::size_t>((i * 5 + j) * 2 + k)], odd(i, j, k));
      }
    }
  }
}

TEST(Npy, WhatCannotBeWritten) {
  const TempDir dir;
  const std::vector<std::uint16_t> data(4);
  EXPECT_EQ(
      message_of<SpecError>([&] { write_npy(dir.file("x"), TensorRef(data.data(), DType::bf16, {4})); }),
      "npy: numpy has no bf16, write f32 instead");
  EXPECT_EQ(message_of<SpecError>([&] { write_npy(dir.file("x"), TensorRef(nullptr, DType::f16, {4})); }),
            "npy: shape [4] has no data");
  EXPECT_EQ(
      message_of<SpecError>([&] { write_npy(dir.file("x"), TensorRef(data.data(), DType::f16, {-4})); }),
      "npy: extents are not negative, got [-4]");
  TensorRef huge(data.data(), DType::f16, {1, 1});
  huge.shape = {1LL << 40, 1LL << 40};
  EXPECT_EQ(message_of<SpecError>([&] { write_npy(dir.file("x"), huge); }),
            "npy: shape [1099511627776,1099511627776] is too large to count");
  TensorRef deep(data.data(), DType::f16, {1});
  deep.rank = 7;
  EXPECT_EQ(message_of<SpecError>([&] { write_npy(dir.file("x"), deep); }),
            "npy: a tensor has at most 6 axes, got 7");
  EXPECT_EQ(
      message_of<FileError>([&] { write_npy(dir.file("no/x"), TensorRef(data.data(), DType::f16, {4})); }),
      dir.file("no/x") + ": cannot be written, there is no directory " + dir.file("no"));
  EXPECT_EQ(message_of<FileError>([&] { write_npy("/dev/full", TensorRef(data.data(), DType::f16, {4})); }),
            "/dev/full: cannot be written, no space left on device");
  EXPECT_TRUE(dir.names().empty());
}

TEST(Npy, FloatsAreNoIntegers) {
  const NpyArray array = parse_npy(npy(dict("<f4", "(1, 2)"), bytes_of<float>({1, 2})), "x");
  EXPECT_EQ(message_of<SpecError>([&] { (void)array.as_int64("--ids-file"); }),
            "--ids-file: expected whole numbers, got f32 [1,2]");
}

TEST(Npy, MissingFilesAndDirectories) {
  const TempDir dir;
  EXPECT_EQ(message_of<FileError>([&] { (void)read_npy(dir.file("x")); }),
            dir.file("x") + ": cannot be read, no such file or directory");
  EXPECT_EQ(message_of<FileError>([&] { (void)read_npy(dir.path()); }),
            dir.path() + ": cannot be read, is a directory");
  EXPECT_THAT(message_of<FileError>([] { (void)read_npy("/dev/null"); }), HasSubstr("numpy magic"));
}

TEST(Npy, GoldenFilesOfNumpy) {
  const std::string data = LOCANT_TEST_DATA_DIR;
  if (data.empty()) GTEST_SKIP() << "no test data is configured";
  const NpyArray ids = read_npy(data + "/capp-gpt2/golden-ids.npy");
  EXPECT_FALSE(is_float(ids.dtype));
  EXPECT_FALSE(ids.as_int64("ids").empty());
  const NpyArray logits = read_npy(data + "/capp-gpt2/golden-logits.npy");
  EXPECT_TRUE(is_float(logits.dtype));
}

}  // namespace
}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "core/temp_dir.h"
#include "formats/safetensors_header.h"
#include "locant/formats.h"

namespace locant {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using tests::message_of;
using tests::slurp;
using tests::TempDir;

TEST(SafetensorsWriter, WhatIsWrittenIsRead) {
  const TempDir dir;
  const std::string path = dir.file("x.safetensors");
  std::mt19937 random(5);
  for (int round = 0; round < 30; ++round) {
    SafetensorsWriter writer(path);
    std::vector<std::vector<char>> kept;
    std::vector<TensorRef> tensors;
    for (std::size_t i = 0; i < random() % 12; ++i) {
      TensorRef tensor;
      tensor.dtype = static_cast<DType>(random() % 10);
      tensor.rank = random() % 7;
      std::int64_t step = 1;
      for (std::size_t axis = tensor.rank; axis-- > 0;) {
        tensor.shape[axis] = static_cast<std::int64_t>(random() % 4);
        tensor.strides[axis] = step;
        step *= tensor.shape[axis];
      }
      kept.emplace_back(static_cast<std::size_t>(step) * size_of(tensor.dtype) + 1);
      for (char& byte : kept.back()) byte = static_cast<char>(random());
      tensor.data = kept.back().data();
      writer.add("t\"" + std::to_string(i) + "\xc3\xa9", tensor);
      tensors.push_back(tensor);
    }
    writer.set_metadata("round", std::to_string(round));
    writer.finish();
    ASSERT_THAT(dir.names(), ElementsAre("x.safetensors"));
    const SafetensorsFile file(path);
    ASSERT_EQ(file.tensors().size(), tensors.size());
    ASSERT_EQ(file.metadata().at("round"), std::to_string(round));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const StoredTensor* const stored = file.find("t\"" + std::to_string(i) + "\xc3\xa9");
      ASSERT_NE(stored, nullptr);
      ASSERT_EQ(stored->tensor.dtype, tensors[i].dtype);
      ASSERT_EQ(stored->tensor.shape_text(), tensors[i].shape_text());
      ASSERT_EQ(std::memcmp(stored->tensor.data, tensors[i].data, kept[i].size() - 1), 0);
    }
  }
}

TEST(SafetensorsWriter, AnyStridesInBoundedBlocks) {
  const TempDir dir;
  std::vector<double> data(200'000);
  std::iota(data.begin(), data.end(), 0.0);
  const View<const double, 2> transposed(data.data(), {400, 500}, {1, 400});
  SafetensorsWriter writer(dir.file("x"));
  writer.add("t", transposed);
  writer.finish();
  const SafetensorsFile file(dir.file("x"));
  std::vector<double> values(data.size());
  std::memcpy(values.data(), file.find("t")->tensor.data, values.size() * sizeof(double));
  for (std::int64_t i = 0; i < 400; ++i) {
    for (std::int64_t j = 0; j < 500; ++j) {
      ASSERT_EQ(values[static_cast<std::size_t>(i * 500 + j)], transposed(i, j));
    }
  }
}

TEST(SafetensorsWriter, DataBeginsAtAMultipleOfEight) {
  const TempDir dir;
  for (std::size_t length = 1; length < 20; ++length) {
    SafetensorsWriter writer(dir.file("x"));
    const std::uint8_t value = 1;
    writer.add(std::string(length, 'n'), TensorRef(&value, DType::u8, {1}));
    writer.finish();
    EXPECT_EQ(parse_safetensors_header(slurp(dir.file("x")), "x").data_begin % 8, 0);
  }
}

TEST(SafetensorsWriter, NothingStandsThereBeforeFinish) {
  const TempDir dir;
  const std::vector<float> data(1000);
  {
    SafetensorsWriter writer(dir.file("x"));
    writer.add("t", TensorRef(data.data(), DType::f32, {1000}));
    EXPECT_THAT(dir.names(), IsEmpty());  // the spool has no name
  }
  EXPECT_THAT(dir.names(), IsEmpty());
  dir.write("x", "old");
  { SafetensorsWriter writer(dir.file("x")); }
  EXPECT_EQ(slurp(dir.file("x")), "old");
}

TEST(SafetensorsWriter, Refusals) {
  const TempDir dir;
  const std::vector<float> data(4);
  const TensorRef tensor(data.data(), DType::f32, {4});
  SafetensorsWriter writer(dir.file("x"));
  writer.add("t", tensor);
  EXPECT_EQ(message_of<SpecError>([&] { writer.add("t", tensor); }),
            "safetensors: tensor \"t\" is added twice");
  EXPECT_EQ(message_of<SpecError>([&] { writer.add("__metadata__", tensor); }),
            "safetensors: \"__metadata__\" is no tensor's name");
  EXPECT_EQ(message_of<SpecError>([&] { writer.add("\xff", tensor); }),
            "safetensors: a tensor's name is utf-8, got \"\\xff\"");
  EXPECT_EQ(message_of<SpecError>([&] { writer.set_metadata("\xff", ""); }),
            "safetensors: a metadata key is utf-8, got \"\\xff\"");
  EXPECT_EQ(message_of<SpecError>([&] { writer.set_metadata("k", "\xff"); }),
            "safetensors: a metadata value is utf-8, got \"\\xff\"");
  EXPECT_EQ(message_of<SpecError>([&] { writer.add("n", TensorRef(data.data(), DType::f32, {-1})); }),
            "safetensors: extents are not negative, got [-1]");
  EXPECT_EQ(message_of<SpecError>([&] { writer.add("n", TensorRef(nullptr, DType::f32, {2})); }),
            "safetensors: shape [2] has no data");
  writer.finish();  // what was refused left no trace
  EXPECT_EQ(SafetensorsFile(dir.file("x")).tensors().size(), 1U);
  EXPECT_EQ(message_of<SpecError>([&] { writer.finish(); }), "safetensors: finish() comes once");
  EXPECT_EQ(message_of<SpecError>([&] { writer.add("u", tensor); }),
            "safetensors: nothing is added after finish()");
  EXPECT_EQ(message_of<SpecError>([&] { writer.set_metadata("u", ""); }),
            "safetensors: nothing is added after finish()");
}

TEST(SafetensorsWriter, PlacesThatCannotBeWritten) {
  const TempDir dir;
  EXPECT_EQ(message_of<FileError>([&] { SafetensorsWriter writer(dir.file("no/x")); }),
            dir.file("no/x") + ": cannot be written, there is no directory " + dir.file("no"));
  EXPECT_EQ(message_of<FileError>([&] { SafetensorsWriter writer(dir.path()); }),
            dir.path() + ": cannot be written, is a directory");
  SafetensorsWriter full("/dev/full");
  EXPECT_EQ(message_of<FileError>([&] { full.finish(); }),
            "/dev/full: cannot be written, no space left on device");
  SafetensorsWriter null("/dev/null");
  null.finish();
}

}  // namespace
}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/temp_dir.h"
#include "formats/safetensors_files.h"
#include "formats/safetensors_index.h"
#include "locant/formats.h"

namespace locant {
namespace {

using ::testing::HasSubstr;
using tests::entry;
using tests::message_of;
using tests::safetensors;
using tests::span_of;
using tests::TempDir;

std::string shard(const std::string& name, const std::string& data) {
  std::string header = R"({"__metadata__":{"format":"pt"},)";
  header += entry(name, "U8", std::string("[").append(std::to_string(data.size())).append("]"),
                  span_of(data.size()));
  header += "}";
  return safetensors(header, data);
}

/// Two shards, "one" holding "a" and "two" holding "b", and an index of `weight_map`.
std::string indexed(const TempDir& dir, const std::string& weight_map) {
  dir.write("one", shard("a", "abc"));
  dir.write("two", shard("b", "defg"));
  return dir.write("model.safetensors.index.json",
                   R"({"metadata":{"total_size":7},"weight_map":)" + weight_map + "}");
}

std::string cause(const TempDir& dir, const std::string& weight_map) {
  const std::string path = indexed(dir, weight_map);
  std::string what = message_of<FileError>([&] { SafetensorsFile file(path); });
  if (what.starts_with(path)) what.erase(0, path.size() + 2);
  return what;
}

TEST(SafetensorsIndex, ReadsAllShards) {
  const TempDir dir;
  const SafetensorsFile file(indexed(dir, R"({"b":"two","a":"one"})"));
  ASSERT_EQ(file.tensors().size(), 2U);
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.find("b")->path, dir.file("two"));
  EXPECT_EQ(file.find("b")->tensor.size(), 4);
  EXPECT_EQ(*static_cast<const char*>(file.find("b")->tensor.data), 'd');
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_GT(file.bytes(), 100);
}

TEST(SafetensorsIndex, MissingAndWrongShards) {
  const TempDir dir;
  EXPECT_EQ(cause(dir, R"({"a":"one","b":"three"})"),
            dir.file("three") + ": cannot be read, no such file or directory");
  EXPECT_EQ(cause(dir, R"({"a":"one","c":"two"})"),
            "weight_map: \"c\" is in \"two\", which does not hold it");
  EXPECT_EQ(cause(dir, R"({"a":"two","b":"one"})"),
            "weight_map: \"a\" is in \"two\", which does not hold it");
  dir.write("copy", shard("a", "abc"));
  EXPECT_THAT(cause(dir, R"({"a":"one","b":"copy"})"), HasSubstr("tensor \"a\" stands in two shards, "));
  dir.write("broken", "123");
  EXPECT_THAT(cause(dir, R"({"a":"broken"})"), HasSubstr("8 bytes of header length"));
}

TEST(SafetensorsIndex, ShardsLieBesideTheIndex) {
  const TempDir dir;
  for (const char* const name : {"../one", "/etc/passwd", "a/one", "..", ".", "", "a\\\\one", "one\\u0000"}) {
    EXPECT_THAT(cause(dir, "{\"a\":\"" + std::string(name) + "\"}"),
                HasSubstr("weight_map: a shard is a file beside the index, \"a\" is in "))
        << name;
  }
}

TEST(SafetensorsIndex, WhatIsNoIndex) {
  const TempDir dir;
  EXPECT_EQ(cause(dir, "[]"), "weight_map names tensors and their shards, got []");
  EXPECT_EQ(cause(dir, "{}"), "weight_map names tensors and their shards, got {}");
  EXPECT_EQ(cause(dir, R"({"a":1})"), "weight_map: the shard of \"a\" is a string, got 1");
  EXPECT_THAT(cause(dir, R"({"a":"one","a":"one"})"), HasSubstr("key \"a\" stands twice"));
  EXPECT_THAT(cause(dir, R"({"a":"one")"), HasSubstr("is no valid JSON"));
  EXPECT_EQ(message_of<FileError>([] { (void)parse_safetensors_index("{}", "x"); }),
            "x: an index has a weight_map, there is none");
  EXPECT_EQ(message_of<FileError>([] { (void)parse_safetensors_index("7", "x"); }),
            "x: an index has a weight_map, there is none");
}

}  // namespace
}  // namespace locant

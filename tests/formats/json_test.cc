// SPDX-License-Identifier: Apache-2.0
#include "formats/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/temp_dir.h"
#include "locant/core.h"

namespace locant {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

FileError error_of(const std::string& text, std::int64_t first_byte = 0) {
  try {
    (void)parse_json(text, "x.json", first_byte);
  } catch (const FileError& error) {
    return error;
  }
  return FileError("", "nothing was thrown");
}

TEST(Json, Values) {
  const Json json =
      parse_json(R"( {"a": [1, -2, 3.5, "\u00e9\n", true, null], "b": {"c": {}}, "": 0} )", "x");
  EXPECT_EQ(json["a"][0], 1);
  EXPECT_EQ(json["a"][1], -2);
  EXPECT_EQ(json["a"][2], 3.5);
  EXPECT_EQ(json["a"][3], "\xc3\xa9\n");
  EXPECT_EQ(json["a"][4], true);
  EXPECT_TRUE(json["a"][5].is_null());
  EXPECT_TRUE(json["b"]["c"].empty());
  EXPECT_EQ(json[""], 0);
  EXPECT_EQ(parse_json("7", "x"), 7);
  EXPECT_EQ(parse_json("18446744073709551615", "x"), 18446744073709551615ULL);
}

TEST(Json, DeepSiblingsKeepTheirPlace) {
  const Json json = parse_json(R"([[1,[2,[3]]],{"a":[{"b":1},{"b":[2]}],"c":3},[4]])", "x");
  EXPECT_EQ(json.dump(), R"([[1,[2,[3]]],{"a":[{"b":1},{"b":[2]}],"c":3},[4]])");
}

TEST(Json, SyntaxErrorsNameTheByteAndTheCause) {
  EXPECT_STREQ(
      error_of("").what(),
      "x.json: is no valid JSON, unexpected end of input; expected '[', '{', or a literal, at byte 0");
  const FileError literal = error_of(R"({"a": tru})");
  EXPECT_EQ(literal.offset, 9);
  EXPECT_THAT(literal.what(), StartsWith("x.json: is no valid JSON, invalid literal; last read: "));
  EXPECT_EQ(error_of(R"({"a": 1)").offset, 7);
  EXPECT_EQ(error_of(R"([1,])").offset, 3);
  EXPECT_EQ(error_of(R"([1] x)").offset, 4);
  EXPECT_EQ(error_of(R"([1] x)", 100).offset, 104);
  EXPECT_THAT(error_of("\"\xff\"").what(), HasSubstr("ill-formed UTF-8"));
  EXPECT_THAT(error_of("[1e999]").what(), HasSubstr("number overflow"));
  EXPECT_THAT(error_of("{'a': 1}").what(), StartsWith("x.json: is no valid JSON"));
  EXPECT_THAT(error_of("[NaN]").what(), StartsWith("x.json: is no valid JSON"));
  EXPECT_THAT(error_of("// c\n1").what(), StartsWith("x.json: is no valid JSON"));
}

TEST(Json, ErrorsAreShortPrintableAndOneLine) {
  const std::string what = error_of("[\"" + std::string(100'000, 'a') + "\n\xc3\xa9").what();
  EXPECT_LT(what.size(), 300U);
  for (const char c : what) EXPECT_TRUE(c >= 0x20 && c < 0x7f);
}

TEST(Json, EveryTruncationIsAnError) {
  const std::string text = R"({"a": [1.5e3, "\u00e9 x", {"b": null}], "c": false})";
  for (std::size_t size = 0; size < text.size(); ++size) {
    const FileError error = error_of(text.substr(0, size));
    ASSERT_THAT(error.what(), StartsWith("x.json: is no valid JSON, ")) << size;
    ASSERT_GE(error.offset, 0);
    ASSERT_LE(error.offset, static_cast<std::int64_t>(size));
  }
}

TEST(Json, AKeyThatComesTwiceIsRefused) {
  EXPECT_STREQ(error_of(R"({"a": 1, "b": {"a": 2}, "a": 3})").what(),
               "x.json: key \"a\" stands twice in one object, at byte 26");
  EXPECT_STREQ(error_of(R"([{"k": {}, "\u006b": 1}])", 8).what(),
               "x.json: key \"k\" stands twice in one object, at byte 26");
  EXPECT_NO_THROW((void)parse_json(R"([{"a": 1}, {"a": 1}])", "x"));
}

TEST(Json, NestingEndsAtOneHundred) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_NO_THROW((void)parse_json(nested(100), "x"));
  EXPECT_STREQ(error_of(nested(101)).what(), "x.json: is nested deeper than 100 levels, at byte 100");
  EXPECT_EQ(error_of(std::string(5'000'000, '[')).offset, 100);
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_EQ(error_of(objects).offset, 500);
}

TEST(Json, MembersAndTexts) {
  const Json json = parse_json(R"({"a": 1})", "x");
  EXPECT_EQ(*find_member(json, "a"), 1);
  EXPECT_EQ(find_member(json, "b"), nullptr);
  EXPECT_EQ(find_member(Json(3), "a"), nullptr);
  EXPECT_EQ(json_text(json), R"({"a":1})");
  EXPECT_EQ(json_text(Json(std::string(200, 'x'))).size(), 83U);
  EXPECT_EQ(json_text(Json(std::vector<int>(1000))), "a list of 1000 members");
}

TEST(Json, FromAFile) {
  const tests::TempDir dir;
  EXPECT_EQ(read_json(dir.write("a.json", "[1]")), Json::array({1}));
  EXPECT_THROW((void)read_json(dir.file("b.json")), FileError);
}

}  // namespace
}  // namespace locant

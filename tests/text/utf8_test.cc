// SPDX-License-Identifier: Apache-2.0
#include "text/utf8.h"

#include <gtest/gtest.h>

namespace locant {
namespace {

TEST(Utf8, AcceptsEveryCodePointAndNothingElse) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c == 0xD800) c = 0xE000;
    const std::string text = utf8_of(c);
    ASSERT_EQ(find_invalid_utf8(text), std::string_view::npos) << static_cast<unsigned>(c);
    ASSERT_EQ(valid_utf8(text), text);
    if (text.size() > 1) {
      ASSERT_EQ(find_invalid_utf8(std::string_view(text).substr(0, text.size() - 1)), 0U);
    }
  }
}

TEST(Utf8, FindsTheFirstBadByte) {
  EXPECT_EQ(find_invalid_utf8("ab\x80"), 2U);
  EXPECT_EQ(find_invalid_utf8("a\xC0\x80"), 1U) << "overlong";
  EXPECT_EQ(find_invalid_utf8("\xED\xA0\x80"), 0U) << "surrogate";
  EXPECT_EQ(find_invalid_utf8("\xF4\x90\x80\x80"), 0U) << "past U+10FFFF";
  EXPECT_EQ(find_invalid_utf8("\xE2\x96"), 0U) << "cut off";
}

TEST(Utf8, ReplacesBadBytesOneByOne) {
  EXPECT_EQ(valid_utf8("a\xFF\xE2z"), "a\xEF\xBF\xBD\xEF\xBF\xBDz");
}

}  // namespace
}  // namespace locant

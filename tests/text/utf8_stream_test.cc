// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "locant/text.h"
#include "text/utf8.h"

namespace locant {
namespace {

TEST(Utf8Stream, NeverSplitsACharacter) {
  for (const char32_t c :
       {U'a', U'\u00E9', U'\u0800', U'\uD7FF', U'\uE000', U'\uFFFD', U'\U00010000', U'\U0010FFFF'}) {
    const std::string text = utf8_of(c);
    Utf8Stream stream;
    for (std::size_t i = 0; i + 1 < text.size(); ++i) EXPECT_EQ(stream.add(text.substr(i, 1)), "");
    EXPECT_EQ(stream.add(text.substr(text.size() - 1)), text);
    EXPECT_EQ(stream.finish(), "");
  }
}

TEST(Utf8Stream, TheSameTextHoweverItIsCut) {
  const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80 \xFF\xC3(\xE2\x82z\xF5\xED\xA0\x80";
  for (std::size_t first = 0; first <= text.size(); ++first) {
    for (std::size_t second = first; second <= text.size(); ++second) {
      Utf8Stream stream;
      std::string got = stream.add(text.substr(0, first));
      got += stream.add(text.substr(first, second - first));
      got += stream.add(text.substr(second));
      got += stream.finish();
      EXPECT_EQ(got, text);
    }
  }
}

TEST(Utf8Stream, WhatCanNoLongerBecomeACharacterComesOut) {
  Utf8Stream stream;
  EXPECT_EQ(stream.add("\xE2\x82"), "");
  EXPECT_EQ(stream.add("z"), "\xE2\x82z");
  EXPECT_EQ(stream.add("\xED\xA0"), "\xED\xA0") << "a surrogate";
  EXPECT_EQ(stream.add("\xC0"), "\xC0") << "overlong";
  EXPECT_EQ(stream.add("\xF4"), "");
  EXPECT_EQ(stream.finish(), "\xF4");
  EXPECT_EQ(stream.finish(), "");
}

}  // namespace
}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
#include "cli/stream.h"

#include <gtest/gtest.h>

namespace locant::cli {
namespace {

using Ids = std::vector<std::int64_t>;

/// Ids are bytes; a leading space of the first token is dropped, as SentencePiece does.
class Bytes final : public Tokenizer {
 public:
  [[nodiscard]] std::string kind() const override { return "bytes"; }
  [[nodiscard]] std::int64_t vocab() const override { return 256; }
  [[nodiscard]] Ids encode(std::string_view text) const override { return {text.begin(), text.end()}; }
  [[nodiscard]] std::string decode(std::span<const std::int64_t> ids) const override {
    std::string text;
    for (const std::int64_t id : ids) text += static_cast<char>(id);
    return text.starts_with(' ') ? text.substr(1) : text;
  }
  [[nodiscard]] std::string piece(std::int64_t id) const override { return std::to_string(id); }
};

/// As Bytes, but an incomplete last character is U+FFFD, as other hosts' tokenizers have it.
class Replacing final : public Tokenizer {
 public:
  [[nodiscard]] std::string kind() const override { return "replacing"; }
  [[nodiscard]] std::int64_t vocab() const override { return 256; }
  [[nodiscard]] Ids encode(std::string_view) const override { return {}; }
  [[nodiscard]] std::string decode(std::span<const std::int64_t> ids) const override {
    std::string bytes = Bytes().decode(ids);
    return take_text(bytes, Take::everything);
  }
  [[nodiscard]] std::string piece(std::int64_t) const override { return {}; }
};

Ids bytes_of(std::string_view text) {
  Ids ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

TEST(TakeText, HoldsBackWhatIsCutOff) {
  std::string bytes = "a\xE2\x96";
  EXPECT_EQ(take_text(bytes, Take::complete), "a");
  EXPECT_EQ(bytes, "\xE2\x96");
  bytes += "\x81";
  EXPECT_EQ(take_text(bytes, Take::complete), "\xE2\x96\x81");
  bytes = "\xF0\x9F\x99";
  EXPECT_EQ(take_text(bytes, Take::everything), "\xEF\xBF\xBD");
  EXPECT_EQ(bytes, "");
}

TEST(TakeText, ReplacesWhatCannotBecomeACharacter) {
  std::string bytes = "a\xFFz\xC0\x80\xED\xA0";
  EXPECT_EQ(take_text(bytes, Take::everything),
            "a\xEF\xBF\xBDz\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(TextStream, GivesTheSameTextAsOneDecode) {
  const std::string text =
      " one \xC3\xA9 two \xE2\x96\x81\xF0\x9F\x99\x82 " + std::string(500, 'x') + " \xE6\x97\xA5";
  for (const char* prompt : {"", "p", "a long prompt of many tokens"}) {
    const Bytes tokenizer;
    TextStream stream(tokenizer, bytes_of(prompt));
    std::string got;
    for (const std::int64_t id : bytes_of(text)) {
      const std::string part = stream.add(id);
      std::string copy = part;
      ASSERT_EQ(take_text(copy, Take::everything), part) << "a broken character was given out";
      got += part;
    }
    got += stream.finish();
    // behind a prompt the leading space belongs to the text
    EXPECT_EQ(got, *prompt == '\0' ? text.substr(1) : text);
  }
}

TEST(TextStream, WaitsForTokenizersThatReplace) {
  const Replacing tokenizer;
  TextStream stream(tokenizer, bytes_of("p"));
  std::string got;
  for (const std::int64_t id : bytes_of("\xC3\xA9!")) got += stream.add(id);
  EXPECT_EQ(got + stream.finish(), "\xC3\xA9!");
}

TEST(Printable, LeavesNoControlCharacters) {
  EXPECT_EQ(printable("a\n\tb\x1B[2J"), "a\n\tb\xEF\xBF\xBD[2J");
  EXPECT_EQ(one_line("a\n\tb\x1B\x7F"), "a\\n\\tb\\x1b\\x7f");
  EXPECT_EQ(characters("\xE2\x96\x81the"), 4U);
}

}  // namespace
}  // namespace locant::cli

// SPDX-License-Identifier: Apache-2.0
#include "text/byte_level.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "folder.h"
#include "locant/core.h"

namespace locant {
namespace {

using test::Folder;
using testing::ElementsAre;
using testing::HasSubstr;
using Ids = std::vector<std::int64_t>;

constexpr int kFirstByte = 4;

/// Four special tokens, then byte b at 4 + b: the layout of the bundled models.
Json bundled_form() {
  Json file;
  int id = 0;
  for (const char* content : {"<s>", "<pad>", "</s>", "<unk>"}) {
    file["added_tokens"].push_back({{"id", id}, {"content", content}, {"special", true}});
    file["model"]["vocab"][content] = id++;
  }
  for (int byte = 0; byte < 256; ++byte) {
    file["model"]["vocab"][byte_character(static_cast<unsigned char>(byte))] = kFirstByte + byte;
  }
  file["model"]["type"] = "BPE";
  file["model"]["merges"] = Json::array();
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  file["decoder"] = {{"type", "ByteLevel"}};
  return file;
}

std::string why_not(const Json& file) {
  return make_byte_level(file, "t.json").why_not;
}

std::unique_ptr<Tokenizer> open(const Json& file) {
  OpenedTokenizer opened = make_byte_level(file, "t.json");
  EXPECT_EQ(opened.why_not, "");
  return std::move(opened.tokenizer);
}

template <class Error, class F>
std::string sentence_of(F&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(ByteCharacter, IsThePublishedMap) {
  EXPECT_EQ(byte_character('A'), "A");
  EXPECT_EQ(byte_character(' '), "\xC4\xA0");   // U+0120
  EXPECT_EQ(byte_character('\n'), "\xC4\x8A");  // U+010A
  EXPECT_EQ(byte_character(0x00), "\xC4\x80");  // U+0100
  EXPECT_EQ(byte_character(0x7F), "\xC4\xA1");  // U+0121
  EXPECT_EQ(byte_character(0xAD), "\xC5\x83");  // U+0143, the last one
  EXPECT_EQ(byte_character(0xFF), "\xC3\xBF");
}

TEST(ByteLevel, GivesBackEveryByte) {
  const auto tokenizer = open(bundled_form());
  std::string text;
  for (int byte = 0; byte < 256; ++byte) text += static_cast<char>(byte);
  const Ids ids = tokenizer->encode(text);
  ASSERT_EQ(ids.size(), 256U);
  for (std::size_t byte = 0; byte < 256; ++byte) EXPECT_EQ(ids[byte], kFirstByte + static_cast<int>(byte));
  EXPECT_EQ(tokenizer->decode(ids), text);
  EXPECT_EQ(tokenizer->vocab(), 260);
  EXPECT_EQ(tokenizer->kind(), "byte-level");
}

TEST(ByteLevel, FindsSpecialTokensInTheText) {
  const auto tokenizer = open(bundled_form());
  // AutoTokenizer of transformers 5.24.0 on the bundled `rope`
  const Ids ids = tokenizer->encode("a<s> b</s>\xC3\xA9\n");
  EXPECT_THAT(ids, ElementsAre(101, 0, 36, 102, 2, 199, 173, 14));
  EXPECT_EQ(tokenizer->decode(ids), "a b\xC3\xA9\n");
  EXPECT_EQ(tokenizer->piece(0), "<s>");
  EXPECT_EQ(tokenizer->piece(36), "\xC4\xA0");
  EXPECT_EQ(tokenizer->piece(260), "<id 260>");
  EXPECT_EQ(tokenizer->decode(Ids{260, -1}), "");
  EXPECT_TRUE(tokenizer->encode("").empty());
}

TEST(ByteLevel, PrefersTheLongestAddedToken) {
  Json file = bundled_form();
  file["added_tokens"].push_back({{"id", 260}, {"content", "<s>!"}, {"special", false}});
  const auto tokenizer = open(file);
  EXPECT_THAT(tokenizer->encode("<s>!<s>"), ElementsAre(260, 0));
  EXPECT_EQ(tokenizer->decode(Ids{260, 0}), "<s>!");
  EXPECT_EQ(tokenizer->vocab(), 261);
}

TEST(ByteLevel, PutsTheTemplateAroundThePrompt) {
  Json file = bundled_form();
  file["post_processor"] = Json::parse(R"({"type": "Sequence", "processors": [
      {"type": "ByteLevel", "trim_offsets": true},
      {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
       "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]},
                          "</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]}}}]})");
  EXPECT_THAT(open(file)->encode("a"), ElementsAre(0, 101, 2));
  const std::int64_t vocab = open(file)->vocab();
  file["post_processor"]["processors"][1]["special_tokens"]["</s>"]["ids"] = {vocab};
  EXPECT_EQ(
      sentence_of<FileError>([&] { (void)make_byte_level(file, "t.json"); }),
      "t.json: post_processor adds ids below " + std::to_string(vocab) + ", got " + std::to_string(vocab));
  file["post_processor"]["processors"][1]["special_tokens"].erase("</s>");
  EXPECT_THAT(sentence_of<FileError>([&] { (void)make_byte_level(file, "t.json"); }),
              HasSubstr("t.json: TemplateProcessing names an unknown special token"));
}

TEST(ByteLevel, NamesAByteThatTheVocabularyLacks) {
  Json file = bundled_form();
  file["model"]["vocab"].erase(byte_character(0xC3));
  const auto tokenizer = open(file);
  EXPECT_EQ(sentence_of<SpecError>([&] { (void)tokenizer->encode("caf\xC3\xA9"); }),
            "text: byte 0xc3 at byte 3 of the text is not in the vocabulary");
  file["model"]["unk_token"] = "<unk>";
  EXPECT_THAT(why_not(file), HasSubstr("has an unknown token for bytes that it lacks"));
}

TEST(ByteLevel, RefusesAddedTokensWithRulesOfTheirOwnWhereTheyStand) {
  Json file = bundled_form();
  file["added_tokens"].push_back({{"id", 260}, {"content", "<mask>"}, {"lstrip", true}});
  const auto tokenizer = open(file);
  EXPECT_EQ(tokenizer->encode("a <mas k>").size(), 9U);
  EXPECT_EQ(
      sentence_of<SpecError>([&] { (void)tokenizer->encode("a <mask>"); }),
      "text: the added token \"<mask>\" at byte 2 takes the spaces beside it, which Locant does not follow; "
      "use --ids");
}

TEST(ByteLevel, SaysWhyAFileIsNoneOfThisKind) {
  Json file = bundled_form();
  file["model"]["merges"] = {"a b", "c d"};
  EXPECT_EQ(
      why_not(file),
      "text: tokenizer.json is BPE with 2 merges; Locant reads byte-level vocabularies without merges and "
      "SentencePiece, use --ids");
  const auto changed = [](std::string_view pointer, const Json& value) {
    Json other = bundled_form();
    other[Json::json_pointer(std::string(pointer))] = value;
    return why_not(other);
  };
  EXPECT_THAT(changed("/model/type", "WordPiece"), HasSubstr("tokenizer.json is WordPiece;"));
  EXPECT_THAT(changed("/normalizer", {{"type", "NFC"}}), HasSubstr("has a normalizer;"));
  EXPECT_THAT(changed("/pre_tokenizer", nullptr), HasSubstr("has no ByteLevel pre-tokenizer;"));
  EXPECT_THAT(changed("/pre_tokenizer/add_prefix_space", true),
              HasSubstr("puts a space in front of the text;"));
  EXPECT_THAT(changed("/decoder", nullptr), HasSubstr("has no ByteLevel decoder;"));
  EXPECT_THAT(changed("/model/ignore_merges", true), HasSubstr("sets ignore_merges;"));
  EXPECT_THAT(changed("/model/end_of_word_suffix", "</w>"), HasSubstr("sets end_of_word_suffix;"));
  EXPECT_THAT(changed("/post_processor", {{"type", "BertProcessing"}}),
              HasSubstr("has the post-processor BertProcessing;"));
}

TEST(ByteLevel, RefusesDamagedFiles) {
  const auto damaged = [](std::string_view pointer, const Json& value) {
    Json file = bundled_form();
    file[Json::json_pointer(std::string(pointer))] = value;
    return sentence_of<FileError>([&] { (void)make_byte_level(file, "t.json"); });
  };
  EXPECT_EQ(damaged("/model", 3), "t.json: a tokenizer needs an object `model`");
  EXPECT_EQ(damaged("/model/vocab", Json::array()), "t.json: a BPE model needs an object `vocab`");
  EXPECT_EQ(damaged("/model/vocab/A", -1), "t.json: the id of \"A\" must be 0 ... 2^31 - 1, got -1");
  EXPECT_EQ(damaged("/model/vocab/A", 1e99), "t.json: the id of \"A\" must be 0 ... 2^31 - 1, got 1e+99");
  EXPECT_EQ(damaged("/model/vocab/B", 'A' + kFirstByte), "t.json: id 69 stands for both \"A\" and \"B\"");
  EXPECT_EQ(damaged("/added_tokens", 1), "t.json: added_tokens must be a list, got 1");
  EXPECT_THAT(damaged("/added_tokens/0/id", "x"), HasSubstr("an added token needs a whole number as id"));
  EXPECT_THAT(damaged("/added_tokens/0/special", 1), HasSubstr("special must be true or false, got 1"));
}

TEST(OpenTokenizer, LooksIntoADirectory) {
  const Folder folder;
  EXPECT_EQ(open_tokenizer(folder.path()).why_not,
            "text: there is no tokenizer.json or tokenizer.model beside the model; use --ids");
  folder.put("tokenizer.json", bundled_form().dump());
  const OpenedTokenizer opened = open_tokenizer(folder.path());
  ASSERT_NE(opened.tokenizer, nullptr);
  EXPECT_THAT(opened.tokenizer->encode("a"), ElementsAre(101));
}

TEST(OpenTokenizer, RefusesEveryTruncation) {
  const Folder folder;
  const std::string whole = bundled_form().dump();
  for (std::size_t length = 0; length < whole.size(); length += 61) {
    folder.put("tokenizer.json", whole.substr(0, length));
    EXPECT_THROW((void)open_tokenizer(folder.path()), FileError) << length;
  }
}

TEST(OpenTokenizer, RefusesADirectoryInPlaceOfAFile) {
  const Folder folder;
  std::filesystem::create_directory(std::filesystem::path(folder.path()) / "tokenizer.json");
  EXPECT_THROW((void)open_tokenizer(folder.path()), FileError);
}

TEST(OpenTokenizer, SaysThatATiktokenTableIsNone) {
  const Folder folder;
  folder.put("tokenizer.model", "IQ== 0\nIg== 1\n");
  EXPECT_THAT(open_tokenizer(folder.path()).why_not, HasSubstr("tokenizer.model is a tiktoken table"));
}

}  // namespace
}  // namespace locant

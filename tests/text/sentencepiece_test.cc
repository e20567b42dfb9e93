// SPDX-License-Identifier: Apache-2.0
#include "text/sentencepiece.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "folder.h"
#include "locant/core.h"
#include "text/model_proto.h"

namespace locant {
namespace {

using test::bytes_of;
using test::Folder;
using testing::ElementsAre;
using testing::HasSubstr;
using Ids = std::vector<std::int64_t>;

std::string data_path(std::string_view name) {
  return std::string(LOCANT_TEST_DATA_DIR "/") + std::string(name);
}

class SentencePieceTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string_view(LOCANT_TEST_DATA_DIR).empty()) GTEST_SKIP() << "no LOCANT_TEST_DATA";
  }
};

std::unique_ptr<Tokenizer> open(const std::string& directory) {
  OpenedTokenizer opened = open_tokenizer(directory);
  EXPECT_EQ(opened.why_not, "");
  return std::move(opened.tokenizer);
}

TEST_F(SentencePieceTest, EqualsTransformersOnStories260K) {
  const auto tokenizer = open(data_path("stories260k/hf"));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->kind(), "sentencepiece");
  EXPECT_EQ(tokenizer->vocab(), 512);
  const Json golden = Json::parse(bytes_of(LOCANT_SOURCE_DIR "/tests/text/stories260k.json"));
  ASSERT_GT(golden["cases"].size(), 20U);
  for (const Json& item : golden["cases"]) {
    const auto text = item["text"].get<std::string>();
    const Ids ids = item["ids"].get<Ids>();
    EXPECT_EQ(tokenizer->encode(text), ids) << text;
    EXPECT_EQ(tokenizer->decode(ids), item["decoded"].get<std::string>()) << text;
  }
}

TEST_F(SentencePieceTest, ShowsPieces) {
  const auto tokenizer = open(data_path("stories260k/hf"));
  EXPECT_EQ(tokenizer->piece(1), "<s>");
  EXPECT_EQ(tokenizer->piece(403), "\xE2\x96\x81Once");
  EXPECT_EQ(tokenizer->piece(13), "<0x0A>");
  EXPECT_EQ(tokenizer->piece(512), "<id 512>");
  EXPECT_EQ(tokenizer->piece(-1), "<id -1>");
  EXPECT_EQ(tokenizer->decode(Ids{-1, 512, 1, 2}), "");
  EXPECT_EQ(tokenizer->decode(Ids{1, 233, 154}), "\xE6\x97") << "a character that is not complete";
}

TEST_F(SentencePieceTest, RefusesWhatIsNotUtf8) {
  const auto tokenizer = open(data_path("stories260k/hf"));
  try {
    (void)tokenizer->encode("ab\xFFz");
    FAIL();
  } catch (const SpecError& error) {
    EXPECT_STREQ(error.what(), "text: byte 0xff at byte 2 of the text is not UTF-8");
  }
}

TEST_F(SentencePieceTest, ReadsAModelAlone) {
  const Folder folder;
  folder.put("tokenizer.model", bytes_of(data_path("sentencepiece-models/mistral-tokenizer.model.v1")));
  const auto tokenizer = open(folder.path());
  // ids of python3-sentencepiece 0.1.97, with <s> in front as Llama has it
  EXPECT_THAT(tokenizer->encode("Hello  world 123 \xC3\xA9"),
              ElementsAre(1, 22557, 28705, 1526, 28705, 28740, 28750, 28770, 1233));
  EXPECT_THAT(tokenizer->encode("Hello<s>Hello"), ElementsAre(1, 22557, 1, 22557));
  EXPECT_EQ(tokenizer->vocab(), 32000);
}

TEST_F(SentencePieceTest, FollowsTheConfigOnSpecialTokens) {
  const Folder folder;
  folder.put("tokenizer.model", bytes_of(data_path("sentencepiece-models/mistral-tokenizer.model.v1")));
  folder.put("tokenizer_config.json", R"({"add_bos_token": false, "add_eos_token": true})");
  EXPECT_THAT(open(folder.path())->encode("Hello"), ElementsAre(22557, 2));
  folder.put("tokenizer_config.json", R"({"add_bos_token": "yes"})");
  EXPECT_THROW((void)open_tokenizer(folder.path()), FileError);
}

TEST_F(SentencePieceTest, FollowsThePostProcessor) {
  const Folder folder;
  folder.put("tokenizer.model", bytes_of(data_path("stories260k/hf/tokenizer.model")));
  Json file = Json::parse(bytes_of(data_path("stories260k/hf/tokenizer.json")));
  file["post_processor"] = nullptr;
  folder.put("tokenizer.json", file.dump());
  EXPECT_THAT(open(folder.path())->encode("Once"), ElementsAre(1, 403))
      << "Llama's default without a statement";
  file["post_processor"] = {{"type", "ByteLevel"}};
  folder.put("tokenizer.json", file.dump());
  EXPECT_THAT(open(folder.path())->encode("Once"), ElementsAre(403));
}

TEST_F(SentencePieceTest, PutsTheLeadingSpaceWhereTheFilesWantIt) {
  const Folder folder;
  folder.put("tokenizer.model", bytes_of(data_path("sentencepiece-models/mistral-tokenizer.model.v1")));
  folder.put("tokenizer_config.json", R"({"legacy": false})");
  // "Hello" without a leading space is another piece
  const Ids ids = open(folder.path())->encode("Hello<s>Hello");
  ASSERT_EQ(ids.size(), 4U);
  EXPECT_EQ(ids[1], 22557);
  EXPECT_EQ(open(folder.path())->piece(ids[3]), "Hello");
}

TEST_F(SentencePieceTest, RefusesFilesThatDisagree) {
  const Folder folder;
  folder.put("tokenizer.model", bytes_of(data_path("sentencepiece-models/mistral-tokenizer.model.v1")));
  folder.put("tokenizer.json", bytes_of(data_path("stories260k/hf/tokenizer.json")));
  EXPECT_THAT(open_tokenizer(folder.path()).why_not,
              HasSubstr("text: tokenizer.json and tokenizer.model disagree on id "));
}

TEST_F(SentencePieceTest, ReadsUnigramModels) {
  const Folder folder;
  folder.put("tokenizer.model",
             bytes_of(data_path("sentencepiece-models/sentencepiece-test-unigram-1000.model")));
  const auto tokenizer = open(folder.path());
  const Ids ids = tokenizer->encode("\xEF\xBC\xA8\xEF\xBD\x89 there");  // full-width letters are normalised
  EXPECT_EQ(tokenizer->decode(ids), "Hi there");
  EXPECT_EQ(ids.front(), 1);
}

TEST_F(SentencePieceTest, SaysWhyOtherTokenizersAreNotRead) {
  const Folder folder;
  for (const auto& [name, why] : {std::pair("bert-uncased-wordpiece", "tokenizer.json is WordPiece;"),
                                  std::pair("qwen2-style-bpe-2000", "tokenizer.json is BPE with ")}) {
    folder.put("tokenizer.json",
               bytes_of(data_path(std::string("hf-tokenizer-json/") + name + ".tokenizer.json")));
    EXPECT_THAT(open_tokenizer(folder.path()).why_not, HasSubstr(why));
  }
}

TEST_F(SentencePieceTest, RefusesTruncatedAndForeignFiles) {
  const Folder folder;
  const std::string whole = bytes_of(data_path("stories260k/hf/tokenizer.model"));
  folder.put("tokenizer.model", "");
  EXPECT_THROW((void)open_tokenizer(folder.path()), FileError);
  folder.put("tokenizer.model", "version https://git-lfs.github.com/spec/v1\n");
  EXPECT_THROW((void)open_tokenizer(folder.path()), FileError);
  folder.put("tokenizer.model", whole.substr(0, whole.size() - 3));
  EXPECT_THROW((void)open_tokenizer(folder.path()), FileError);
}

// A cut that falls between two fields leaves a smaller model that is well-formed: accepted or refused, never
// a crash.
TEST_F(SentencePieceTest, SurvivesDamageOfEveryKind) {
  std::mt19937 random(7);
  const SentencePieceFiles none;
  for (const char* name :
       {"stories260k/hf/tokenizer.model", "sentencepiece-models/sentencepiece-test-unigram-1000.model"}) {
    const std::string whole = bytes_of(data_path(name));
    int refused = 0;
    constexpr int kTries = 300;
    for (int i = 0; i < kTries; ++i) {
      SentencePieceFiles files;
      files.model = whole;
      files.model_path = std::string("m");
      if (i % 3 == 0) files.model.resize(random() % whole.size());
      for (int flips = i % 3 * 2; flips > 0; --flips) {
        files.model[random() % files.model.size()] = static_cast<char>(random());
      }
      try {
        const OpenedTokenizer opened = make_sentencepiece(files);
        const Ids ids = opened.tokenizer->encode("Once \xEF\xBD\x89\xE2\x84\xA2 upon");
        (void)opened.tokenizer->decode(ids);
      } catch (const FileError&) {
        ++refused;
      }
    }
    EXPECT_GT(refused, kTries / 4);
  }
}

TEST_F(SentencePieceTest, RefusesPiecesWithANul) {
  // field 1 { field 1 = a piece of three bytes }
  const std::string start("\x0A\x05\x0A\x03", 4);
  EXPECT_NO_THROW(check_model_proto(start + "a b", "m"));
  try {
    check_model_proto(start + std::string("a\0b", 3), "m");
    FAIL() << "accepted";
  } catch (const FileError& error) {
    EXPECT_STREQ(error.what(), "m: not a SentencePiece model (a piece holds a NUL), at byte 5");
  }
}

TEST_F(SentencePieceTest, ChecksTheNormalisationRules) {
  const std::string whole = bytes_of(data_path("sentencepiece-models/sentencepiece-test-unigram-1000.model"));
  EXPECT_NO_THROW(check_model_proto(whole, "m"));
  // field 3 { field 2 = a map }
  const auto model = [](std::string map) {
    const std::string spec = "\x12" + std::string(1, static_cast<char>(map.size() % 128 | 0x80)) +
                             std::string(1, static_cast<char>(map.size() / 128)) + map;
    return "\x1A" + std::string(1, static_cast<char>(spec.size() % 128 | 0x80)) +
           std::string(1, static_cast<char>(spec.size() / 128)) + spec;
  };
  std::string map(4 + 1024, '\0');
  map[1] = 4;  // 1024 bytes of trie
  // the root leads to base 0; unit 97 has label 'a', a value, and offset 1: the value stands in unit 96
  const std::uint32_t root = 0;
  const std::uint32_t step = (1U << 10) | (1U << 8) | 97U;
  map.replace(4, 4, reinterpret_cast<const char*>(&root), 4);
  map.replace(4 + 97 * 4, 4, reinterpret_cast<const char*>(&step), 4);
  const std::string good = map + std::string("b\0", 2);
  EXPECT_NO_THROW(check_model_proto(model(good), "m"));
  const auto refused = [&](const std::string& bad) {
    try {
      check_model_proto(model(bad), "m");
    } catch (const FileError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const std::string sentence =
      "m: not a SentencePiece model (its normalisation rules lead outside themselves), at byte 6";
  EXPECT_EQ(refused(map), sentence) << "no strings";
  EXPECT_EQ(refused(map + "b"), sentence) << "strings do not end";
  EXPECT_EQ(refused(good.substr(0, 1000)), sentence) << "trie cut off";
  std::string far = good;
  const std::uint32_t beyond = (300U << 10) | 97U;
  far.replace(4 + 97 * 4, 4, reinterpret_cast<const char*>(&beyond), 4);
  EXPECT_EQ(refused(far), sentence) << "a path leaves the trie";
  std::string value = good;
  value[4 + 96 * 4] = 2;
  EXPECT_EQ(refused(value), sentence) << "a value past the strings";
}

}  // namespace
}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// Vocabularies in GGUF keys against the ids that Hugging Face tokenizers give, byte-level ids to text, and
// keys that contradict each other.
#include "text/gguf_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "core/temp_dir.h"
#include "folder.h"
#include "formats/gguf_writer.h"
#include "locant/core.h"

namespace locant {
namespace {

using test::bytes_of;
using testing::ElementsAre;
using testing::HasSubstr;
using tests::GgufModel;
using tests::TempDir;
using Ids = std::vector<std::int64_t>;

std::string data_path(std::string_view name) {
  return std::string(LOCANT_TEST_DATA_DIR "/") + std::string(name);
}

class WithData : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string_view(LOCANT_TEST_DATA_DIR).empty()) GTEST_SKIP() << "no LOCANT_TEST_DATA";
  }
};

std::vector<std::string> inputs(const std::string& path) {
  const std::string text = bytes_of(path);
  constexpr std::string_view kBetween = "\n__ggml_vocab_test__\n";
  std::vector<std::string> cases;
  for (std::size_t at = 0;;) {
    const std::size_t end = text.find(kBetween, at);
    if (end == std::string::npos) return cases;  // the last one ends too
    cases.push_back(text.substr(at, end - at));
    at = end + kBetween.size();
  }
}

std::vector<Ids> outputs(const std::string& path) {
  std::istringstream lines(bytes_of(path));
  std::vector<Ids> cases;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Ids& ids = cases.emplace_back();
    for (std::int64_t id = 0; words >> id;) ids.push_back(id);
  }
  return cases;
}

class GgufVocabulary : public WithData {};

TEST_F(GgufVocabulary, Phi3GivesThePublishedIds) {
  const std::string path = data_path("ggml-vocab-gguf/ggml-vocab-phi-3.gguf");
  const OpenedTokenizer opened = open_tokenizer(path);
  ASSERT_EQ(opened.why_not, "");
  EXPECT_EQ(opened.tokenizer->kind(), "sentencepiece");
  EXPECT_EQ(opened.tokenizer->vocab(), 32064);
  const auto texts = inputs(path + ".inp");
  const auto want = outputs(path + ".out");
  ASSERT_GT(texts.size(), 40U);
  ASSERT_EQ(want.size(), texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Ids ids = opened.tokenizer->encode(texts[i]);
    ASSERT_FALSE(ids.empty());
    EXPECT_EQ(ids.front(), 1) << "the file asks for bos";
    ids.erase(ids.begin());
    EXPECT_EQ(ids, want[i]) << texts[i];
    EXPECT_EQ(opened.tokenizer->decode(ids), texts[i]);
  }
}

TEST_F(GgufVocabulary, Phi3FindsSpecialTokensInTheText) {
  const auto opened = open_tokenizer(data_path("ggml-vocab-gguf/ggml-vocab-phi-3.gguf"));
  ASSERT_NE(opened.tokenizer, nullptr);
  const Ids ids = opened.tokenizer->encode("<|user|>\nHi<|end|>");
  EXPECT_EQ(ids.front(), 1);
  EXPECT_EQ(ids.at(1), 32010);
  EXPECT_EQ(ids.back(), 32007);
}

TEST_F(GgufVocabulary, Stories260KEqualsItsHuggingFaceForm) {
  const Json golden = Json::parse(bytes_of(LOCANT_SOURCE_DIR "/tests/text/stories260k.json"));
  for (const char* const name : {"stories260k/stories260K-f32.gguf", "stories260k/stories260K-f16.gguf",
                                 "stories260k/stories260K.bin"}) {
    const OpenedTokenizer opened = open_tokenizer(data_path(name));
    ASSERT_EQ(opened.why_not, "") << name;
    EXPECT_EQ(opened.tokenizer->vocab(), 512);
    std::size_t compared = 0;
    for (const Json& item : golden["cases"]) {
      const auto text = item["text"].get<std::string>();
      // the .model drops spaces beside spaces and at the ends; no key of the others asks for that
      if (text.find("  ") != std::string::npos || text.ends_with(' ') ||
          text.find(" </s>") != std::string::npos)
        continue;
      ++compared;
      EXPECT_EQ(opened.tokenizer->encode(text), item["ids"].get<Ids>()) << name << ": " << text;
      EXPECT_EQ(opened.tokenizer->decode(item["ids"].get<Ids>()), item["decoded"].get<std::string>())
          << name << ": " << text;
    }
    EXPECT_GT(compared, 15U);
  }
}

TEST_F(GgufVocabulary, ByteLevelIdsBecomeTheText) {
  for (const char* const name : {"gpt-2", "mpt", "falcon"}) {
    const std::string path = data_path("ggml-vocab-gguf/ggml-vocab-") + name + ".gguf";
    const OpenedTokenizer opened = open_tokenizer(path);
    ASSERT_NE(opened.tokenizer, nullptr);
    EXPECT_EQ(opened.tokenizer->kind(), "byte-level-merges");
    EXPECT_THAT(opened.why_not, HasSubstr("does not make"));
    EXPECT_THROW((void)opened.tokenizer->encode("a"), SpecError);
    const auto texts = inputs(path + ".inp");
    const auto ids = outputs(path + ".out");
    ASSERT_EQ(ids.size(), texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i)
      EXPECT_EQ(opened.tokenizer->decode(ids[i]), texts[i]) << name;
  }
}

TEST_F(GgufVocabulary, OtherKindsAreRefusedByName) {
  const OpenedTokenizer opened = open_tokenizer(data_path("ggml-vocab-gguf/ggml-vocab-bert-bge.gguf"));
  EXPECT_EQ(opened.tokenizer, nullptr);
  EXPECT_THAT(opened.why_not, HasSubstr("got bert"));
}

GgufModel letters() {
  GgufModel model;
  model.set("tokenizer.ggml.model", "llama")
      .set("tokenizer.ggml.tokens",
           std::vector<std::string>{"<unk>", "<s>", "</s>", "a", "b", "\xE2\x96\x81", "ab"})
      .set("tokenizer.ggml.scores", std::vector<float>{0, 0, 0, -1, -2, -3, -4})
      .set("tokenizer.ggml.token_type", std::vector<int>{2, 3, 3, 1, 1, 1, 1});
  return model;
}

class GgufKeys : public testing::Test {
 protected:
  OpenedTokenizer open(const GgufModel& model) { return open_tokenizer(dir_.write("m.gguf", model.bytes())); }
  std::string damage(const GgufModel& model) {
    try {
      (void)open(model);
    } catch (const FileError& error) {
      return error.what();
    }
    return "";
  }

 private:
  TempDir dir_;
};

TEST_F(GgufKeys, SayWhatStandsAroundAPrompt) {
  const auto ids = [&](const GgufModel& model) { return open(model).tokenizer->encode("ab"); };
  EXPECT_THAT(ids(letters()), ElementsAre(1, 5, 6));
  EXPECT_THAT(ids(letters().set("tokenizer.ggml.add_bos_token", false)), ElementsAre(5, 6));
  EXPECT_THAT(ids(letters().set("tokenizer.ggml.add_eos_token", true)), ElementsAre(1, 5, 6, 2));
  EXPECT_THAT(ids(letters().set("tokenizer.ggml.add_space_prefix", false)), ElementsAre(1, 6));
  EXPECT_THAT(ids(letters().set("tokenizer.ggml.bos_token_id", 2)), ElementsAre(2, 5, 6));
}

TEST_F(GgufKeys, SpecialTokensAreFoundAndLeftOutOfTheText) {
  const OpenedTokenizer opened = open(letters());
  EXPECT_THAT(opened.tokenizer->encode("a</s>b"), ElementsAre(1, 5, 3, 2, 5, 4));
  EXPECT_EQ(opened.tokenizer->decode(Ids{1, 5, 6, 2, 5, 3}), "ab a");
  EXPECT_EQ(opened.tokenizer->piece(2), "</s>");
}

TEST_F(GgufKeys, AVocabularyWithoutBytesSaysUnknown) {
  EXPECT_THAT(open(letters()).tokenizer->encode("az"), ElementsAre(1, 5, 3, 0));
}

TEST_F(GgufKeys, ContradictionsAreNamed) {
  EXPECT_THAT(damage(letters().drop("tokenizer.ggml.tokens")), HasSubstr("tokenizer.ggml.tokens"));
  EXPECT_THAT(damage(letters().set("tokenizer.ggml.scores", std::vector<float>{1})),
              HasSubstr("one value for each of 7 tokens, got 1"));
  EXPECT_THAT(damage(letters().set("tokenizer.ggml.token_type", std::vector<int>{2, 3})),
              HasSubstr("one value for each of 7 tokens, got 2"));
  EXPECT_THAT(damage(letters().set("tokenizer.ggml.token_type", std::vector<int>{2, 3, 3, 1, 1, 1, 9})),
              HasSubstr("types 0 ... 6, got 9"));
  EXPECT_THAT(damage(letters().set("tokenizer.ggml.bos_token_id", 7)), HasSubstr("an id below 7, got 7"));
  EXPECT_THAT(damage(letters().set("tokenizer.ggml.model", 3)), HasSubstr("tokenizer.ggml.model"));
  EXPECT_THAT(damage(letters().set("tokenizer.ggml.tokens",
                                   std::vector<std::string>{"<unk>", "<s>", "</s>", "a", "a", "b", "c"})),
              HasSubstr("not a SentencePiece model"));
}

TEST_F(GgufKeys, AFileWithoutAVocabularySaysSo) {
  GgufModel none;
  none.set("general.architecture", "llama");
  EXPECT_THAT(open(none).why_not, HasSubstr("holds no tokenizer"));
  EXPECT_THAT(open(letters().set("tokenizer.ggml.model", "rwkv")).why_not, HasSubstr("got rwkv"));
}

}  // namespace
}  // namespace locant

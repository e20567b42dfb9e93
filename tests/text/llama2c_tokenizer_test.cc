// SPDX-License-Identifier: Apache-2.0
// llama2.c's tokenizer.bin: where it lies, and what is wrong with it.
#include "text/llama2c_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/temp_dir.h"
#include "formats/gguf_files.h"
#include "locant/core.h"

namespace locant {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using tests::raw;
using tests::TempDir;

std::string piece(float score, std::string_view text) {
  return raw(score) + raw(static_cast<std::int32_t>(text.size())) + std::string(text);
}

/// 259 special and byte pieces, then a space, "a" and " a".
std::string table() {
  std::string bytes = raw(std::int32_t{6}) + piece(0, "<unk>") + piece(0, "\n<s>\n") + piece(0, "\n</s>\n");
  constexpr std::string_view kHex = "0123456789ABCDEF";
  for (std::size_t byte = 0; byte < 256; ++byte)
    bytes += piece(0, {std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">"});
  return bytes + piece(-1, " ") + piece(-2, "a") + piece(-3, " a");
}

std::string header(std::int32_t vocab) {
  std::string bytes;
  for (const std::int32_t number : {4, 8, 1, 2, 2, vocab, 16}) bytes += raw(number);
  return bytes;
}

std::string damage(const std::string& bytes, std::int64_t vocab) {
  try {
    (void)parse_llama2c_tokenizer(bytes, vocab, "t.bin");
  } catch (const FileError& error) {
    return error.what();
  }
  return "";
}

TEST(Llama2cTokenizer, LiesBesideTheModel) {
  for (const char* const name : {"tokenizer.bin", "tok262.bin"}) {
    const TempDir dir;
    const std::string model = dir.write("model.bin", header(-262));
    EXPECT_THAT(open_tokenizer(model).why_not, HasSubstr("tok262.bin"));
    dir.write(name, table());
    const OpenedTokenizer opened = open_tokenizer(model);
    ASSERT_EQ(opened.why_not, "");
    EXPECT_THAT(opened.tokenizer->encode("a b"), ElementsAre(1, 261, 259, 3 + 'b'));
    EXPECT_EQ(opened.tokenizer->decode(std::vector<std::int64_t>{1, 261, 259, 3 + 'b', 2}), "a b");
  }
}

TEST(Llama2cTokenizer, DamageIsNamed) {
  EXPECT_THAT(damage(table(), 263), HasSubstr("ends after"));
  EXPECT_THAT(damage(table().substr(0, 100), 262), HasSubstr("ends after 100 bytes"));
  EXPECT_THAT(damage(table(), 261), HasSubstr("must end after them"));
  EXPECT_THAT(damage(raw(std::int32_t{1}) + raw(1.0F) + raw(std::int32_t{-5}), 1), HasSubstr("got -5"));
  EXPECT_THAT(damage(raw(std::int32_t{1}) + raw(1.0F) + raw(std::int32_t{2'000'000'000}), 1),
              HasSubstr("ends"));
  const TempDir dir;
  EXPECT_THROW((void)open_tokenizer(dir.write("m.bin", "short")), FileError);
}

}  // namespace
}  // namespace locant

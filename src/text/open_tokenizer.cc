// SPDX-License-Identifier: Apache-2.0
// Which tokenizer a model brings.
#include <algorithm>
#include <cctype>
#include <filesystem>

#include "formats/json.h"
#include "locant/formats.h"
#include "locant/text.h"
#include "text/byte_level.h"
#include "text/gguf_tokenizer.h"
#include "text/llama2c_tokenizer.h"
#include "text/sentencepiece.h"

namespace locant {
namespace {

bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

/// A tiktoken table (Llama 3's original files) has the same name as a SentencePiece model; its first line is
/// base64, a space and a number.
bool is_tiktoken(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, bytes.find('\n'));
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0 || space + 1 >= line.size()) return false;
  const auto is_base64 = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '+' || c == '/' || c == '=';
  };
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0 || c == '\r'; };
  const std::string_view token = line.substr(0, space);
  const std::string_view rank = line.substr(space + 1);
  return std::all_of(token.begin(), token.end(), is_base64) &&
         std::all_of(rank.begin(), rank.end(), is_digit);
}

OpenedTokenizer open_in(const std::filesystem::path& folder) {
  SentencePieceFiles files;
  files.tokenizer_path = (folder / "tokenizer.json").string();
  files.model_path = (folder / "tokenizer.model").string();
  files.config_path = (folder / "tokenizer_config.json").string();
  std::string why_not = "text: there is no tokenizer.json or tokenizer.model beside the model; use --ids";
  if (exists(files.tokenizer_path)) {
    files.tokenizer = read_json(files.tokenizer_path);
    OpenedTokenizer opened = make_byte_level(files.tokenizer, files.tokenizer_path);
    if (opened.tokenizer) return opened;
    why_not = opened.why_not;
  }
  if (!exists(files.model_path)) return {nullptr, why_not};
  files.model = read_file(files.model_path);
  if (is_tiktoken(files.model)) {
    return {nullptr,
            "text: tokenizer.model is a tiktoken table; Locant reads byte-level vocabularies without merges "
            "and SentencePiece, use --ids"};
  }
  if (exists(files.config_path)) files.config = read_json(files.config_path);
  return make_sentencepiece(files);
}

}  // namespace

OpenedTokenizer open_tokenizer(const std::string& model) {
  const std::filesystem::path path(model);
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return open_in(path);
  if (path.extension() == ".gguf") return open_gguf_tokenizer(model);
  if (path.extension() == ".bin") return open_llama2c_tokenizer(model);
  return open_in(path.parent_path());
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
#include "text/llama2c_tokenizer.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "locant/core.h"
#include "locant/formats.h"
#include "text/piece_proto.h"
#include "text/sentencepiece.h"

namespace locant {
namespace {

namespace fs = std::filesystem;

class Reader {
 public:
  Reader(std::string_view bytes, const std::string& path) : bytes_(bytes), path_(path) {}
  template <class T>
  T number() {
    T value{};
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string_view take(std::size_t count) {
    if (count > bytes_.size() - at_) {
      throw FileError(path_,
                      fmt::format("a tokenizer.bin holds a score, a length and so many bytes a piece, the "
                                  "file ends after {} bytes",
                                  bytes_.size()),
                      static_cast<std::int64_t>(at_));
    }
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }
  [[nodiscard]] std::size_t at() const noexcept { return at_; }

 private:
  std::string_view bytes_;
  const std::string& path_;
  std::size_t at_ = 0;
};

/// Spaces as pieces write them; the export wrote them out.
std::string piece_text(std::string_view text) {
  std::string piece;
  for (const char c : text) piece += c == ' ' ? std::string_view("\xE2\x96\x81") : std::string_view(&c, 1);
  return piece;
}

PieceType type_of(std::int64_t id) {
  constexpr std::int64_t kFirstByte = 3;
  constexpr std::int64_t kBytes = 256;
  if (id == 0) return PieceType::unknown;
  if (id < kFirstByte) return PieceType::control;
  return id < kFirstByte + kBytes ? PieceType::byte : PieceType::normal;
}

std::int64_t vocab_of(const std::string& model) {
  std::array<std::int32_t, 7> header{};
  std::ifstream file(model, std::ios::binary);
  file.read(reinterpret_cast<char*>(header.data()), sizeof(header));
  if (!file)
    throw FileError(model, "a llama2.c model must begin with seven whole numbers, the file is shorter");
  return std::abs(std::int64_t{header[5]});  // negative: the head is not shared
}

}  // namespace

OpenedTokenizer parse_llama2c_tokenizer(std::string_view bytes, std::int64_t vocab, const std::string& path) {
  Reader reader(bytes, path);
  (void)reader.number<std::int32_t>();
  PieceList list;
  for (std::int64_t id = 0; id < vocab; ++id) {
    const auto score = reader.number<float>();
    const std::size_t place = reader.at();
    const auto length = reader.number<std::int32_t>();
    if (length < 0)
      throw FileError(path, fmt::format("the length of piece {} must be 0 or more, got {}", id, length),
                      static_cast<std::int64_t>(place));
    std::string text = piece_text(reader.take(static_cast<std::size_t>(length)));
    if (id == 0) text = "<unk>";
    if (id == 1) text = "<s>";
    if (id == 2) text = "</s>";
    list.pieces.push_back({std::move(text), score, type_of(id)});
  }
  if (reader.at() != bytes.size()) {
    throw FileError(path,
                    fmt::format("a tokenizer.bin for {} pieces must end after them, {} bytes follow", vocab,
                                bytes.size() - reader.at()),
                    static_cast<std::int64_t>(reader.at()));
  }
  PieceModel model;
  model.added = {{0, "<unk>", true, ""}, {1, "<s>", true, ""}, {2, "</s>", true, ""}};
  model.frame.front.push_back(1);
  model.proto = piece_proto(list);
  model.path = path;
  return make_piece_model(std::move(model));
}

OpenedTokenizer open_llama2c_tokenizer(const std::string& model) {
  const std::int64_t vocab = vocab_of(model);
  const fs::path folder = fs::path(model).parent_path();
  const std::string named = fmt::format("tok{}", vocab);
  std::error_code error;
  for (const std::string& name : {std::string("tokenizer"), named}) {
    const std::string path = (folder / (name + ".bin")).string();
    if (fs::exists(path, error)) return parse_llama2c_tokenizer(read_file(path), vocab, path);
  }
  for (const std::string& name : {std::string("tokenizer"), named}) {
    SentencePieceFiles files;
    files.model_path = (folder / (name + ".model")).string();
    if (!fs::exists(files.model_path, error)) continue;
    files.model = read_file(files.model_path);
    return make_sentencepiece(files);
  }
  return {nullptr,
          fmt::format("text: there is no tokenizer.bin, {0}.bin, tokenizer.model or {0}.model beside the "
                      "model; use --ids",
                      named)};
}

}  // namespace locant

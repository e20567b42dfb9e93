// SPDX-License-Identifier: Apache-2.0
// Any bytes as a tokenizer.model, a tokenizer.json or a llama2.c tokenizer.bin (the first byte says which): a
// tokenizer whose ids lie within its vocabulary and decode, a reason, or a FileError.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json.h"
#include "locant/core.h"
#include "text/byte_level.h"
#include "text/llama2c_tokenizer.h"
#include "text/sentencepiece.h"
#include "text/utf8.h"

namespace {

void use(const locant::OpenedTokenizer& opened) {
  if (!opened.tokenizer) {
    if (opened.why_not.empty()) std::abort();
    return;
  }
  for (const std::string_view text :
       {"", "It is a truth.", "a <s>\n  b\xC3\xA9\xE2\x96\x81", "\xF0\x9F\x98\x80 12"}) {
    try {
      const std::vector<std::int64_t> ids = opened.tokenizer->encode(text);
      for (const std::int64_t id : ids) {
        if (id < 0 || id >= opened.tokenizer->vocab()) std::abort();
        const std::string piece = opened.tokenizer->piece(id);
        if (locant::find_invalid_utf8(piece) != std::string_view::npos) std::abort();
      }
      (void)opened.tokenizer->decode(ids);
    } catch (const locant::SpecError&) {
    }
  }
}

locant::OpenedTokenizer open(std::uint8_t kind, std::string_view bytes) {
  constexpr std::int64_t kVocab = 262;
  if (kind % 3 == 0) {
    locant::SentencePieceFiles files;
    files.model = bytes;
    return locant::make_sentencepiece(files);
  }
  if (kind % 3 == 1) return locant::make_byte_level(locant::parse_json(bytes, "fuzz"), "fuzz");
  return locant::parse_llama2c_tokenizer(bytes, kVocab, "fuzz");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  try {
    use(open(data[0], {reinterpret_cast<const char*>(data) + 1, size - 1}));
  } catch (const locant::FileError& error) {
    if (error.offset > static_cast<std::int64_t>(size)) std::abort();
  }
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// The tokenizer.bin of llama2.c: i32 length of the longest piece, then for each id f32 score, i32 bytes,
// bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "locant/text.h"

namespace locant {

/// `vocab` pieces of a file's bytes. Ids 0, 1, 2 are unknown, begin and end; the 256 behind them are bytes.
/// Throws FileError for a file that ends early or goes on.
[[nodiscard]] OpenedTokenizer parse_llama2c_tokenizer(std::string_view bytes, std::int64_t vocab,
                                                      const std::string& path);
/// The tokenizer beside a llama2.c .bin model: tokenizer.bin or tok<vocab>.bin, else tokenizer.model or
/// tok<vocab>.model.
[[nodiscard]] OpenedTokenizer open_llama2c_tokenizer(const std::string& model);

}  // namespace locant

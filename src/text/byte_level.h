// SPDX-License-Identifier: Apache-2.0
// tokenizer.json as a byte-level vocabulary without merges: one id per byte, added tokens beside them. The
// vocabulary writes bytes as GPT-2 does (Radford et al. 2019): printable Latin-1 as itself, the others from
// U+0100 on.
#pragma once

#include <string>

#include "formats/json.h"
#include "locant/text.h"

namespace locant {

/// The GPT-2 character of a byte, as UTF-8.
[[nodiscard]] std::string byte_character(unsigned char byte);

/// A tokenizer, or why this file is none of this kind. `path` names the file in errors. Throws FileError for
/// what no tokenizer.json may hold.
[[nodiscard]] OpenedTokenizer make_byte_level(const Json& file, const std::string& path);

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// The vocabulary in a GGUF file's keys (tokenizer.ggml.*), as llama.cpp reads them.
#pragma once

#include <string>

#include "locant/text.h"

namespace locant {

/// Kinds "llama" and "t5" encode and decode. "gpt2" decodes alone: why_not says so. Throws FileError for keys
/// that are damaged or contradict each other.
[[nodiscard]] OpenedTokenizer open_gguf_tokenizer(const std::string& path);

}  // namespace locant

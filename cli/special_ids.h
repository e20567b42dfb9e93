// SPDX-License-Identifier: Apache-2.0
// Ids with a meaning that stand beside the config: where a text ends, and what stands for a hidden token.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "locant/spec.h"

namespace locant::cli {

struct SpecialIds {
  std::vector<std::int64_t> end;     ///< a continuation ends after one of these
  std::optional<std::int64_t> mask;  ///< the masked-LM token
};
/// End: eos of the spec and of generation_config.json; of a .gguf file also its end of a turn and of a
/// message. Mask: [MASK] or <mask> of tokenizer.json, or the .gguf key. Throws FileError for a damaged file.
[[nodiscard]] SpecialIds special_ids(const std::string& path, const ModelSpec& spec);

}  // namespace locant::cli

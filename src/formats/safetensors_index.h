// SPDX-License-Identifier: Apache-2.0
// model.safetensors.index.json: which shard beside it holds which tensor.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace locant {

/// Tensor name to shard file name; a shard name is a plain file name. Throws FileError.
[[nodiscard]] std::map<std::string, std::string, std::less<>> parse_safetensors_index(
    std::string_view text, const std::string& path);

}  // namespace locant

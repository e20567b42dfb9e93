// SPDX-License-Identifier: Apache-2.0
// Names from a file inside an error sentence.
#pragma once

#include <string>
#include <string_view>

namespace locant {

/// In double quotes; control characters, quotes, backslashes and what is not ASCII as \xNN; cut after 80
/// bytes.
[[nodiscard]] std::string quote(std::string_view text);

}  // namespace locant

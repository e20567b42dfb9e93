// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "spec/gguf_keys.h"

namespace locant {

/// As the public one, of a file that is open or in memory.
[[nodiscard]] ModelSpec read_gguf(const GgufContents& contents);

}  // namespace locant

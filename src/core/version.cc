// SPDX-License-Identifier: Apache-2.0
#include "locant/core.h"

namespace locant {

std::string_view version() noexcept {
  return LOCANT_VERSION;
}

}  // namespace locant

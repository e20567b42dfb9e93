// SPDX-License-Identifier: Apache-2.0
#include "locant/spec.h"

namespace locant {

std::string_view name_of(AttentionKind kind) noexcept {
  switch (kind) {
    case AttentionKind::full:
      return "full";
    case AttentionKind::window:
      return "window";
    case AttentionKind::chunk:
      return "chunk";
  }
  return "full";
}

}  // namespace locant

// SPDX-License-Identifier: Apache-2.0
// Which files a report speaks of, by their SHA-256: configs and tokenizers whole, weights by their headers.
#pragma once

#include <string>
#include <vector>

#include "check/evidence.h"
#include "locant/check.h"

namespace locant::check_room {

[[nodiscard]] std::vector<EvidenceItem> fingerprints(const CheckQuery& query);

}  // namespace locant::check_room

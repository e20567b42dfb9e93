// SPDX-License-Identifier: Apache-2.0
// The text of `locant trust`.
#pragma once

#include "cli/answer.h"
#include "locant/trust.h"

namespace locant::cli {

void write_trust_text(const TrustReport& report, Answer& answer);
/// The plan, before it starts: one line a part.
[[nodiscard]] std::string plan_text(const TrustPlan& plan);

}  // namespace locant::cli

// SPDX-License-Identifier: Apache-2.0
// The text of `locant trust`.
#pragma once

#include "cli/answer.h"
#include "locant/trust.h"

namespace locant::cli {

/// What `locant trust ARGS` answers, for a command that shows more than that.
[[nodiscard]] TrustReport trust_report(Args args, Host& host);
void write_trust_text(const TrustReport& report, Answer& answer);
/// The plan, before it starts: one line a part.
[[nodiscard]] std::string plan_text(const TrustPlan& plan);

}  // namespace locant::cli

// SPDX-License-Identifier: Apache-2.0
// The text form of the answer of `locant check`.
#pragma once

#include "cli/answer.h"
#include "locant/check.h"

namespace locant::cli {

void write_check_text(const CheckReport& report, Answer& answer);

}  // namespace locant::cli

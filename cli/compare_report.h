// SPDX-License-Identifier: Apache-2.0
// The JSON and the text of `locant compare`.
#pragma once

#include "cli/answer.h"
#include "locant/compare.h"

namespace locant::cli {

/// What `locant compare ARGS` answers, for a command that shows more than that.
[[nodiscard]] CompareReport compare_report(Args args, Host& host);
/// The sides differ beyond rounding from the first one, two models in their values, too.
[[nodiscard]] bool sides_differ(const CompareReport& report);
[[nodiscard]] OrderedJson compare_report_json(const CompareReport& report);
void write_compare_text(const CompareReport& report, Answer& answer);

}  // namespace locant::cli

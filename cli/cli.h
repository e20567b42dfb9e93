// SPDX-License-Identifier: Apache-2.0
// The command line as a function. Exit status: 0 done, 1 findings or differences, 2 bad usage or bad input
// (one line on stderr), 3 a bug in Locant. Throws nothing.
#pragma once

#include <span>
#include <string>

#include "cli/host.h"

namespace locant::cli {

/// `args` without the program's name.
[[nodiscard]] int run(std::span<const std::string> args, Host& host);

}  // namespace locant::cli

// SPDX-License-Identifier: Apache-2.0
// The commands, one file each. They return an exit status and throw UsageError and the library's errors.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/host.h"

namespace locant::cli {

using Args = std::span<const std::string>;

struct Command {
  std::string_view name;
  std::string_view summary;
  int (*call)(Args, Host&);
};
/// In the order of `locant help`.
[[nodiscard]] std::span<const Command> commands() noexcept;
/// Throws UsageError with the nearest name.
[[nodiscard]] const Command& find_command(const std::string& name);

int run_command(Args args, Host& host);
int inspect_command(Args args, Host& host);
int check_command(Args args, Host& host);
int trust_command(Args args, Host& host);
int trace_command(Args args, Host& host);
int diff_command(Args args, Host& host);
int compare_command(Args args, Host& host);
int report_command(Args args, Host& host);
int list_command(Args args, Host& host);
int explain_command(Args args, Host& host);
int help_command(Args args, Host& host);
/// `locant --version [--verbose]`.
int version_command(Args args, Host& host);

/// What `locant help` prints.
[[nodiscard]] std::string overview();

}  // namespace locant::cli

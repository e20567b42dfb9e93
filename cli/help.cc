// SPDX-License-Identifier: Apache-2.0
// `locant help`, `locant --version`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <ostream>

#include "cli/answer.h"
#include "cli/commands.h"
#include "locant/core.h"
#include "locant/ops.h"
#include "locant/threads.h"

namespace locant::cli {

std::string overview() {
  std::string text =
      "Locant is the input and output side of a Transformer: token embeddings, positions,\n"
      "position-aware attention and the language-model head, exact and fast.\n\n"
      "Usage: locant COMMAND [OPTIONS]\n\nCommands:\n";
  for (const Command& command : commands())
    text += fmt::format("  {:<10} {}\n", command.name, command.summary);
  text +=
      "\nOptions:\n  -h,--help        this page\n  --version        the version; with --verbose the "
      "instruction sets too\n"
      "\n`locant help COMMAND` or `locant COMMAND --help` says more.\n\n"
      "Examples:\n  locant run --text \"It is a truth\" --continue 40\n  locant inspect rope\n  locant list "
      "mechanisms\n";
  return text;
}

int help_command(Args args, Host& host) {
  Arguments arguments("help", "Prints the page of a command.", {"locant help", "locant help run"});
  std::string name;
  arguments.positional("COMMAND", name,
                       "run, inspect, check, trust, compare, trace, diff, report, list, explain or help");
  arguments.parse(args);
  if (!name.empty()) {
    const std::array<std::string, 1> ask{"--help"};
    return find_command(name).call(ask, host);
  }
  host.out() << overview();
  return 0;
}

int version_command(Args args, Host& host) {
  Arguments arguments("--version", "Prints the version.", {"locant --version", "locant --version --verbose"});
  bool verbose = false;
  arguments.flag("-v,--verbose", verbose, "the instruction sets and threads of this machine too");
  arguments.parse(args);
  host.out() << fmt::format("locant {}\n", version());
  if (verbose) {
    host.out() << fmt::format("instruction sets: {} (the first is used)\nthreads: {}\n",
                              fmt::join(cpu_targets(), ", "), ThreadPool::hardware());
  }
  return 0;
}

}  // namespace locant::cli

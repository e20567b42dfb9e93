// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "cli/cli.h"
#include "cli/native_host.h"

int main(int argc, char** argv) {
  locant::cli::NativeHost host(argc > 0 ? argv[0] : "locant");
  const std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
  return locant::cli::run(args, host);
}

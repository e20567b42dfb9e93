// SPDX-License-Identifier: Apache-2.0
// What a host without Python answers when another runtime is asked for.
#include "cli/host.h"

#include <fmt/format.h>

#include "cli/arguments.h"

namespace locant::cli {
namespace {

[[noreturn]] void refuse(const std::string& runtime) {
  throw UsageError(fmt::format(
      "--runtime {}: this command has only locant's own; `pip install .` in the source tree installs the one "
      "that has the others",
      runtime));
}

}  // namespace

void Host::record(const RecordJob& job) {
  refuse(job.runtime);
}

std::unique_ptr<Runtime> Host::open_runtime(const std::string& name, const std::string&) {
  refuse(name);
}

}  // namespace locant::cli

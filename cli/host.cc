// SPDX-License-Identifier: Apache-2.0
// The environment and memory of the process, and what a host without Python answers when another runtime is
// asked for.
#include "cli/host.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdlib>
#include <fstream>

#include "cli/arguments.h"
#include "cli/memory.h"

namespace locant::cli {
namespace {

[[noreturn]] void refuse(const std::string& runtime) {
  throw UsageError(fmt::format(
      "--runtime {}: this command has only locant's own; `pip install .` in the source tree installs the one "
      "that has the others",
      runtime));
}

}  // namespace

std::string Host::environment(const std::string& name) const {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

// Linux hands ru_maxrss down from the process that started this one; the mark of its own memory is not.
std::int64_t Host::peak_bytes() const {
  std::ifstream status("/proc/self/status");
  std::int64_t kib = 0;
  for (std::string word; status >> word;) {
    if (word == "VmHWM:" && status >> kib) return kib * 1024;
  }
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
#ifdef __APPLE__
  return usage.ru_maxrss;
#else
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
#endif
}

std::optional<std::int64_t> Host::available_bytes() const {
  return available_memory();
}

void Host::record(const RecordJob& job) {
  refuse(job.runtime);
}

std::unique_ptr<Runtime> Host::open_runtime(const std::string& name, const std::string&) {
  refuse(name);
}

}  // namespace locant::cli

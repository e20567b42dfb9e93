// SPDX-License-Identifier: Apache-2.0
#include "cli/native_host.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

namespace locant::cli {

std::ostream& NativeHost::out() {
  return std::cout;
}
std::ostream& NativeHost::err() {
  return std::cerr;
}
bool NativeHost::out_is_terminal() const {
  return isatty(STDOUT_FILENO) != 0;
}
bool NativeHost::err_is_terminal() const {
  return isatty(STDERR_FILENO) != 0;
}

std::string NativeHost::environment(const std::string& name) const {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

std::string NativeHost::executable() const {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) return self.string();
  const std::filesystem::path given = std::filesystem::canonical(program_, error);
  return error ? "" : given.string();
}

std::int64_t NativeHost::peak_bytes() const {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
#ifdef __APPLE__
  return usage.ru_maxrss;
#else
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
#endif
}

}  // namespace locant::cli

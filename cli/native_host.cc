// SPDX-License-Identifier: Apache-2.0
#include "cli/native_host.h"

#include <unistd.h>

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

std::string NativeHost::executable() const {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) return self.string();
  const std::filesystem::path given = std::filesystem::canonical(program_, error);
  return error ? "" : given.string();
}

}  // namespace locant::cli
